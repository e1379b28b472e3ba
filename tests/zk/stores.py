"""What tests of stores share."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import trio

from ottla.zk.embedded import EmbeddedStore
from ottla.zk.ensemble import EnsembleSession, EnsembleStore
from ottla.zk.store import Session, StoreError, WatchEvent

# How long a test waits for what should take no time.
PATIENCE_S = 30

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def inline(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call at once; other tasks run before, as with a thread."""
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


async def begin(store: EmbeddedStore | EnsembleStore) -> Client:
    """Begin a session of either store."""
    if isinstance(store, EmbeddedStore):
        return Client(store)
    events: list[WatchEvent] = []
    return EnsembleClient(events, await store.session(events.append))


async def open_store(directory: Path) -> EmbeddedStore:
    """A store whose clock stands still."""
    store = EmbeddedStore(directory / "store.db", inline, now_ms=lambda: 1_000)
    await store.open()
    return store


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
