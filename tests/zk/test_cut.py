"""A cut connection to the store: sessions of both stores behave alike."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

import pytest
import trio

from ottla.zk.embedded import EmbeddedLink, EmbeddedStore
from ottla.zk.ensemble import EnsembleStore
from ottla.zk.store import EventType, OnEvent, Session, SessionExpiredError, StoreFailedError, WatchEvent
from tests.zk.conftest import BRIEF_SESSION_MS
from tests.zk.proxy import proxy_to
from tests.zk.stores import PATIENCE_S, Client, Outcome, begin, open_store, until, until_exists

# Longer than a client needs to reconnect.
SESSION_MS = 10_000
EXPIRED = WatchEvent(EventType.EXPIRED, "")


class Line(Protocol):
    """A connection to a store that can be cut; `watcher` has a connection of its own, which is never cut."""

    watcher: Client

    async def begin(self, on_event: OnEvent) -> Session: ...

    def cut(self) -> None: ...

    def heal(self) -> None: ...


class Linked:
    """The line of a broker to an embedded store in its process."""

    def __init__(self, link: EmbeddedLink, watcher: Client, nursery: trio.Nursery) -> None:
        self.watcher = watcher
        self._link = link
        self._nursery = nursery
        self.begin = link.begin
        self.heal = link.mend

    def cut(self) -> None:
        self._nursery.start_soon(self._link.cut)


class Proxied:
    """The line of a broker to a ZooKeeper."""

    def __init__(
        self, store: EnsembleStore, watcher: Client, cut: Callable[[], None], heal: Callable[[], None]
    ) -> None:
        self.watcher = watcher
        self.begin = store.session
        self.cut = cut
        self.heal = heal


class Lines:
    """Makes lines to one store."""

    def __init__(self, request: pytest.FixtureRequest, nursery: trio.Nursery, folder: Path) -> None:
        self._request = request
        self._nursery = nursery
        self._folder = folder
        self._opened: list[EmbeddedStore | EnsembleStore] = []

    async def make(self, session_timeout_ms: int) -> Line:
        if self._request.param == "embedded":
            embedded = await open_store(self._folder)
            self._opened.append(embedded)
            return Linked(EmbeddedLink(embedded, session_timeout_ms), Client(embedded), self._nursery)
        zookeeper = self._request.getfixturevalue("zookeeper")
        proxy = await self._nursery.start(proxied, zookeeper.port)
        chroot = self._request.getfixturevalue("chroot")
        direct = EnsembleStore(zookeeper.connect + chroot)
        await direct.open()
        ensemble = EnsembleStore(proxy.connect + chroot, session_timeout_ms=session_timeout_ms)
        self._opened += [direct, ensemble]
        return Proxied(ensemble, await begin(direct), proxy.cut, proxy.heal)

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


async def proxied(port: int, task_status: trio.TaskStatus[object]) -> None:
    async with proxy_to(port) as proxy:
        task_status.started(proxy)
        await trio.sleep_forever()


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.slow)])
async def lines(request: pytest.FixtureRequest, tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Lines]:
    lines = Lines(request, nursery, tmp_path)
    with trio.fail_after(PATIENCE_S):
        yield lines
    await lines.close()


async def until_gone(client: Client, path: str) -> None:
    while await client.session.exists(path) is not None:
        await trio.sleep(0.01)


async def test_calls_that_wait_for_a_cut_to_heal_are_done_then(lines: Lines, nursery: trio.Nursery) -> None:
    line = await lines.make(SESSION_MS)
    events: list[WatchEvent] = []
    session = await line.begin(events.append)
    await session.create("/mine", ephemeral=True)
    await line.watcher.session.create("/a", b"old")
    await session.get("/a", watch=True)
    line.cut()
    await trio.testing.wait_all_tasks_blocked(0.05)
    read, written = Outcome(), Outcome()
    nursery.start_soon(read.of, lambda: session.get("/a"))
    nursery.start_soon(written.of, lambda: session.create("/b"))
    await line.watcher.session.set("/a", b"new")
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert (read.is_there, written.is_there, events) == (False, False, [])
    line.heal()
    await until(lambda: read.is_there and written.is_there)
    assert read.value[0] == b"new"  # type: ignore[index]
    assert events == [WatchEvent(EventType.CHANGED, "/a")]
    await until_exists(line.watcher, "/b")
    assert await line.watcher.session.exists("/mine") is not None
    assert await session.exists("/mine") is not None


async def test_a_session_that_was_cut_off_for_too_long_expires_when_it_is_back(
    lines: Lines, nursery: trio.Nursery
) -> None:
    line = await lines.make(BRIEF_SESSION_MS)
    events: list[WatchEvent] = []
    session = await line.begin(events.append)
    await session.create("/mine", ephemeral=True)
    await line.watcher.session.create("/a", b"old")
    await session.get("/a", watch=True)
    line.cut()
    await line.watcher.session.set("/a", b"new")
    waiting = Outcome()
    nursery.start_soon(waiting.of, lambda: session.get("/a"))
    await until_gone(line.watcher, "/mine")
    assert (waiting.is_there, events) == (False, [])
    with pytest.raises(StoreFailedError, match="Timed out"):
        await line.begin(lambda event: None)
    line.heal()
    await until(lambda: waiting.is_there and events)
    assert isinstance(waiting.value, SessionExpiredError)
    assert events == [EXPIRED]
    with pytest.raises(SessionExpiredError):
        await session.create("/b")
    await session.close()
    another = await line.begin(lambda event: None)
    assert (await another.get("/a"))[0] == b"new"


async def test_a_session_that_is_closed_while_it_is_cut_off_ends_with_its_timeout(
    lines: Lines, nursery: trio.Nursery
) -> None:
    line = await lines.make(BRIEF_SESSION_MS)
    events: list[WatchEvent] = []
    session = await line.begin(events.append)
    await session.create("/mine", ephemeral=True)
    line.cut()
    await trio.testing.wait_all_tasks_blocked(0.05)
    waiting = Outcome()
    nursery.start_soon(waiting.of, lambda: session.get("/"))
    await trio.testing.wait_all_tasks_blocked()
    await session.close()
    await until(lambda: waiting.is_there)
    assert isinstance(waiting.value, SessionExpiredError)
    await until_gone(line.watcher, "/mine")
    line.heal()
    assert events == []


async def test_an_earlier_cut_does_not_shorten_the_timeout_of_a_later_one(lines: Lines) -> None:
    """A cut that heals in time does not count towards the next one's timeout."""
    line = await lines.make(BRIEF_SESSION_MS)
    session = await line.begin(lambda event: None)
    await session.create("/mine", ephemeral=True)
    began = trio.current_time()
    while trio.current_time() < began + 2 * BRIEF_SESSION_MS / 1000:
        line.cut()
        await trio.sleep(0.05)
        line.heal()
        assert await session.exists("/mine") is not None
    await session.close()
