"""The process that compacts logs for this broker, as one of its tasks sees it.

Owns the process and its pipes. Must not know which log is compacted, nor what becomes of that.
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
    """The process has gone, nobody knows why."""


class CleanerChild:
    """Started when there is a first job. It ends with `close`, or by itself when this process has ended."""

    def __init__(self) -> None:
        self._process: trio.Process | None = None
        self._received = bytearray()

    async def begin(self, job: CleaningJob, bytes_per_second: float) -> None:
        """Hand a job over; the one before is through."""
        if self._process is None:
            # A group of its own: who interrupts the broker on a terminal gives it time to stop.
            self._process = await trio.lowlevel.open_process(_COMMAND, stdin=PIPE, stdout=PIPE, process_group=0)
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(encode_job(job, bytes_per_second))
        except trio.BrokenResourceError as error:
            raise CleanerEnded("it takes no job") from error

    async def outcome(self) -> Outcome:
        """The next thing that comes of the job. CorruptLogError and OSError end it, CleanerEnded the process."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        while (end := self._received.find(b"\n")) < 0:
            received = await process.stdout.receive_some()
            if not received:
                raise CleanerEnded("it ended in the middle of a job")
            self._received += received
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return decode_outcome(line)

    async def close(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        self._received.clear()
        if process is not None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        await stream.aclose()
