"""What serves as a process of its own: its signals, its descriptors, its share of the processor.

Must not know what a broker consists of, nor whether there are several. Counterpart in Kafka: Kafka.main, and what the
JVM does unasked.
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

# Room for open log files and connections; more may still be opened.
DESCRIPTORS: Final = 16_384
# A thread that computes gives the loop its turn after so long; Python's own 5 ms would be felt.
SWITCH_INTERVAL: Final = 0.0005


class Server(Protocol):
    """What serves: a broker, or several."""

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve; `ready` is told where clients connect."""
        ...

    def stop(self) -> None:
        """Have `run` end, cleanly."""
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
    """As many files and connections as the system lets this process have, as the JVM does."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _grow_descriptor_table() -> None:
    """Have room for all descriptors from the start.

    The kernel doubles the table when it is full, and a process that has threads stands still for 10 ms each time.
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
                # Not before: at its end a start has the collector look through everything, for which nobody waits yet.
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
