"""An Iceberg table of a catalog that Spark is configured with.

Owns its keys. Each batch is one snapshot that bears query and batch; a batch of which there is a snapshot is left out.
Whoever expires snapshots is to keep the last one of each job. Counterpart in Kafka's world: Iceberg's sink connector.
"""

from typing import Any, Final

from ottla.pipeline.failures import reason
from ottla.pipeline.jvm import require_class
from ottla.pipeline.settings import Settings
from ottla.pipeline.sinks.sink import Sink

_QUERY: Final = "ottla.query"
_BATCH: Final = "ottla.batch"


class IcebergSink(Sink):
    """Appends to `table`, which is made with the first batch, partitioned by the columns of `partition.by`."""

    needs = ("iceberg",)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._table = settings.text("table")
        self._partition_by = settings.texts("partition.by", ())

    def check(self, spark: Any) -> None:
        """Look for Iceberg."""
        what = f"Iceberg for Spark {spark.version}"
        require_class(spark, "org.apache.iceberg.spark.SparkCatalog", self._settings, "type", what)

    def write(self, batch: Any, query_id: str, batch_id: int) -> None:
        """Append, unless a snapshot says that it was done."""
        try:
            self._make_table(batch)
            if not self._has(batch.sparkSession, query_id, batch_id):
                writer = batch.writeTo(self._table).option(f"snapshot-property.{_QUERY}", query_id)
                writer.option(f"snapshot-property.{_BATCH}", str(batch_id)).append()
        except Exception as error:
            raise self._settings.wrong("table", f"was not written: {reason(error)}") from None

    def _make_table(self, batch: Any) -> None:
        if batch.sparkSession.catalog.tableExists(self._table):
            return
        creation = batch.limit(0).writeTo(self._table).using("iceberg")
        if self._partition_by:
            from pyspark.sql import functions

            creation = creation.partitionedBy(*map(functions.col, self._partition_by))
        creation.create()

    def _has(self, spark: Any, query_id: str, batch_id: int) -> bool:
        snapshots = spark.table(f"{self._table}.snapshots").where(f"summary['{_QUERY}'] = '{query_id}'")
        return bool(snapshots.where(f"CAST(summary['{_BATCH}'] AS BIGINT) >= {batch_id}").take(1))
