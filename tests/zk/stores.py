"""What tests of stores share."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import trio

from ottla.zk.embedded import EmbeddedSession, EmbeddedStore
from ottla.zk.store import WatchEvent

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def inline(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call at once; other tasks run before, as with a thread."""
    await trio.lowlevel.checkpoint()
    return function(*args)


class Client:
    """A session, and the events it got."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.events: list[WatchEvent] = []
        self.session: EmbeddedSession = store.session(self.events.append)


async def open_store(directory: Path) -> EmbeddedStore:
    """A store whose clock stands still."""
    store = EmbeddedStore(directory / "store.db", inline, now_ms=lambda: 1_000)
    await store.open()
    return store
