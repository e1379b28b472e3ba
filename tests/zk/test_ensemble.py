"""What only an ensemble does: connections are lost, sessions expire, events and answers come over one socket."""

import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trio

from compat_tests.zookeeper import ZooKeeper
from ottla.zk.ensemble import EnsembleSession, EnsembleStore
from ottla.zk.kazoo_client import set_watches
from ottla.zk.store import (
    BadVersionError,
    Check,
    Create,
    EventType,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SetData,
    StoreError,
    StoreFailedError,
    WatchEvent,
)
from tests.zk.proxy import Proxy, proxy_to
from tests.zk.stores import Client, begin

pytestmark = pytest.mark.slow

# Longer than a client needs to come back over a proxy that heals at once.
SESSION_TIMEOUT_MS = 4_000
BRIEF_SESSION_MS = 600
PATIENCE_S = 30

_chroots = itertools.count()


@pytest.fixture
def chroot() -> str:
    return f"/ensemble{next(_chroots)}"


@pytest.fixture
async def proxy(zookeeper: ZooKeeper) -> AsyncIterator[Proxy]:
    async with proxy_to(zookeeper.port) as proxy:
        yield proxy


@pytest.fixture
async def direct(zookeeper: ZooKeeper, chroot: str) -> AsyncIterator[Client]:
    """A session that nothing happens to."""
    store = EnsembleStore(zookeeper.connect + chroot)
    await store.open()
    yield await begin(store)
    await store.close()


@pytest.fixture
async def frail(direct: Client, proxy: Proxy, chroot: str) -> AsyncIterator[Client]:
    """A session over the proxy, to the same tree."""
    store = EnsembleStore(proxy.connect + chroot, session_timeout_ms=SESSION_TIMEOUT_MS)
    with trio.fail_after(PATIENCE_S):
        yield await begin(store)
    proxy.heal()
    await store.close()


@pytest.fixture
async def brief(direct: Client, proxy: Proxy, chroot: str) -> AsyncIterator[Client]:
    """A session over the proxy that expires soon."""
    store = EnsembleStore(proxy.connect + chroot, session_timeout_ms=BRIEF_SESSION_MS)
    yield await begin(store)
    proxy.heal()
    await store.close()


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not condition():
            await trio.sleep(0.01)


async def until_exists(client: Client, path: str) -> None:
    with trio.fail_after(PATIENCE_S):
        while await client.session.exists(path) is None:
            await trio.sleep(0.01)


class Outcome:
    """What a call in the background ended with."""

    def __init__(self) -> None:
        self.value: object = None
        self.is_there = False

    async def of(self, call: Callable[[], Awaitable[object]]) -> None:
        try:
            self.value = await call()
        except StoreError as error:
            self.value = error
        self.is_there = True


# The order of the socket


async def test_no_read_shows_a_change_before_its_event_is_delivered(
    zookeeper: ZooKeeper, direct: Client, chroot: str, trials: int
) -> None:
    store = EnsembleStore(zookeeper.connect + chroot)
    fired = dict.fromkeys([f"/{number}" for number in range(4)], 0)

    def on_event(event: WatchEvent) -> None:
        fired[event.path] += 1

    session = await store.session(on_event)
    changes = 40 * trials
    await direct.session.multi([Create(path) for path in fired])

    async def read(path: str) -> None:
        version = 0
        while version < changes:
            events = fired[path]
            version = watched = (await session.get(path, watch=True))[1].version
            while fired[path] == events and version < changes:
                version = (await session.get(path))[1].version
                assert version == watched or fired[path] > events, "a change was read whose event was not delivered"

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            for path in fired:
                nursery.start_soon(read, path)
            for _ in range(changes // 20):
                await direct.session.multi_all([[SetData(path, b"")] for path in [*fired] * 20])
    assert min(fired.values()) > trials
    await store.close()


async def test_a_watch_that_is_set_by_a_read_misses_no_change_after_it(
    zookeeper: ZooKeeper, direct: Client, chroot: str, trials: int
) -> None:
    store = EnsembleStore(zookeeper.connect + chroot)
    has_changed = trio.Event()
    session = await store.session(lambda event: has_changed.set())
    await direct.session.create("/a")
    changes = 100 * trials
    seen: list[int] = []

    async def follow() -> None:
        nonlocal has_changed
        while not seen or seen[-1] < changes:
            has_changed = trio.Event()
            seen.append((await session.get("/a", watch=True))[1].version)
            if seen[-1] < changes:
                await has_changed.wait()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            for _ in range(changes):
                await direct.session.set("/a", b"")
    # Every watch fired because of a change.
    assert seen == sorted(set(seen))
    await store.close()


# Lost connections


async def test_what_was_done_before_the_connection_was_lost_is_no_error(
    direct: Client, frail: Client, proxy: Proxy
) -> None:
    await direct.session.create("/conditional", b"old")
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: frail.session.create("/persistent", b"mine"),
        lambda: frail.session.create("/ephemeral", b"mine", ephemeral=True),
        lambda: frail.session.set("/conditional", b"new", 0),
        lambda: frail.session.multi(
            [Check("/conditional", 1), Create("/a", b"1"), SetData("/a", b"2"), Create("/last")]
        ),
    ]
    proxy.hold_answers()
    outcomes = [Outcome() for _ in calls]
    async with trio.open_nursery() as nursery:
        for call, outcome in zip(calls, outcomes, strict=True):
            nursery.start_soon(outcome.of, call)
            await trio.testing.wait_all_tasks_blocked()
        await until_exists(direct, "/last")
        assert not any(outcome.is_there for outcome in outcomes)
        proxy.cut()
        proxy.heal()
    stat = await direct.session.exists("/ephemeral")
    assert stat is not None
    assert stat.ephemeral_owner == frail.session.session_id
    assert outcomes[1].value == ("/ephemeral", stat)
    assert [path for path, _ in outcomes[3].value] == ["/conditional", "/a", "/a", "/last"]  # type: ignore[attr-defined]
    assert outcomes[2].value == (await direct.session.get("/conditional"))[1]
    assert outcomes[0].value == ("/persistent", await direct.session.exists("/persistent"))


