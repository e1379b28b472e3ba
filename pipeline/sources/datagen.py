"""Rows that are made up: SQL expressions over a counter.

Owns the keys and the expressions. Must not know how rows are counted while a query runs (`counter`). Counterpart in
Kafka's world: Connect's Datagen connector.
"""

from typing import Any

from ottla.pipeline.failures import reason
from ottla.pipeline.settings import Settings
from ottla.pipeline.sources.source import Source


class DatagenSource(Source):
    """Rows of `columns`, each an expression over `id`, which counts from 0.

    With `rowsPerSecond` they come as time goes by. Without, all of `numberOfRows` are there when a query starts.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        columns = settings.part("columns")
        self._columns = columns.all_texts()
        if not self._columns:
            raise settings.wrong("columns", "is missing")
        pace, most = settings.optional("rowsPerSecond"), settings.optional("numberOfRows")
        self._rows_per_second = None if pace is None else settings.integer("rowsPerSecond", least=1)
        self._number_of_rows = None if most is None else settings.integer("numberOfRows", least=1)
        if pace is None and most is None:
            raise settings.wrong("numberOfRows", "is missing, and so is rowsPerSecond; one of them is to be there")

    def load(self, spark: Any, *, streaming: bool, checkpoint: str = "") -> Any:
        """Count, and make rows of it."""
        expressions = [f"({expression}) AS `{name}`" for name, expression in self._columns.items()]
        counted = self._counted(spark, streaming)
        try:
            return counted.selectExpr(*expressions)
        except Exception as error:
            raise self._settings.wrong("columns", f"cannot be computed: {reason(error)}") from None

    def _counted(self, spark: Any, streaming: bool) -> Any:
        most = self._number_of_rows
        if not streaming:
            if most is None:
                raise self._settings.wrong("numberOfRows", "is missing: without it there are rows only in a stream")
            return spark.range(most)
        if self._rows_per_second is None:
            from ottla.pipeline.sources.counter import Counter

            spark.dataSource.register(Counter)
            return spark.readStream.format(Counter.name()).option("numberOfRows", most).load()
        rate = spark.readStream.format("rate").option("rowsPerSecond", self._rows_per_second).load()
        counted = rate.selectExpr("value AS id")
        return counted if most is None else counted.where(f"id < {most}")
