"""The progress of recovery at a start, logged every TELL_EVERY_S.

Owns how many bytes recovery scans. Must not know how logs are recovered. Counterpart in Kafka: the
remainingLogsToRecover and remainingSegmentsToRecover metrics.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from ottla.log.recovery.recovery import LoadOptions
from ottla.log.segments.segment import LOG_SUFFIX

TELL_EVERY_S: Final = 1.0
_MEGABYTE: Final = 10**6

logger = logging.getLogger("kafka.log.LogManager")


class RecoveryProgress:
    """The logs of directories without a clean shutdown, and how many bytes of each recovery scans."""

    def __init__(
        self, directories: Iterable[Mapping[Path, LoadOptions]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        logs = (log for found in directories for log in found.items())
        self.sizes = {path: bytes_to_scan(path, each.recovery_point) for path, each in logs if not each.clean}
        self._waiting = dict(self.sizes)
        self._total = sum(self.sizes.values())
        self._done = 0
        self._clock = clock
        self._told = clock()

    def is_done(self, path: Path) -> bool:
        """Whether a log is recovered already."""
        return path in self.sizes and path not in self._waiting

    def done(self, path: Path) -> None:
        """Note that a log is recovered, or needs no recovery."""
        self._done += self._waiting.pop(path, 0)
        now = self._clock()
        if self._waiting and now - self._told >= TELL_EVERY_S:
            self._told = now
            message = "Recovered %d of %d MB, %d of %d logs"
            logs = len(self.sizes) - len(self._waiting), len(self.sizes)
            sizes = self._done // _MEGABYTE, self._total // _MEGABYTE
            logger.info(message, *sizes, *logs, extra={"share": self._done / max(1, self._total)})


def bytes_to_scan(directory: Path, recovery_point: int) -> int:
    """Return how many bytes recovery scans: the segment with the recovery point, and all later segments."""
    try:
        with os.scandir(directory) as entries:
            sizes = {
                int(stem): entry.stat().st_size
                for entry in entries
                if entry.name.endswith(LOG_SUFFIX) and (stem := entry.name.removesuffix(LOG_SUFFIX)).isdecimal()
            }
    except OSError:
        return 0  # opening the log raises the error
    first = max((offset for offset in sizes if offset <= recovery_point), default=0)
    return sum(size for offset, size in sizes.items() if offset >= first)
