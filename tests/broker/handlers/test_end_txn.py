import pytest

from ottla.broker.handlers import end_txn
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.types import TopicPartition
from tests.broker.support.transactions import NAME, Transactions

P0 = TopicPartition("orders", 0)


@pytest.fixture
def transactions() -> Transactions:
    transactions = Transactions()
    transactions.lead()
    return transactions


def send(
    transactions: Transactions, producer: tuple[int, int], *, is_commit: bool = True, version: int = 4
) -> Deferred[EndTxnResponse]:
    request = EndTxnRequest(
        transactional_id=NAME, producer_id=producer[0], producer_epoch=producer[1], committed=is_commit
    )
    return end_txn.handle(
        EndTxnRequest.decode(request.encode(version), version),
        RequestContext(ApiKey.END_TXN, version),
        transactions=transactions.coordinator,
    )


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("is_commit", [True, False])
def test_the_reply_comes_with_the_decision_and_the_markers_follow(
    transactions: Transactions, version: int, is_commit: bool
) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    transactions.log.is_holding = True
    reply = send(transactions, producer, is_commit=is_commit, version=version)
    assert (reply.applied, reply.done, transactions.markers) == (False, False, [])
    transactions.log.commit()
    assert EndTxnResponse.decode(reply.response.encode(version), version).error_code == ErrorCode.NONE
    ((marker, marked),) = transactions.markers
    assert (marker.is_commit, marker.partitions) == (is_commit, (P0,))
    prepared, complete = ("PrepareCommit", "CompleteCommit") if is_commit else ("PrepareAbort", "CompleteAbort")
    assert transactions.described() == (prepared, [("orders", [0])])
    transactions.log.is_holding = False
    marked(P0)
    assert transactions.described() == (complete, [])


def test_the_same_request_again_gets_the_same_answer_and_the_opposite_one_an_error(transactions: Transactions) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    transactions.end(producer)
    assert send(transactions, producer).response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    ((_, marked),) = transactions.markers
    marked(P0)
    assert send(transactions, producer).response.error_code == ErrorCode.NONE
    assert send(transactions, producer, is_commit=False).response.error_code == ErrorCode.INVALID_TXN_STATE
    assert len(transactions.markers) == 1


@pytest.mark.parametrize(("version", "code"), [(0, 47), (1, 47), (2, 90), (4, 90)])
def test_a_fenced_producer_gets_the_code_that_its_version_knows(
    transactions: Transactions, version: int, code: int
) -> None:
    producer = transactions.init()
    transactions.init()
    assert send(transactions, producer, version=version).response.error_code == code


def test_a_refusal_of_the_whole_request_is_its_only_error() -> None:
    asked = EndTxnRequest(transactional_id=NAME, producer_id=1, producer_epoch=0, committed=True)
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert end_txn.error_response(asked, 4, denied).error_code == denied
