"""What a source is.

Owns the shape that all sources share. Must not know any of them. Counterpart in Kafka: SourceConnector.
"""

from collections.abc import Sequence
from typing import Any

from ottla.pipeline import record_frame


class Source:
    """Where rows come from. What can be wrong with its keys is said when it is made, before Spark starts."""

    # What has to be among Spark's jars: "delta", "iceberg", "postgresql" or "sqlite".
    needs: Sequence[str] = ()

    def load(self, spark: Any, *, streaming: bool, checkpoint: str = "") -> Any:
        """The rows, as a frame that streams or is there at once.

        `checkpoint` is the query's checkpoint directory: what a source must remember beside Spark's own offsets lies
        there, so that both are kept, copied and removed together.
        """
        raise NotImplementedError

    def records(self, spark: Any, *, streaming: bool, checkpoint: str = "") -> Any:
        """The same as a record frame, in which a row that cannot be read has an error."""
        return record_frame.from_values(self.load(spark, streaming=streaming, checkpoint=checkpoint))

    def poll(self) -> None:
        """Look for new rows where Spark cannot do so itself: to be called about once a second while a query runs."""
