from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.cluster.producer_ids import ProducerIds
from ottla.broker.loop.deferred import Deferred
from ottla.zk.bootstrap import prepare_tree
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.znodes import PRODUCER_ID_BLOCK, ProducerIdBlock
from tests.broker.controller.cluster import settle, wait_for
from tests.zk.stores import open_store

pytestmark = pytest.mark.once


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    store = await open_store(tmp_path)
    await prepare_tree(store.session(lambda event: None), "c")
    yield store
    await store.close()


def ids_of(store: EmbeddedStore, nursery: trio.Nursery, broker_id: int = 0) -> ProducerIds:
    return ProducerIds(store.session(lambda event: None), broker_id, nursery.start_soon)


async def block(store: EmbeddedStore) -> ProducerIdBlock:
    return ProducerIdBlock.decode((await store.session(lambda event: None).get(PRODUCER_ID_BLOCK))[0])


async def test_the_first_id_of_a_cluster_is_zero_and_its_block_is_written(
    store: EmbeddedStore, nursery: trio.Nursery
) -> None:
    assert await wait_for(ids_of(store, nursery, 3).next()) == 0
    assert await block(store) == ProducerIdBlock(3, 0, 999)


async def test_ids_count_up_across_blocks_without_a_wait(store: EmbeddedStore, nursery: trio.Nursery) -> None:
    ids = ids_of(store, nursery)
    found = [await wait_for(ids.next())]
    for number in range(1, 3500):
        given = ids.next()
        assert not isinstance(given, Deferred), number
        found.append(given)
        if number % 50 == 0:
            await settle()
    assert found == list(range(3500))


async def test_brokers_never_get_the_same_id(store: EmbeddedStore, nursery: trio.Nursery) -> None:
    one, other = ids_of(store, nursery, 1), ids_of(store, nursery, 2)
    waiting = [ids.next() for _ in range(1500) for ids in (one, other)]
    found = [await wait_for(each) for each in waiting]
    assert len(set(found)) == 3000


async def test_the_unused_ids_of_a_killed_broker_are_never_given(store: EmbeddedStore, nursery: trio.Nursery) -> None:
    before = ids_of(store, nursery)
    used = {await wait_for(before.next()) for _ in range(10)}
    after = ids_of(store, nursery)
    assert {await wait_for(after.next()) for _ in range(1000)}.isdisjoint(used | set(range(1000)))


async def test_an_abandoned_request_uses_no_id(store: EmbeddedStore, nursery: trio.Nursery) -> None:
    ids = ids_of(store, nursery)
    first, second = ids.next(), ids.next()
    assert isinstance(first, Deferred)
    first.abandon()
    assert await wait_for(second) == 0


async def test_a_store_that_fails_is_asked_again(
    store: EmbeddedStore, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    session = store.session(lambda event: None)
    await session.delete(PRODUCER_ID_BLOCK)
    waiting = ids_of(store, nursery).next()
    await trio.sleep(1)
    assert isinstance(waiting, Deferred)
    assert not waiting.done
    await session.create(PRODUCER_ID_BLOCK)
    assert await wait_for(waiting) == 0
