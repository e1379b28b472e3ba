"""A Delta table.

Owns its keys. Each batch is one transaction that Delta knows by query and batch: it leaves out what it has had.
Counterpart in Kafka's world: a connector for Delta Lake.
"""

from typing import Any

from ottla.pipeline.failures import reason
from ottla.pipeline.filesystem import require_parent
from ottla.pipeline.jvm import require_class
from ottla.pipeline.settings import Settings
from ottla.pipeline.sinks.sink import Sink


class DeltaSink(Sink):
    """Appends to the table at `path`, made with the first batch and partitioned by the columns of `partition.by`."""

    needs = ("delta",)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = require_parent(settings, "path")
        self._partition_by = settings.texts("partition.by", ())

    def check(self, spark: Any) -> None:
        """Look for Delta."""
        require_class(spark, "io.delta.sql.DeltaSparkSessionExtension", self._settings, "type", "Delta")

    def write(self, batch: Any, query_id: str, batch_id: int) -> None:
        """Append, unless Delta has the batch already."""
        writer = batch.write.format("delta").mode("append").partitionBy(*self._partition_by)
        try:
            writer.option("txnAppId", query_id).option("txnVersion", batch_id).save(self._path)
        except Exception as error:
            raise self._settings.wrong("path", f"was not written: {reason(error)}") from None
