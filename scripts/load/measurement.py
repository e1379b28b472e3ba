"""The measurement of a run of load: records, bytes, seconds and latencies.

PURE but for the clock. Must not know the records.
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
    """The counts since the last `begin`."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Reset all counts and start the clock."""
        self.records = 0
        self.bytes = 0
        self.latencies = Latencies()
        self.begun = self._last = time.perf_counter()

    def add(self, records: int, size: int, latency: float | None = None) -> None:
        """Count records of `size` bytes in all that completed now, each after `latency` seconds (None: unknown)."""
        self.records += records
        self.bytes += size
        if latency is not None:
            self.latencies.add(latency)
        self._last = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Return the seconds from `begin` to the last record."""
        return self._last - self.begun

    @property
    def mb_per_second(self) -> float | None:
        """Return the megabytes a second; None without a time."""
        return self.bytes / _MEGABYTE / self.seconds if self.seconds else None

    def row(self) -> dict[str, Any]:
        """Return the values of `COLUMNS`; None for unknown ones."""
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