async def test_what_others_did_is_an_error_also_after_a_lost_connection(
    direct: Client, frail: Client, proxy: Proxy
) -> None:
    await direct.session.create("/changed", b"old")
    await direct.session.set("/changed", b"new")
    await frail.session.create("/again", b"mine", ephemeral=True)
    # Later than all that the other session has seen.
    await direct.session.create("/theirs", b"theirs", ephemeral=True)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: frail.session.create("/theirs", b"mine"),
        lambda: frail.session.create("/theirs", b"theirs", ephemeral=True),
        lambda: frail.session.set("/changed", b"new", 0),
        lambda: frail.session.create("/again", b"mine", ephemeral=True),
        lambda: frail.session.delete("/nothing"),
    ]
    proxy.hold_answers()
    outcomes = [Outcome() for _ in calls]
    async with trio.open_nursery() as nursery:
        for call, outcome in zip(calls, outcomes, strict=True):
            nursery.start_soon(outcome.of, call)
        await trio.testing.wait_all_tasks_blocked()
        proxy.cut()
        proxy.heal()
    assert [type(outcome.value) for outcome in outcomes] == [
        *(NodeExistsError, NodeExistsError, BadVersionError, NodeExistsError, NoNodeError),
    ]


async def test_transactions_keep_their_order_over_lost_connections(
    direct: Client, frail: Client, proxy: Proxy, seed: int, trials: int
) -> None:
    """Each asks for the version that the one before leaves: one that overtakes another fails."""
    chance = random.Random(seed)
    await direct.session.create("/a", b"")
    outcome = Outcome()
    steps = [[SetData("/a", b"%d" % number, number)] for number in range(300)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outcome.of, lambda: frail.session.multi_all(steps))
        for _ in range(trials):
            await trio.sleep(chance.uniform(0, 0.05))
            proxy.cut()
            proxy.heal()
    assert (await direct.session.get("/a"))[1].version == 300
    # Of one that was lost and followed by others nobody can say any more that it was done.
    assert isinstance(outcome.value, list)
    assert len([each for each in outcome.value if isinstance(each, StoreError)]) <= trials * 10
    assert outcome.value[-1][0].stat.version == 300


async def test_a_server_that_falls_silent_is_left_and_its_calls_are_asked_again(
    direct: Client, frail: Client, proxy: Proxy
) -> None:
    await direct.session.create("/a", b"x")
    proxy.hold_answers()
    outcome = Outcome()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outcome.of, lambda: frail.session.get("/a"))
        await until(lambda: proxy.ended)
        assert not outcome.is_there
        proxy.heal()
    assert outcome.value == await direct.session.get("/a")
    assert frail.events == []


async def test_many_calls_wait_for_a_connection_and_hold_up_nobody(direct: Client, frail: Client, proxy: Proxy) -> None:
    await direct.session.create("/a")
    proxy.cut()
    outcomes = [Outcome() for _ in range(1_000)]
    async with trio.open_nursery() as nursery:
        for outcome in outcomes:
            nursery.start_soon(outcome.of, lambda: frail.session.exists("/a"))
        with trio.fail_after(PATIENCE_S):
            await direct.session.set("/a", b"")
        assert not any(outcome.is_there for outcome in outcomes)
        proxy.heal()
    stat = await direct.session.exists("/a")
    assert all(outcome.value == stat for outcome in outcomes)


