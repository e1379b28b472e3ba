"""Log directories whose writes take as long as a test says."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, TypeVarTuple

import trio
import trio.testing

from ottla.log.log import PartitionLog
from ottla.log.write_pace import QUIET_FACTOR
from tests.broker.support.hosted import House

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Write:
    """A write that a worker thread was given."""

    def __init__(self) -> None:
        self.let_go = trio.Event()
        self.fails = False

    def fail(self) -> None:
        self.fails = True
        self.let_go.set()


class SlowDisk:
    """The writes of a house's slow directories wait here, in the order in which they begin."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.writes: list[Write] = []
        self.seconds = 0.0
        self._begun = trio.Event()
        self._is_over = False
        house.writer = self.write

    async def write(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        write = Write()
        self.writes.append(write)
        self._begun.set()
        if self._is_over:
            write.let_go.set()
        # As a thread's, which cannot be cancelled once it runs.
        with trio.CancelScope(shield=True):
            await write.let_go.wait()
        self.writes.remove(write)
        with failing() if write.fails else nothing():
            return function(*args)

    async def begun(self, count: int = 1) -> list[Write]:
        """Wait until so many writes are on their way."""
        while len(self.writes) < count:
            self._begun = trio.Event()
            await self._begun.wait()
        return list(self.writes)

    async def write_all(self) -> None:
        """Let all writes go on, and those that begin then."""
        while self.writes:
            self.writes[0].let_go.set()
            await trio.testing.wait_all_tasks_blocked()

    def end(self) -> None:
        """Hold no write back any more."""
        self._is_over = True
        for write in self.writes:
            write.let_go.set()

    def slow_down(self, log: PartitionLog) -> None:
        """As a write that takes a second makes its directory."""
        log.pace.clock = lambda: self.seconds
        log.pace.took(1.0)

    def pass_quiet_time(self) -> None:
        self.seconds += QUIET_FACTOR * 1.0


@contextmanager
def failing() -> Iterator[None]:
    """No file may grow meanwhile: EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def nothing() -> Iterator[None]:
    yield
