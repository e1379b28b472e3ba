"""`python -m ottla.log.recovery.processes`: recovers logs for a starting broker, in parallel with other processes.

Owns the lines of JSON on the pipes: a job on standard input, and on standard output each log message and the end of
each job. Leaves files as a clean shutdown does, so that the broker opens them without a scan. Ends with its broker.
Counterpart in Kafka: the threads of LogManager.loadLogs.
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
"""Below this total size no processes are started, because starting them takes longer than the scan."""
_SET_PARENT_DEATH_SIGNAL = 1
_READ_AT_ONCE = 1 << 16

logger = logging.getLogger("kafka.log.LogManager")


class RecoveryJob(NamedTuple):
    """A log to recover, with everything that its recovery depends on."""

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
        """Recover the log in this process."""
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
    """Recover logs in other processes, if there are at least two logs and WORTH_A_PROCESS bytes.

    `directories`: the logs of each log directory; `processes`: for each directory without a clean shutdown.
    """
    unclean = [{path: each for path, each in found.items() if not each.clean} for found in directories]
    logs = [log for each in unclean for log in each.items()]
    processes *= sum(map(bool, unclean))
    sizes = progress.sizes
    if processes < 2 or len(logs) < 2 or sum(sizes.values()) < WORTH_A_PROCESS:
        return
    logs.sort(key=lambda log: -sizes[log[0]])  # large logs first, so that all processes end together
    logger.info("Recovering %d logs in %d processes", len(logs), processes)
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
    """Recover logs in `processes`; call `recovered` with the directory of each recovered log.

    If a process ends early, `recovered` is not called for its log, and the caller recovers the log.
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
    # A process group of its own, because an interrupt on the terminal must reach only the broker.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, process_group=0)


class _Child:
    """A process, and the log that it recovers, None when it is done."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.job: RecoveryJob | None = None
        self.answers = process.stdout
        self._orders = process.stdin
        self._rest = b""

    def give(self, waiting: deque[RecoveryJob]) -> None:
        """Send the next job to the process; without one close its input, which ends the process."""
        self.job = waiting.popleft() if waiting else None
        if self.job is None:
            self._orders.close()
        else:
            with suppress(BrokenPipeError):  # `take` meets the end of the process
                self._orders.write(f"{json.dumps(self.job)}\n".encode())

    def take(self, waiting: deque[RecoveryJob]) -> list[Path]:
        """Read lines of the process: log its messages, send the next job for a done one; return done directories."""
        assert self.job is not None
        data = os.read(self.answers.fileno(), _READ_AT_ONCE)
        if not data:
            logger.error("The process that recovers %s has ended, the broker recovers the log", self.job.directory)
            self.job = None
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        done = []
        for line in lines:
            record = json.loads(line)
            if record:
                name, level, message = record
                logging.getLogger(name).log(level, "%s", message)
            else:
                done.append(Path(self.job.directory))
                self.give(waiting)
        return done


class _PipeHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _write_line(json.dumps([record.name, record.levelno, record.getMessage()]))


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Run the jobs on standard input."""
    # Die with the broker, because another broker may open the files then.
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    logging.basicConfig(level=logging.INFO, handlers=[_PipeHandler()])
    for line in sys.stdin:
        RecoveryJob(*json.loads(line)).run()
        _write_line("[]")


if __name__ == "__main__":
    main()
