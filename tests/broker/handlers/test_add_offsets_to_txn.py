from collections.abc import Iterable

import pytest

from ottla.broker.handlers import add_offsets_to_txn
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tests.broker.support.transactions import NAME, Transactions, answered

GROUP_PARTITION = 17
created: list[str] = []


@pytest.fixture
def transactions() -> Transactions:
    transactions = Transactions()
    transactions.lead()
    created.clear()
    return transactions


def send(
    transactions: Transactions, producer: tuple[int, int], version: int = 4, partition: int | None = GROUP_PARTITION
) -> AddOffsetsToTxnResponse | Deferred[AddOffsetsToTxnResponse]:
    def create(names: Iterable[str]) -> None:
        created.extend(names)

    request = AddOffsetsToTxnRequest(
        transactional_id=NAME, producer_id=producer[0], producer_epoch=producer[1], group_id="readers"
    )
    return add_offsets_to_txn.handle(
        AddOffsetsToTxnRequest.decode(request.encode(version), version),
        RequestContext(ApiKey.ADD_OFFSETS_TO_TXN, version),
        transactions=transactions.coordinator,
        partition_for={"readers": partition}.__getitem__,
        create=create,
    )


@pytest.mark.parametrize("version", range(5))
def test_the_partition_that_keeps_the_group_is_in_the_transaction(transactions: Transactions, version: int) -> None:
    response = answered(send(transactions, transactions.init(), version))
    assert AddOffsetsToTxnResponse.decode(response.encode(version), version).error_code == ErrorCode.NONE
    assert transactions.described() == ("Ongoing", [("__consumer_offsets", [GROUP_PARTITION])])
    assert created == []


def test_the_reply_waits_for_the_log_and_mutes_the_connection(transactions: Transactions) -> None:
    producer = transactions.init()
    transactions.log.is_holding = True
    reply = send(transactions, producer)
    assert isinstance(reply, Deferred)
    assert (reply.applied, reply.done) == (False, False)
    transactions.log.commit()
    assert reply.response.error_code == ErrorCode.NONE


def test_the_first_request_creates_the_topic_because_no_consumer_did(transactions: Transactions) -> None:
    producer = transactions.init()
    response = answered(send(transactions, producer, partition=None))
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert created == ["__consumer_offsets"]
    assert transactions.described() == ("Empty", [])


@pytest.mark.parametrize(("version", "code"), [(0, 47), (1, 47), (2, 90), (4, 90)])
def test_a_fenced_producer_gets_the_code_that_its_version_knows(
    transactions: Transactions, version: int, code: int
) -> None:
    producer = transactions.init()
    transactions.init()
    assert answered(send(transactions, producer, version)).error_code == code


def test_an_error_of_the_coordinator_is_answered() -> None:
    assert answered(send(Transactions(), (5, 0))).error_code == ErrorCode.NOT_COORDINATOR
