"""A session that expires is followed by another one; calls wait in between."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.zk.embedded import EmbeddedSession, EmbeddedStore
from ottla.zk.lasting import LastingSession
from ottla.zk.store import (
    BadVersionError,
    Create,
    EventType,
    NoNodeError,
    OnEvent,
    Session,
    SessionExpiredError,
    StoreError,
    StoreFailedError,
    WatchEvent,
)
from tests.zk.stores import open_store

EXPIRED = WatchEvent(EventType.EXPIRED, "")
BEGUN = WatchEvent(EventType.BEGUN, "")


class Fixture:
    """A lasting session on an embedded store; the first `refuses` new sessions fail."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.refuses = 0
        self.begun: list[EmbeddedSession] = []
        self.events: list[WatchEvent] = []
        self.session = LastingSession(self.begin, self.events.append)

    async def begin(self, on_event: OnEvent) -> Session:
        await trio.lowlevel.checkpoint()
        if self.refuses:
            self.refuses -= 1
            raise StoreFailedError("nobody there")
        self.begun.append(self.store.session(on_event))
        return self.begun[-1]

    async def expire(self) -> None:
        await self.store.expire(self.begun[-1])


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    store = await open_store(tmp_path)
    yield store
    await store.close()


@pytest.fixture
async def one(store: EmbeddedStore, nursery: trio.Nursery) -> Fixture:
    fixture = Fixture(store)
    await nursery.start(fixture.session.run)
    return fixture


async def test_a_lasting_session_does_all_operations(one: Fixture) -> None:
    session = one.session
    assert (await session.create("/a", b"1")).path == "/a"
    assert (await session.set("/a", b"2", 0)).version == 1
    assert (await session.get("/a", watch=True))[0] == b"2"
    assert await session.children("/", watch=True) == ["a"]
    stat = await session.exists("/a")
    assert stat is not None
    assert [found and found[0] for found in await session.get_many(["/a", "/b"])] == [b"2", None]
    (outcome, failure) = await session.multi_all([[Create("/b")], [Create("/a/b/c")]])
    assert isinstance(outcome, list)
    assert isinstance(failure, NoNodeError)
    with pytest.raises(BadVersionError):
        await session.set("/a", b"3", 0)
    await session.delete("/a")
    assert one.events == [WatchEvent(EventType.CHILD, "/"), WatchEvent(EventType.DELETED, "/a")]


async def test_a_session_that_expires_is_followed_by_another_and_then_an_event(
    one: Fixture, autojump_clock: trio.testing.MockClock
) -> None:
    await one.session.create("/mine", ephemeral=True)
    first = one.session.session_id
    one.refuses = 2
    await one.expire()
    assert one.events == [EXPIRED]
    # This one waits for the next session.
    assert await one.session.exists("/mine") is None
    await trio.testing.wait_all_tasks_blocked()
    assert one.events == [EXPIRED, BEGUN]
    assert one.session.session_id != first
    assert one.begun[0].is_closed
    await one.session.create("/mine", ephemeral=True)
    await one.expire()
    await one.session.get("/")
    await trio.testing.wait_all_tasks_blocked()
    assert one.events == [EXPIRED, BEGUN, EXPIRED, BEGUN]


async def test_a_read_that_an_expiry_interrupts_is_done_again_and_a_change_is_not(one: Fixture) -> None:
    read, change = trio.Event(), trio.Event()
    outcomes: dict[str, object] = {}

    async def outcome_of(name: str, call: Callable[[], Awaitable[object]], done: trio.Event) -> None:
        try:
            outcomes[name] = await call()
        except StoreError as error:
            outcomes[name] = error
        done.set()

    # Both calls use the session already, and wait for its response.
    one.begun[-1].is_closed = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outcome_of, "read", lambda: one.session.children("/"), read)
        nursery.start_soon(outcome_of, "change", lambda: one.session.multi([Create("/a")]), change)
        await one.store.end(one.begun[-1])
        await change.wait()
        assert not read.is_set()
        one.begun[-1].on_event(EXPIRED)
    assert outcomes["read"] == []
    assert isinstance(outcomes["change"], SessionExpiredError)


async def test_a_closed_session_refuses_every_call(one: Fixture, autojump_clock: trio.testing.MockClock) -> None:
    one.refuses = 1_000_000
    await one.expire()
    async with trio.open_nursery() as nursery:

        async def waits() -> None:
            with pytest.raises(SessionExpiredError):
                await one.session.get("/")

        nursery.start_soon(waits)
        await trio.sleep(10)
        await one.session.close()
    with pytest.raises(SessionExpiredError):
        await one.session.multi([Create("/a")])


async def test_a_first_session_that_does_not_begin_raises_its_error(store: EmbeddedStore) -> None:
    fixture = Fixture(store)
    fixture.refuses = 1
    with pytest.raises(StoreFailedError, match="nobody there"):
        await fixture.session.run()
