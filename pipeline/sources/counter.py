"""A stream that counts to some number and is then done: what Spark's own rate source cannot.

Owns the data source that Spark's Python workers run. No counterpart in Kafka.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

_ROWS_OF_A_PARTITION: Final = 1_000_000
_ROWS_OF_A_BATCH: Final = 10_000


class Counter(DataSource):  # type: ignore[misc]
    """Rows of `id`, from 0 up to but not including the option numberOfRows."""

    @classmethod
    def name(cls) -> str:
        """What jobs of Spark call it."""
        return "ottla-counter"

    def schema(self) -> str:
        """One column."""
        return "id bigint"

    def streamReader(self, schema: Any) -> "CounterReader":  # noqa: N802
        """What reads it."""
        return CounterReader(int(self.options["numberOfRows"]))


class CounterReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reads in one batch all that there are."""

    def __init__(self, number_of_rows: int) -> None:
        self._number_of_rows = number_of_rows

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Where a query begins."""
        return {"id": 0}

    # Without arguments, as in every PySpark since 4.0.
    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        """Where it ends, exclusive."""
        return {"id": self._number_of_rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Ranges of numbers, a task each."""
        begins = range(start["id"], end["id"], _ROWS_OF_A_PARTITION)
        return [InputPartition((begin, min(begin + _ROWS_OF_A_PARTITION, end["id"]))) for begin in begins]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Count."""
        import pyarrow

        first, end = partition.value
        for begin in range(first, end, _ROWS_OF_A_BATCH):
            ids = pyarrow.array(range(begin, min(begin + _ROWS_OF_A_BATCH, end)), pyarrow.int64())
            yield pyarrow.RecordBatch.from_arrays([ids], ["id"])
