"""The ensemble alone: lost connections, expired sessions."""

import random
import socket
from collections.abc import Awaitable, Callable

import pytest
import trio

from compat_tests.support.zookeeper import ZooKeeper
from ottla.zk.ensemble import EnsembleSession, EnsembleStore
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
from tests.zk.proxy import Proxy
from tests.zk.stores import PATIENCE_S, Client, Outcome, begin, until, until_exists

pytestmark = pytest.mark.slow


# Lost connections


async def test_a_change_that_was_done_before_the_connection_was_lost_succeeds(
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


async def test_a_change_of_another_session_is_an_error_also_after_a_lost_connection(
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


@pytest.mark.trials(few=10, soak=50)
@pytest.mark.once
async def test_transactions_keep_their_order_over_lost_connections(
    direct: Client, frail: Client, proxy: Proxy, seed: int, trials: int
) -> None:
    """Each transaction expects the version of the one before, so one that overtakes another fails."""
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
    # A lost transaction that is followed by others counts as failed, because its data is overwritten.
    assert isinstance(outcome.value, list)
    assert len([each for each in outcome.value if isinstance(each, StoreError)]) <= trials * 10
    assert outcome.value[-1][0].stat.version == 300


async def test_calls_to_a_silent_server_are_sent_again_over_another_connection(
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


async def test_a_reconnect_without_an_answer_leaves_time_for_another_attempt(
    direct: Client, frail: Client, proxy: Proxy
) -> None:
    proxy.hold_answers()
    proxy.cut()
    await until(lambda: proxy.ended == 1)
    proxy.let_come()
    await until(lambda: proxy.ended == 2)
    proxy.heal()
    assert await frail.session.exists("/") is not None
    assert frail.events == []


async def test_many_calls_wait_for_a_connection_without_blocking_the_loop(
    direct: Client, frail: Client, proxy: Proxy
) -> None:
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


async def test_no_more_requests_are_in_flight_than_configured(
    zookeeper: ZooKeeper, direct: Client, proxy: Proxy, chroot: str
) -> None:
    store = EnsembleStore(proxy.connect + chroot, max_in_flight_requests=3)
    session = await store.session(lambda event: None)
    before = proxy.requests
    proxy.hold_answers()
    outcome = Outcome()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outcome.of, lambda: session.get_many(["/"] * 20))
        await until(lambda: proxy.requests >= before + 3)
        for _ in range(20):
            await direct.session.exists("/")
        assert proxy.requests == before + 3
        proxy.heal()
    assert outcome.value == [await direct.session.get("/")] * 20
    await store.close()


@pytest.mark.trials(few=10, soak=50)
async def test_a_session_connects_to_another_server_when_one_is_down(
    zookeeper: ZooKeeper, direct: Client, proxy: Proxy, chroot: str, trials: int
) -> None:
    proxy.cut()
    store = EnsembleStore(f"{proxy.connect}, {zookeeper.connect}{chroot}")
    with trio.fail_after(PATIENCE_S):
        for _ in range(trials):
            await (await store.session(lambda event: None)).exists("/")
        await store.close()


async def test_a_server_that_does_not_accept_leaves_time_for_another(
    zookeeper: ZooKeeper, direct: Client, chroot: str
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent, socket.socket() as only, socket.socket() as more:
        only.connect(silent.getsockname())
        # The backlog is full: the system drops further connections.
        more.setblocking(False)
        more.connect_ex(silent.getsockname())
        hosts = f"127.0.0.1:{silent.getsockname()[1]},{zookeeper.connect}"
        store = EnsembleStore(f"{hosts}{chroot}", session_timeout_ms=4_000)
        async with trio.open_nursery() as nursery:
            # Each session tries the two servers in random order.
            for _ in range(6):
                nursery.start_soon(store.session, lambda event: None)
        await store.close()


async def test_a_session_with_its_ephemerals_and_watches_outlives_a_restart_of_its_server(
    zookeeper: ZooKeeper, direct: Client, chroot: str
) -> None:
    store = EnsembleStore(zookeeper.connect + chroot)
    client = await begin(store)
    await client.session.create("/e", ephemeral=True)
    await client.session.exists("/later", watch=True)
    zookeeper.kill()
    zookeeper.start()
    await direct.session.create("/later")
    stat = await client.session.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == client.session.session_id
    assert client.events == [WatchEvent(EventType.CREATED, "/later")]
    await store.close()


# The end of a session


async def test_an_expired_session_delivers_one_event_and_refuses_every_call(
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
    # No other session replaces it.
    assert isinstance(brief.session, EnsembleSession)
    await until(brief.session.client.connection_has_ended)
    for call in (brief.session.exists("/"), brief.session.create("/late"), brief.session.get_many(["/"])):
        with pytest.raises(SessionExpiredError):
            await call
    assert [type(each) for each in await brief.session.multi_all([[Create("/late")]] * 2)] == [SessionExpiredError] * 2
    assert await direct.session.exists("/late") is None
    await brief.session.close()
    assert brief.events == [WatchEvent(EventType.EXPIRED, "")]


async def test_a_session_ends_when_a_response_is_malformed(direct: Client, frail: Client, proxy: Proxy) -> None:
    proxy.corrupt_next_answer()
    with trio.fail_after(PATIENCE_S):
        with pytest.raises(StoreError):
            await frail.session.get_many(["/"] * 20)
    await until(lambda: frail.events)
    with pytest.raises(SessionExpiredError):
        await frail.session.exists("/")
    assert frail.events == [WatchEvent(EventType.EXPIRED, "")]


async def test_a_closed_session_delivers_no_event(direct: Client, frail: Client, proxy: Proxy) -> None:
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


async def test_the_first_connection_is_awaited_no_longer_than_configured(proxy: Proxy) -> None:
    proxy.cut()
    store = EnsembleStore(f"{proxy.connect}/chroot", session_timeout_ms=4_000, connection_timeout_ms=50)
    with trio.fail_after(PATIENCE_S):
        with pytest.raises(StoreFailedError, match="Timed out"):
            await store.open()
        with pytest.raises(StoreFailedError, match="Timed out"):
            await store.session(lambda event: None)


@pytest.mark.parametrize("connect", ["", "a:b", "a:1//b", "a:1/b/", ":1", "a:1,,b:1"])
async def test_a_malformed_connect_string_is_refused(connect: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        EnsembleStore(connect)
