"""Counts of the records, batches and requests that a producer has sent.

Must not know who reads them. Counterpart in Kafka: SenderMetricsRegistry.
"""


class Counts:
    """Numbers that only grow. A request's latency runs from its last byte sent to its response, in seconds."""

    __slots__ = (
        "batch_bytes",
        "batches",
        "failed",
        "largest_batch",
        "latency",
        "longest",
        "records",
        "requests",
        "responses",
        "retried",
    )

    def __init__(self) -> None:
        self.records = 0
        self.failed = 0
        """Records that failed."""
        self.retried = 0
        """Records that were sent again."""
        self.batches = 0
        self.batch_bytes = 0
        """Bytes of all batches as they were sent: compressed."""
        self.largest_batch = 0
        self.requests = 0
        self.responses = 0
        self.latency = 0.0
        self.longest = 0.0

    def sent(self, records: int, size: int) -> None:
        """Count a batch."""
        self.records += records
        self.batches += 1
        self.batch_bytes += size
        self.largest_batch = max(self.largest_batch, size)

    def answered(self, seconds: float) -> None:
        """Count a response."""
        self.responses += 1
        self.latency += seconds
        self.longest = max(self.longest, seconds)
