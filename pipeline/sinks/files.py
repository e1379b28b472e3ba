"""Files in a folder: Parquet, JSON, CSV or text, which anybody can read as they lie there.

Owns how a batch gets into the folder exactly once. It is written where no reader looks, under `_ottla`; one rename
says that it is complete, and from then on it stands. Its files are then moved into the folder one by one, under names
with query and batch in them. A job that was killed before the rename has written nothing; one that was killed behind it
moves what is left when the batch comes again. A file that is in the folder is whole and stays; between the first and
the last move, readers see a part of the batch.

This needs a file system that renames at once: disks and HDFS do, S3 does not. There a Delta table is the way.
Counterparts in Kafka and around it: FileStreamSinkConnector, the connectors for HDFS.
"""

import uuid
from typing import Any, Final

from ottla.pipeline.failures import reason
from ottla.pipeline.filesystem import Folder, require_parent
from ottla.pipeline.settings import Settings
from ottla.pipeline.sinks.sink import Sink

# Options that Spark gives its own names, handed on as they are.
_OPTIONS: Final = {
    "parquet": ("compression",),
    "json": ("compression",),
    "csv": ("compression", "header", "delimiter", "quote", "escape", "nullValue"),
    "text": ("compression",),
}


class FilesSink(Sink):
    """Files of a `format` in the folder `path`, in folders of their own for each value of `partition.by`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._format = self._read_format(settings)
        self._path = require_parent(settings, "path")
        self._partition_by = settings.texts("partition.by", ())
        names = _OPTIONS[self._format]
        self._options = {key: text for key in names if (text := settings.optional(key)) is not None}

    def _read_format(self, settings: Settings) -> str:
        return settings.choice("format", list(_OPTIONS))

    def write(self, batch: Any, query_id: str, batch_id: int) -> None:
        """Write, complete and move, whatever of that is still to be done."""
        try:
            folder, journal = Folder(batch.sparkSession, self._path), f"_ottla/{query_id}"
            done = [int(name.removeprefix("done-")) for name in folder.names(journal) if name.startswith("done-")]
            if batch_id <= max(done, default=-1):
                return
            complete = f"{journal}/complete-{batch_id}"
            if not folder.exists(complete):
                self._complete(batch, folder, journal, complete)
            for name in folder.all_files(complete):
                values, slash, file = name.rpartition("/")
                folder.move(f"{complete}/{name}", f"{values}{slash}batch-{query_id}-{batch_id}-{file}")
            folder.move(complete, f"{journal}/done-{batch_id}")
            for earlier in done:
                folder.remove(f"{journal}/done-{earlier}")
        except Exception as error:
            raise self._settings.wrong("path", f"was not written: {reason(error)}") from None

    def _complete(self, batch: Any, folder: Folder, journal: str, complete: str) -> None:
        for name in folder.names(journal):
            if name.startswith("staging-"):
                folder.remove(f"{journal}/{name}")
        # A name of its own: tasks of a driver that was killed may still write to theirs.
        staging = f"{journal}/staging-{uuid.uuid4().hex}"
        writer = batch.write.format(self._format).options(**self._options).partitionBy(*self._partition_by)
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").save(folder.full(staging))
        folder.move(staging, complete)


class ParquetSink(FilesSink):
    """Parquet files, as with `format` parquet."""

    def _read_format(self, settings: Settings) -> str:
        return "parquet"
