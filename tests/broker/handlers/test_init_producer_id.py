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
from ottla.zk.bootstrap import prepare_tree
from ottla.zk.embedded import EmbeddedStore
from tests.broker.support.hosted import context, inline

MAX_TIMEOUT_MS = 900_000


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
) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    return init_producer_id.handle(
        InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        ),
        context(ApiKey.INIT_PRODUCER_ID, 5),
        producer_ids=producer_ids,
        transaction_max_timeout_ms=MAX_TIMEOUT_MS,
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
    assert isinstance(answer, InitProducerIdResponse)
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


async def test_transactional_ids_find_no_coordinator_yet(producer_ids: ProducerIds) -> None:
    assert refused(ask(producer_ids, "")) == ErrorCode.INVALID_REQUEST
    for timeout_ms in (0, -1, MAX_TIMEOUT_MS + 1):
        assert refused(ask(producer_ids, "mine", timeout_ms=timeout_ms)) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert refused(ask(producer_ids, "mine")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused(ask(producer_ids, "mine", timeout_ms=MAX_TIMEOUT_MS)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
