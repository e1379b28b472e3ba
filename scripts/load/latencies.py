"""A histogram of times: any number of them in little memory, each with an error below one percent.

PURE. Counterpart elsewhere: HdrHistogram.
"""

import math
from collections import Counter
from typing import Final

_DIGITS: Final = 8
"""How many bits of a time are kept."""
_MICROSECONDS: Final = 1_000_000


class Latencies:
    """Counts of times, in seconds, to the microsecond."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self._max = 0
        self._buckets: Counter[int] = Counter()
        """The count of times by upper bound in microseconds."""

    def add(self, seconds: float) -> None:
        """Count a time."""
        value = round(seconds * _MICROSECONDS)
        shift = max(0, value.bit_length() - _DIGITS)
        self._buckets[((value >> shift) + 1 << shift) - 1] += 1
        self.count += 1
        self._sum += seconds
        self._max = max(self._max, value)

    @property
    def mean_ms(self) -> float | None:
        """Return the mean in milliseconds; None without times."""
        return self._sum / self.count * 1000 if self.count else None

    @property
    def max_ms(self) -> float | None:
        """Return the longest time in milliseconds; None without times."""
        return self._max / 1000 if self.count else None

    def percentile_ms(self, share: float) -> float | None:
        """Return the time in milliseconds that this share of times does not exceed; None without times."""
        left = max(1, math.ceil(share * self.count))
        for bound in sorted(self._buckets):
            left -= self._buckets[bound]
            if left <= 0:
                return min(bound, self._max) / 1000
        return None
