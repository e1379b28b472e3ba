"""Rates and latencies of a producer as kafka-producer-perf-test prints them, for a window and for all.

PURE but for the clock. Counterpart: ProducerPerformance.Stats.
"""

import time
from collections.abc import Callable
from typing import Final

from ottla.scripts.kafka.face import JavaError
from ottla.scripts.kafka.java.numbers import fixed, quotient

_MOST_SAMPLES: Final = 500_000
_MEGABYTE: Final = 1024 * 1024
_SHARES: Final = (0.5, 0.95, 0.99, 0.999)


def now_ms() -> int:
    """Return the time in milliseconds."""
    return time.time_ns() // 1_000_000


def _unusable(records: int) -> JavaError:
    """Return Java's exception for an array of so many latencies."""
    if records == 0:
        return JavaError("java.lang.ArithmeticException", "/ by zero")
    if records == -1:
        return JavaError("java.lang.ArrayIndexOutOfBoundsException", "Index 0 out of bounds for length 0")
    return JavaError("java.lang.NegativeArraySizeException", str(records + 1))


class Stats:
    """Counts records, and prints a line after each window."""

    def __init__(
        self, records: int, interval_ms: int, print_line: Callable[[str], None], *, is_steady_state: bool = False
    ) -> None:
        """`records` is the number of records to come, because it decides which latencies are kept for percentiles.

        JavaError for fewer than one, which 3.9 does not refuse earlier.
        """
        if records < 1:
            raise _unusable(records)
        self.prints_windows = True
        self._interval_ms = interval_ms
        self.print_line = print_line
        self._is_steady_state = is_steady_state
        self._sampling = records // min(records, _MOST_SAMPLES)
        self._begun_ms = now_ms()
        self._latencies: list[int] = []
        self._count = 0
        self._bytes = 0
        self._sum = 0
        self._max = 0
        self._begin_window()

    def _begin_window(self) -> None:
        self._window_begun_ms = now_ms()
        self._window_count = 0
        self._window_bytes = 0
        self._window_sum = 0
        self._window_max = 0

    def record(self, latency_ms: int, size: int, now: int) -> None:
        """Count an acknowledged record."""
        if self._count % self._sampling == 0:
            self._latencies.append(latency_ms)
        self._count += 1
        self._bytes += size
        self._sum += latency_ms
        self._max = max(self._max, latency_ms)
        self._window_count += 1
        self._window_bytes += size
        self._window_sum += latency_ms
        self._window_max = max(self._window_max, latency_ms)
        if now - self._window_begun_ms >= self._interval_ms:
            if self._is_steady_state and self._count == self._window_count:
                self.print_line("In steady state.")
            if self.prints_windows:
                self._print_window()
            self._begin_window()

    def _print_window(self) -> None:
        elapsed_ms = now_ms() - self._window_begun_ms
        rate = quotient(1000.0 * self._window_count, elapsed_ms)
        megabytes = quotient(1000.0 * self._window_bytes, elapsed_ms) / _MEGABYTE
        mean = quotient(self._window_sum, self._window_count)
        self.print_line(
            f"{self._window_count} records sent, {fixed(rate, 1)} records/sec ({fixed(megabytes, 2)} MB/sec), "
            f"{fixed(mean, 1)} ms avg latency, {fixed(self._window_max, 1)} ms max latency."
        )

    def print_total(self) -> None:
        """Print the line for all records."""
        elapsed_ms = now_ms() - self._begun_ms
        rate = quotient(1000.0 * self._count, elapsed_ms)
        megabytes = quotient(1000.0 * self._bytes, elapsed_ms) / _MEGABYTE
        mean = quotient(self._sum, self._count)
        ordered = sorted(self._latencies) or [0]
        p50, p95, p99, p999 = (ordered[int(share * len(self._latencies))] for share in _SHARES)
        self.print_line(
            f"{self._count}{' steady state' if self._is_steady_state else ''} records sent, {fixed(rate, 6)} "
            f"records/sec ({fixed(megabytes, 2)} MB/sec), {fixed(mean, 2)} ms avg latency, "
            f"{fixed(self._max, 2)} ms max latency, {p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )
