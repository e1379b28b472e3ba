"""Files that are still appended to, as a stream of their lines.

Owns the data source that Spark's Python workers run. Must not know what stands in a line. `lines` has all that needs no
Spark. Counterpart in Kafka: FileStreamSourceConnector.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from ottla.pipeline.sources.lines import Ends, find, new_ranges, read_lines

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before PySpark 4.2, where Spark itself remembers where the end was
    SupportsTriggerAvailableNow = object


class GrowingFiles(DataSource):  # type: ignore[misc]
    """Rows of `value`, one for each whole line of the files that the option `path` names, and of that `file`."""

    @classmethod
    def name(cls) -> str:
        """What jobs of Spark call it."""
        return "ottla-lines"

    def schema(self) -> str:
        """Two columns."""
        return "value string, file string"

    def streamReader(self, schema: Any) -> "GrowingFilesReader":  # noqa: N802
        """What reads it."""
        return GrowingFilesReader(**{key: self.options[key] for key in ("path", "header", "ignoreMissingFiles")})


class GrowingFilesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads what was added to each file. An offset has, for each path, how far it was read."""

    def __init__(self, path: str, header: str, ignoreMissingFiles: str) -> None:  # noqa: N803
        self._pattern = path
        self._has_header = header == "true"
        self._is_lenient = ignoreMissingFiles == "true"
        self._ends = Ends()
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Nothing was read."""
        return {}

    # Without arguments before PySpark 4.2.
    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        """How far each file can be read now, or is to be read at all."""
        return self._target if self._target is not None else self._ends.of(find(self._pattern))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to here, and then no more."""
        self._target = self._ends.of(find(self._pattern))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """What was added, a task for each file, or for each piece of what is large."""
        return [InputPartition(part) for part in new_ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read lines; what is gone since the batch was planned fails it, unless that is to be ignored."""
        import pyarrow

        try:
            for lines in read_lines(partition.value, skip_header=self._has_header):
                columns = [pyarrow.array(lines, pyarrow.string()), pyarrow.repeat(partition.value.path, len(lines))]
                yield pyarrow.RecordBatch.from_arrays(columns, ["value", "file"])
        except (FileNotFoundError, EOFError):
            if not self._is_lenient:
                raise
