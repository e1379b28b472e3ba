"""What tests of stores share."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import trio

from ottla.zk.embedded import EmbeddedStore
from ottla.zk.ensemble import EnsembleSession, EnsembleStore
from ottla.zk.store import Session, WatchEvent

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
