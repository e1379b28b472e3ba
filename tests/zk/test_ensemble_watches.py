"""The order of events and responses of an ensemble, and watches over lost connections."""

import random

import pytest
import trio

from compat_tests.support.zookeeper import ZooKeeper
from ottla.zk.ensemble import EnsembleStore
from ottla.zk.store import (
    Create,
    EventType,
    SetData,
    WatchEvent,
)
from tests.zk.proxy import Proxy
from tests.zk.stores import PATIENCE_S, Client, Outcome

pytestmark = pytest.mark.slow


# The order of the socket


@pytest.mark.trials(few=400, soak=2000)
@pytest.mark.once
async def test_no_read_shows_a_change_before_its_event_is_delivered(
    zookeeper: ZooKeeper, direct: Client, chroot: str, trials: int
) -> None:
    store = EnsembleStore(zookeeper.connect + chroot)
    fired = dict.fromkeys([f"/{number}" for number in range(4)], 0)

    def on_event(event: WatchEvent) -> None:
        fired[event.path] += 1

    session = await store.session(on_event)
    await direct.session.multi([Create(path) for path in fired])

    async def read(path: str) -> None:
        version = 0
        while version < trials:
            events = fired[path]
            version = watched = (await session.get(path, watch=True))[1].version
            while fired[path] == events and version < trials:
                version = (await session.get(path))[1].version
                assert version == watched or fired[path] > events, "a change was read whose event was not delivered"

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            for path in fired:
                nursery.start_soon(read, path)
            for _ in range(trials // 20):
                await direct.session.multi_all([[SetData(path, b"")] for path in [*fired] * 20])
    assert min(fired.values()) > trials // 40
    await store.close()


@pytest.mark.trials(few=1000, soak=5000)
@pytest.mark.once
async def test_a_watch_that_is_set_by_a_read_misses_no_change_after_it(
    zookeeper: ZooKeeper, direct: Client, chroot: str, trials: int
) -> None:
    store = EnsembleStore(zookeeper.connect + chroot)
    has_changed = trio.Event()
    session = await store.session(lambda event: has_changed.set())
    await direct.session.create("/a")
    seen: list[int] = []

    async def follow() -> None:
        nonlocal has_changed
        while not seen or seen[-1] < trials:
            has_changed = trio.Event()
            seen.append((await session.get("/a", watch=True))[1].version)
            if seen[-1] < trials:
                await has_changed.wait()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            for _ in range(trials):
                await direct.session.set("/a", b"")
    # Every watch fired because of a change.
    assert seen == sorted(set(seen))
    await store.close()


# Watches over a lost connection


async def test_watches_that_missed_a_change_fire_before_any_read(direct: Client, frail: Client, proxy: Proxy) -> None:
    await direct.session.multi(
        [Create(path) for path in ("/changed", "/gone", "/family", "/family/a", "/same", "/again")]
    )
    for path in ("/changed", "/gone", "/same", "/again"):
        await frail.session.get(path, watch=True)
    await frail.session.exists("/comes", watch=True)
    await frail.session.exists("/never", watch=True)
    for path in ("/family", "/gone", "/same"):
        await frail.session.children(path, watch=True)
    proxy.cut()
    await direct.session.set("/changed", b"x")
    await direct.session.delete("/gone")
    await direct.session.create("/comes")
    await direct.session.create("/family/b")
    await direct.session.delete("/again")
    await direct.session.create("/again")
    assert frail.events == []
    read = Outcome()
    seen_by_read: list[WatchEvent] = []

    async def read_all() -> object:
        found = await frail.session.get_many(["/changed", "/comes", "/gone", "/family"])
        seen_by_read.extend(frail.events)
        return found

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read.of, read_all)
        await trio.testing.wait_all_tasks_blocked()
        proxy.heal()
    assert sorted(seen_by_read, key=str) == sorted(
        [
            WatchEvent(EventType.CHANGED, "/changed"),
            WatchEvent(EventType.DELETED, "/gone"),
            WatchEvent(EventType.CREATED, "/comes"),
            WatchEvent(EventType.CHILD, "/family"),
            WatchEvent(EventType.CHANGED, "/again"),
        ],
        key=str,
    )
    frail.events.clear()
    # The other watches are still set.
    await direct.session.create("/same/child")
    await direct.session.set("/same", b"x")
    await direct.session.create("/never")
    await direct.session.set("/changed", b"y")
    await frail.session.exists("/")
    assert frail.events == [
        WatchEvent(EventType.CHILD, "/same"),
        WatchEvent(EventType.CHANGED, "/same"),
        WatchEvent(EventType.CREATED, "/never"),
    ]


@pytest.mark.trials(few=1000, soak=5000)
@pytest.mark.once
async def test_no_change_is_missed_however_often_the_connection_is_lost(
    direct: Client, proxy: Proxy, chroot: str, seed: int, trials: int
) -> None:
    chance = random.Random(seed)
    store = EnsembleStore(proxy.connect + chroot, session_timeout_ms=4_000)
    await direct.session.create("/a")
    versions: list[int] = []
    has_changed = trio.Event()
    session = await store.session(lambda event: has_changed.set())

    async def follow() -> None:
        nonlocal has_changed
        while not versions or versions[-1] < trials:
            has_changed = trio.Event()
            versions.append((await session.get("/a", watch=True))[1].version)
            if versions[-1] < trials:
                await has_changed.wait()

    async def trouble() -> None:
        while True:
            await trio.sleep(chance.uniform(0, 0.3))
            proxy.cut()
            proxy.heal()

    with trio.fail_after(PATIENCE_S * 2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trouble)
            async with trio.open_nursery() as work:
                work.start_soon(follow)
                for _ in range(trials):
                    await direct.session.set("/a", b"")
            nursery.cancel_scope.cancel()
    assert proxy.accepted > 2
    await store.close()
