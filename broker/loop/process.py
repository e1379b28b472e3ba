"""Runs a server as the process: signals, file descriptors, thread switching.

Owns the limits of the process and its end by a signal. Must not know what a broker consists of, nor how many there are.
Counterpart in Kafka: Kafka.main, and defaults of the JVM.
"""

import fcntl
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, Protocol

import trio

from ottla.broker.loop.watchdog import Watchdog
from ottla.log.state.directory_failures import NoLogDirectoryError

logger = logging.getLogger("org.apache.kafka.common.utils.LoggingSignalHandler")

# The descriptor table begins with room for this many log files and connections; it can grow.
DESCRIPTORS: Final = 16_384
# Seconds after which a computing thread yields to the loop; Python's own 5 ms would delay every request.
SWITCH_INTERVAL: Final = 0.0005


class Server(Protocol):
    """A broker, or several brokers."""

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve. `ready(bootstrap)` is called once clients can connect."""
        ...

    def stop(self) -> None:
        """Shut down cleanly, after which `run` returns."""
        ...


def serve(make: Callable[[], Server], *, ready: Callable[[str], None]) -> None:
    """Run a server in this process until SIGTERM or SIGINT; a second signal ends the process at once."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    _raise_descriptor_limit()
    _grow_descriptor_table()
    try:
        trio.run(_serve_until_signal, make, ready)
    except BaseExceptionGroup as group:
        raise _only_error(group) from None


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files to the hard limit, as the JVM does."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _grow_descriptor_table() -> None:
    """Grow the kernel's descriptor table once, at the start.

    The kernel doubles a full table, and a process with threads stands still for 10 ms each time.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        limit = DESCRIPTORS
    fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    highest = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, min(limit, DESCRIPTORS) - 1)
    os.close(fd)
    os.close(highest)


async def _serve_until_signal(make: Callable[[], Server], ready: Callable[[str], None]) -> None:
    server = make()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_at_signal, server, signals)

            def is_ready(bootstrap: str) -> None:
                # Not earlier: a start ends with a garbage collection that blocks the loop, while no client waits yet.
                nursery.start_soon(Watchdog().run)
                ready(bootstrap)

            await server.run(is_ready)
            nursery.cancel_scope.cancel()


async def _stop_at_signal(server: Server, signals: AsyncIterator[int]) -> None:
    async for number in signals:
        logger.info("Terminating process due to signal %s", signal.Signals(number).name)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        server.stop()


def _only_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error of a group. A failed directory is the one that counts, because other tasks fail with it."""
    errors = list(_leaves(group))
    for error in errors:
        if isinstance(error, NoLogDirectoryError):
            return error
    return errors[0] if len(errors) == 1 else group


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
