"""Rates over the last windows of time.

PURE. Owns the samples, and how long they are kept. Must not know what is measured, nor what follows from a rate.
Counterpart in Kafka: SampledStat.
"""

from collections import deque


class _Sample:
    __slots__ = ("amount", "last_ms", "start_ms")

    def __init__(self, now_ms: float) -> None:
        self.start_ms = self.last_ms = now_ms
        self.amount = 0.0


class SampledRate:
    """The amounts recorded in the last `window_num` windows of `window_ms` each."""

    def __init__(self, window_num: int, window_ms: int) -> None:
        self.window_num = window_num
        self.window_ms = window_ms
        # As many as Kafka keeps: one more than windows, because the oldest sample may overlap the oldest window.
        self._samples: deque[_Sample] = deque(maxlen=window_num + 1)

    def record(self, amount: float, now_ms: float) -> None:
        """Add to the last sample, or begin a new one if the last is `window_ms` old."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self.window_ms:
            samples.append(_Sample(now_ms))
        samples[-1].amount += amount
        samples[-1].last_ms = now_ms

    def measure(self, now_ms: float) -> tuple[float, float]:
        """Return the amount and the milliseconds since it began; drop samples from before the last windows."""
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self.window_num * self.window_ms:
            samples.popleft()
        return sum(sample.amount for sample in samples), now_ms - samples[0].start_ms if samples else 0
