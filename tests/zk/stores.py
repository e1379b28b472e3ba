"""Helpers for tests of stores."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import trio

from ottla.zk.embedded import EmbeddedStore
from ottla.zk.ensemble import EnsembleSession, EnsembleStore
from ottla.zk.store import Session, StoreError, WatchEvent

# How long a test waits for an event that should come at once.
PATIENCE_S = 120

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def inline(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call the function on the loop, after other tasks have run, as with a thread."""
    await trio.lowlevel.checkpoint()
    return function(*args)


class Client:
    """A session of the embedded store, and the events it got."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.events: list[WatchEvent] = []
        self.session: Session = store.session(self.events.append)


class EnsembleClient(Client):
    """A session with an ensemble, and the events it got."""

    def __init__(self, events: list[WatchEvent], session: EnsembleSession) -> None:
        self.events = events
        self.session = session


Connect = Callable[[], Awaitable[Client]]


async def begin(store: EmbeddedStore | EnsembleStore) -> Client:
    """Begin a session of either store."""
    if isinstance(store, EmbeddedStore):
        return Client(store)
    events: list[WatchEvent] = []
    return EnsembleClient(events, await store.session(events.append))


async def open_store(directory: Path) -> EmbeddedStore:
    """Open a store with a constant clock."""
    store = EmbeddedStore(directory / "store.db", inline, now_ms=lambda: 1_000)
    await store.open()
    return store


class Loop:
    """A trio loop in a thread, which keeps sessions alive between the calls of a synchronous test."""

    def __init__(self) -> None:
        has_begun = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main, has_begun))
        self._thread.start()
        has_begun.wait()

    async def _main(self, has_begun: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._end = trio.Event()
        has_begun.set()
        await self._end.wait()

    def run(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Call a function on the loop, and return its result."""
        return trio.from_thread.run(function, *args, trio_token=self._token)

    def stop(self) -> None:
        self._token.run_sync_soon(self._end.set)
        self._thread.join()


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not condition():
            await trio.sleep(0.01)


async def until_exists(client: Client, path: str) -> None:
    with trio.fail_after(PATIENCE_S):
        while await client.session.exists(path) is None:
            await trio.sleep(0.01)


class Outcome:
    """The result or StoreError of a call in the background."""

    def __init__(self) -> None:
        self.value: object = None
        self.is_there = False

    async def of(self, call: Callable[[], Awaitable[object]]) -> None:
        try:
            self.value = await call()
        except StoreError as error:
            self.value = error
        self.is_there = True
