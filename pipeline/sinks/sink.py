"""What a sink is.

Owns the shape that all sinks share. Must not know any of them. Counterparts in Kafka: SinkConnector, SinkTask.
"""

from collections.abc import Sequence
from typing import Any


class Sink:
    """Where rows go. What can be wrong with its keys is said when it is made, before Spark starts."""

    # What has to be among Spark's jars: "delta", "iceberg", "postgresql" or "sqlite".
    needs: Sequence[str] = ()
    # Whether a record without a value is a row too, of nothing but nulls.
    takes_nulls = False

    def check(self, spark: Any) -> None:
        """Say what is wrong before there are rows: a jar that is missing, a database that is down."""

    def write(self, batch: Any, query_id: str, batch_id: int) -> None:
        """Write the rows of a batch, once, however often it is called for the same batch and wherever it was killed.

        `query_id` is that of one checkpoint: batches of another one, which begin at 0 again, are others.
        """
        raise NotImplementedError
