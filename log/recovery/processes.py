"""`python -m ottla.log.recovery.processes`: recovers logs for a broker that starts, beside others that do the same.

Owns what goes through the pipes: a log as a line of JSON on standard input, and on standard output a line for all that
is said about it and one when it is done. Leaves files as a clean stop does, so that the broker opens them without
looking through them. Ends with who started it. Counterpart in Kafka: the threads of LogManager.loadLogs.
"""

import ctypes
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.recovery.progress import RecoveryProgress
from ottla.log.recovery.recovery import LoadOptions, load_log
from ottla.log.segments.open_files import OpenFiles

WORTH_A_PROCESS = 64 << 20
"""Less than so many bytes are looked through in the time that processes take to start."""
_SET_PARENT_DEATH_SIGNAL = 1
_READ_AT_ONCE = 1 << 16

logger = logging.getLogger("kafka.log.LogManager")


class RecoveryJob(NamedTuple):
    """A log, and what has to be known of it."""

    directory: str
    now_ms: int
    log_start_offset: int
    recovery_point: int
    producer_id_expiration_ms: int
    index_interval_bytes: int
    segment_index_bytes: int
    cleanup_policy: Sequence[str]
    was_compacted: bool

    def run(self) -> None:
        """Recover it here."""
        config = LogConfig(
            index_interval_bytes=self.index_interval_bytes,
            segment_index_bytes=self.segment_index_bytes,
            cleanup_policy=self.cleanup_policy,
        )
        loaded = load_log(
            Path(self.directory),
            OpenFiles(),
            LoadOptions(
                config,
                self.now_ms,
                self.log_start_offset,
                self.recovery_point,
                clean=False,
                producer_id_expiration_ms=self.producer_id_expiration_ms,
                was_compacted=self.was_compacted,
            ),
        )
        loaded.segments[-1].become_inactive()
        loaded.leader_epochs.save()
        for segment in loaded.segments:
            segment.release()


def recover_ahead(
    directories: Iterable[Mapping[Path, LoadOptions]], processes: int, progress: RecoveryProgress
) -> None:
    """Have other processes recover logs, if that is wanted and worth it.

    `directories`: the logs of each log directory; so many `processes` for each where there is something to recover.
    """
    unclean = [{path: each for path, each in found.items() if not each.clean} for found in directories]
    logs = [log for each in unclean for log in each.items()]
    processes *= sum(map(bool, unclean))
    sizes = progress.sizes
    if processes < 2 or len(logs) < 2 or sum(sizes.values()) < WORTH_A_PROCESS:
        return
    logs.sort(key=lambda log: -sizes[log[0]])  # none of the large ones is to begin when all others are done
    logger.info("%d logs are recovered by %d processes", len(logs), processes)
    jobs = [
        RecoveryJob(
            str(path),
            options.now_ms,
            options.log_start_offset,
            options.recovery_point,
            options.producer_id_expiration_ms,
            options.config.index_interval_bytes,
            options.config.segment_index_bytes,
            options.config.values["cleanup.policy"],
            options.was_compacted,
        )
        for path, options in logs
    ]
    recover_in_processes(jobs, processes, progress.done)


def recover_in_processes(jobs: Iterable[RecoveryJob], processes: int, recovered: Callable[[Path], None]) -> None:
    """Have logs recovered, so many at a time; `recovered` is called with the directory of each.

    One for which it is not is left to the caller: its process ended.
    """
    waiting = deque(jobs)
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(min(processes, len(waiting))):
            child = _Child(stack.enter_context(_start()))
            child.give(waiting)
            selector.register(child.answers, selectors.EVENT_READ, child)
        while selector.get_map():
            for key, _ in selector.select():
                child = key.data
                for path in child.take(waiting):
                    recovered(path)
                if child.job is None:
                    selector.unregister(child.answers)


def _start() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "ottla.log.recovery.processes"]
    # A group of its own: who interrupts the broker on a terminal gives it time to stop.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, process_group=0)


class _Child:
    """A process, and the log that it is at; None when it has no more."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.job: RecoveryJob | None = None
        self.answers = process.stdout
        self._orders = process.stdin
        self._rest = b""

    def give(self, waiting: deque[RecoveryJob]) -> None:
        """Give it the next log, or have it end."""
        self.job = waiting.popleft() if waiting else None
        if self.job is None:
            self._orders.close()
        else:
            with suppress(BrokenPipeError):  # its answers will end, too
                self._orders.write(f"{json.dumps(self.job)}\n".encode())

    def take(self, waiting: deque[RecoveryJob]) -> list[Path]:
        """Take in what it says, and give it the next log when it is done with one; returns that one's directory."""
        assert self.job is not None
        said = os.read(self.answers.fileno(), _READ_AT_ONCE)
        if not said:
            logger.error("The process that recovered %s has ended", self.job.directory)
            self.job = None
            return []
        *lines, self._rest = (self._rest + said).split(b"\n")
        done = []
        for line in lines:
            told = json.loads(line)
            if told:
                name, level, message = told
                logging.getLogger(name).log(level, "%s", message)
            else:
                done.append(Path(self.job.directory))
                self.give(waiting)
        return done


class _Teller(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _say(json.dumps([record.name, record.levelno, record.getMessage()]))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Recover what standard input names."""
    # It must not write to files that another broker has by then.
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    logging.basicConfig(level=logging.INFO, handlers=[_Teller()])
    for line in sys.stdin:
        RecoveryJob(*json.loads(line)).run()
        _say("[]")


if __name__ == "__main__":
    main()
