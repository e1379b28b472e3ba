"""The child process that compacts logs, as a task of the broker uses it.

Owns the process and its pipes. Must not know which log is compacted, nor what is done with the outcome.
Counterpart in Kafka: CleanerThread.
"""

import sys
from subprocess import PIPE
from typing import Final

import trio

from ottla.log.compaction.cleaner import CleaningJob
from ottla.log.compaction.process import Outcome, decode_outcome, encode_job

_COMMAND: Final = (sys.executable, "-P", "-m", "ottla.log.compaction.process")


class CleanerEnded(Exception):  # noqa: N818
    """The process ended unexpectedly."""


class CleanerChild:
    """Starts the process with the first job. It ends with `close`, or by itself when the broker has ended."""

    def __init__(self) -> None:
        self._process: trio.Process | None = None
        self._received = bytearray()

    async def begin(self, job: CleaningJob, bytes_per_second: float) -> None:
        """Send a job; the job before has ended."""
        if self._process is None:
            # A process group of its own, so that Ctrl-C on a terminal does not reach it before the broker stops.
            self._process = await trio.lowlevel.open_process(_COMMAND, stdin=PIPE, stdout=PIPE, process_group=0)
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(encode_job(job, bytes_per_second))
        except trio.BrokenResourceError as error:
            raise CleanerEnded("the cleaner process takes no job") from error

    async def outcome(self) -> Outcome:
        """Return the next outcome. CorruptLogError and OSError end the job, CleanerEnded the process."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        while (end := self._received.find(b"\n")) < 0:
            received = await process.stdout.receive_some()
            if not received:
                raise CleanerEnded("the cleaner process ended in the middle of a job")
            self._received += received
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return decode_outcome(line)

    async def close(self) -> None:
        """Kill the process, also in the middle of a job."""
        process, self._process = self._process, None
        self._received.clear()
        if process is not None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        await stream.aclose()
