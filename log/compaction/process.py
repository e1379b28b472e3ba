"""`python -m ottla.log.compaction.process`: compacts logs for a broker, in a process of its own with lowest priority.

Owns the lines of JSON on the pipes: a job on standard input, and each outcome on standard output. Ends when its input
ends, even within a job, because the broker has gone then. Counterpart in Kafka: CleanerThread.
"""

import json
import os
import select
import sys
import time
from typing import Any, Final

from ottla.log.compaction.cleaner import (
    CleanedGroup,
    CleaningJob,
    CleaningStats,
    CorruptLogError,
    SourceSegment,
    clean,
)

_LOWEST_PRIORITY: Final = 19
_CREDIT_S: Final = 0.3
_LONGEST_WAIT_S: Final = 86_400.0


class Pace:
    """Slows the cleaner down to `bytes_per_second`, and ends the process when its broker has gone."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = max(1.0, bytes_per_second)
        self._due = time.monotonic()

    def __call__(self, count: int) -> None:
        """Wait after `count` bytes were read or written."""
        now = time.monotonic()
        self._due = max(self._due, now - _CREDIT_S) + count / self._bytes_per_second
        # The broker sends nothing during a job, so readable input is the end of the input.
        if select.select([sys.stdin], [], [], min(max(0.0, self._due - now), _LONGEST_WAIT_S))[0]:
            sys.exit(0)


def encode_job(job: CleaningJob, bytes_per_second: float) -> bytes:
    """Return a job as a line."""
    producers = [(producer_id, *last) for producer_id, last in job.producers.items()]
    fields = {**job._asdict(), "producers": producers}
    return json.dumps([fields, bytes_per_second], separators=(",", ":")).encode() + b"\n"


def decode_job(line: str) -> tuple[CleaningJob, float]:
    """Return the job in a line of `encode_job`."""
    fields, bytes_per_second = json.loads(line)
    segments = [SourceSegment(*each) for each in fields.pop("segments")]
    producers = {producer_id: (offset, epoch) for producer_id, offset, epoch in fields.pop("producers")}
    return CleaningJob(segments=segments, producers=producers, **fields), bytes_per_second


Outcome = CleanedGroup | CleaningStats


def decode_outcome(line: bytes) -> Outcome:
    """Return the outcome in a line of the process; raise its CorruptLogError or OSError."""
    kind, values = json.loads(line)
    if kind == "corrupt":
        raise CorruptLogError(*values)
    if kind == "failed":
        raise OSError(*values)
    return CleanedGroup(*values) if kind == "group" else CleaningStats(*values)


def _work(line: str) -> None:
    try:
        job, bytes_per_second = decode_job(line)
        for outcome in clean(job, Pace(bytes_per_second)):
            _send("group" if isinstance(outcome, CleanedGroup) else "done", outcome)
    except CorruptLogError as error:
        _send("corrupt", error.args)
    except OSError as error:
        _send("failed", (error.errno, str(error)))


def _send(kind: str, values: Any) -> None:
    sys.stdout.write(json.dumps((kind, values)) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the jobs on standard input until it ends."""
    os.nice(_LOWEST_PRIORITY)
    while line := sys.stdin.readline():
        _work(line)


if __name__ == "__main__":
    main()
