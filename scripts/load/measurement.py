"""Counts of a run of load: records, bytes, seconds and latencies, from a moment on.

PURE but for the clock. Must not know what is sent or read.
"""

import time
from typing import Any, Final

from ottla.scripts.load.latencies import Latencies

COLUMNS: Final = (
    "records",
    "bytes",
    "seconds",
    "records_per_second",
    "mb_per_second",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
)
"""The columns of `Measurement.row`; a megabyte has 1,000,000 bytes."""
_MEGABYTE: Final = 1_000_000
_SHARES: Final = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}


class Measurement:
    """What was counted since the last `begin`."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin anew: what was counted before does not count."""
        self.records = 0
        self.bytes = 0
        self.latencies = Latencies()
        self.begun = self._last = time.perf_counter()

    def add(self, records: int, size: int, latency: float | None = None) -> None:
        """Count records of `size` bytes that are done now, each after `latency` seconds, if that is known."""
        self.records += records
        self.bytes += size
        if latency is not None:
            self.latencies.add(latency)
        self._last = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Return how long it took until the last record was done."""
        return self._last - self.begun

    @property
    def mb_per_second(self) -> float | None:
        """Return the rate of bytes; None while there is none."""
        return self.bytes / _MEGABYTE / self.seconds if self.seconds else None

    def row(self) -> dict[str, Any]:
        """Return the values of `COLUMNS`; None for what is not known."""
        found = {
            "seconds": self.seconds,
            "records_per_second": self.records / self.seconds if self.seconds else None,
            "mb_per_second": self.mb_per_second,
            "mean_ms": self.latencies.mean_ms,
            **{name: self.latencies.percentile_ms(share) for name, share in _SHARES.items()},
            "max_ms": self.latencies.max_ms,
        }
        rounded = {name: None if value is None else round(value, 3) for name, value in found.items()}
        return {"records": self.records, "bytes": self.bytes, **rounded}