async def test_a_call_that_is_cancelled_makes_room_for_others_when_it_is_answered(
    direct: Client, frail: Client, proxy: Proxy
) -> None:
    proxy.hold_answers()
    for _ in range(20):
        with trio.move_on_after(0):
            await frail.session.exists("/")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(frail.session.exists, "/")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    proxy.heal()
    assert await frail.session.get_many(["/"] * 20) == [await direct.session.get("/")] * 20


# Watches over a lost connection


async def test_watches_that_missed_a_change_fire_before_anything_is_read(
    direct: Client, frail: Client, proxy: Proxy
) -> None:
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
    # The others are still set.
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


async def test_no_change_is_missed_however_often_the_connection_is_lost(
    direct: Client, proxy: Proxy, chroot: str, seed: int, trials: int
) -> None:
    chance = random.Random(seed)
    store = EnsembleStore(proxy.connect + chroot, session_timeout_ms=SESSION_TIMEOUT_MS)
    await direct.session.create("/a")
    changes = 100 * trials
    versions: list[int] = []
    has_changed = trio.Event()
    session = await store.session(lambda event: has_changed.set())

    async def follow() -> None:
        nonlocal has_changed
        while not versions or versions[-1] < changes:
            has_changed = trio.Event()
            versions.append((await session.get("/a", watch=True))[1].version)
            if versions[-1] < changes:
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
                for _ in range(changes):
                    await direct.session.set("/a", b"")
            nursery.cancel_scope.cancel()
    assert proxy.accepted > 2
    await store.close()


def test_watches_are_set_again_in_requests_of_a_size_that_a_server_takes() -> None:
    data = {f"/data/{number:0100d}": number % 3 > 0 for number in range(5_000)}
    children = {f"/children/{number:0100d}" for number in range(5_000)}
    requests = list(set_watches(7, data, children))
    assert all(len(request.serialize()) < 200_000 for request in requests)
    assert {request.zxid for request in requests} == {7}
    assert sorted(path for request in requests for path in request.child) == sorted(children)
    found = {path: True for request in requests for path in request.data}
    found.update({path: False for request in requests for path in request.exist})
    assert found == data


# The end of a session


async def test_an_expired_session_says_so_once_and_does_nothing_any_more(
    direct: Client, brief: Client, proxy: Proxy
) -> None:
    await brief.session.create("/e", ephemeral=True)
    await direct.session.exists("/e", watch=True)
    waiting = Outcome()
    async with trio.open_nursery() as nursery:
        proxy.cut()
        nursery.start_soon(waiting.of, lambda: brief.session.create("/late"))
        await until(lambda: direct.events)
        assert direct.events == [WatchEvent(EventType.DELETED, "/e")]
        assert brief.events == []
        proxy.heal()
    assert isinstance(waiting.value, SessionExpiredError)
    await until(lambda: brief.events)
    # Nor is there another session in its place.
    assert isinstance(brief.session, EnsembleSession)
    await until(brief.session.client.connection_has_ended)
    for call in (brief.session.exists("/"), brief.session.create("/late"), brief.session.get_many(["/"])):
        with pytest.raises(SessionExpiredError):
            await call
    assert [type(each) for each in await brief.session.multi_all([[Create("/late")]] * 2)] == [SessionExpiredError] * 2
    assert await direct.session.exists("/late") is None
    await brief.session.close()
    assert brief.events == [WatchEvent(EventType.EXPIRED, "")]


async def test_a_session_that_is_closed_tells_nobody(direct: Client, frail: Client, proxy: Proxy) -> None:
    await frail.session.create("/e", ephemeral=True)
    await frail.session.exists("/e", watch=True)
    waiting = Outcome()
    proxy.hold_answers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.of, lambda: frail.session.exists("/"))
        await trio.testing.wait_all_tasks_blocked()
        proxy.heal()
        await frail.session.close()
    assert waiting.is_there
    assert await direct.session.exists("/e") is None
    assert frail.events == []
    with pytest.raises(SessionExpiredError):
        await frail.session.exists("/")


async def test_a_server_that_is_not_there_is_waited_for_no_longer_than_is_said(proxy: Proxy) -> None:
    proxy.cut()
    store = EnsembleStore(f"{proxy.connect}/chroot", session_timeout_ms=4_000, connection_timeout_ms=50)
    with trio.fail_after(PATIENCE_S):
        with pytest.raises(StoreFailedError, match="Timed out"):
            await store.open()
        with pytest.raises(StoreFailedError, match="Timed out"):
            await store.session(lambda event: None)


@pytest.mark.parametrize("connect", ["", "a:b", "a:1//b", "a:1/b/", ":1", "a:1,,b:1"])
async def test_what_is_no_address_is_refused(connect: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        EnsembleStore(connect)
