from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.cluster.producer_ids import ProducerIds
from ottla.broker.handlers import init_producer_id
from ottla.broker.loop.deferred import Deferred
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.types import TopicPartition
from ottla.zk.bootstrap import prepare_tree
from ottla.zk.embedded import EmbeddedStore
from tests.broker.support.hosted import context, inline
from tests.broker.support.transactions import Transactions, answered

P0 = TopicPartition("orders", 0)


@pytest.fixture
async def producer_ids(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[ProducerIds]:
    store = EmbeddedStore(tmp_path / "store.db", inline)
    await store.open()
    session = store.session(lambda event: None)
    await prepare_tree(session, "cluster")

    def start_soon(function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        nursery.start_soon(function, *args)

    yield ProducerIds(session, 0, start_soon)
    await store.close()


def ask(
    producer_ids: ProducerIds,
    transactional_id: str | None = None,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    timeout_ms: int = 60_000,
    version: int = 5,
    transactions: Transactions | None = None,
) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    return init_producer_id.handle(
        InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        ),
        context(ApiKey.INIT_PRODUCER_ID, version),
        producer_ids=producer_ids,
        transactions=(transactions or Transactions()).coordinator,
    )


async def given(producer_ids: ProducerIds, *, producer_id: int = -1, producer_epoch: int = -1) -> int:
    answer = ask(producer_ids, producer_id=producer_id, producer_epoch=producer_epoch)
    while isinstance(answer, Deferred):
        await trio.lowlevel.checkpoint()
        if answer.done:
            answer = answer.response
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    return answer.producer_id


def refused(answer: InitProducerIdResponse | Deferred[InitProducerIdResponse]) -> int:
    answer = answered(answer)
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    return answer.error_code


async def test_every_idempotent_producer_gets_its_own_id_and_epoch_zero(producer_ids: ProducerIds) -> None:
    assert len({await given(producer_ids) for _ in range(50)}) == 50


async def test_the_first_one_waits_for_a_block_and_mutes_its_connection(producer_ids: ProducerIds) -> None:
    answer = ask(producer_ids)
    assert isinstance(answer, Deferred)
    assert not answer.applied
    assert not answer.done


async def test_a_producer_that_had_an_id_gets_a_new_one(producer_ids: ProducerIds) -> None:
    first = await given(producer_ids)
    assert await given(producer_ids, producer_id=first, producer_epoch=3) != first


async def test_an_id_without_an_epoch_or_the_reverse_is_invalid(producer_ids: ProducerIds) -> None:
    assert refused(ask(producer_ids, producer_id=5)) == ErrorCode.INVALID_REQUEST
    assert refused(ask(producer_ids, producer_epoch=5)) == ErrorCode.INVALID_REQUEST


# With a transactional id


@pytest.fixture
def transactions() -> Transactions:
    transactions = Transactions()
    transactions.lead()
    return transactions


async def test_a_transactional_id_keeps_its_producer_id_and_each_producer_gets_the_next_epoch(
    producer_ids: ProducerIds, transactions: Transactions
) -> None:
    found = [answered(ask(producer_ids, "mine", transactions=transactions, version=version)) for version in range(6)]
    assert {each.producer_id for each in found} == {1001}
    assert [each.producer_epoch for each in found] == [0, 1, 2, 3, 4, 5]
    assert answered(ask(producer_ids, "other", transactions=transactions)).producer_id == 1002


async def test_the_reply_waits_for_the_log_and_mutes_the_connection(
    producer_ids: ProducerIds, transactions: Transactions
) -> None:
    transactions.log.is_holding = True
    reply = ask(producer_ids, "mine", transactions=transactions)
    assert isinstance(reply, Deferred)
    assert (reply.applied, reply.done) == (False, False)
    transactions.log.commit()
    assert reply.response.error_code == ErrorCode.NONE


async def test_an_open_transaction_is_aborted_first(producer_ids: ProducerIds, transactions: Transactions) -> None:
    transactions.add(transactions.init("mine"), P0, name="mine")
    assert refused(ask(producer_ids, "mine", transactions=transactions)) == ErrorCode.CONCURRENT_TRANSACTIONS
    ((marker, marked),) = transactions.markers
    assert (marker.is_commit, marker.producer_epoch) == (False, 1)
    marked(P0)
    assert answered(ask(producer_ids, "mine", transactions=transactions)).producer_epoch == 2


async def test_a_producer_that_names_its_epoch_is_fenced_by_a_newer_one(
    producer_ids: ProducerIds, transactions: Transactions
) -> None:
    producer_id, _ = transactions.init("mine")
    transactions.init("mine")
    for version, code in ((3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)):
        stale = ask(
            producer_ids, "mine", producer_id=producer_id, producer_epoch=0, transactions=transactions, version=version
        )
        assert refused(stale) == code
    current = ask(producer_ids, "mine", producer_id=producer_id, producer_epoch=1, transactions=transactions)
    assert answered(current).producer_epoch == 2


async def test_requests_that_no_coordinator_takes(producer_ids: ProducerIds, transactions: Transactions) -> None:
    assert refused(ask(producer_ids, "", transactions=transactions)) == ErrorCode.INVALID_REQUEST
    for timeout_ms in (0, -1, 900_001):
        late = ask(producer_ids, "mine", timeout_ms=timeout_ms, transactions=transactions)
        assert refused(late) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert answered(ask(producer_ids, "mine", timeout_ms=900_000, transactions=transactions)).error_code == 0
    assert refused(ask(producer_ids, "mine", producer_id=5, transactions=transactions)) == ErrorCode.INVALID_REQUEST
    assert refused(ask(producer_ids, "mine")) == ErrorCode.NOT_COORDINATOR
