"""Files: those that a folder gets more of, by Spark's own file source, and those that are still appended to.

Owns the keys, and how files become lines. Must not know how lines are read while a file grows (`growing`), nor how they
become rows (`formats`). Counterparts in Kafka and around it:
FileStreamSourceConnector, the connectors that watch a folder.
"""

from collections.abc import Mapping
from typing import Any, Final

from ottla.pipeline import record_frame
from ottla.pipeline.failures import reason
from ottla.pipeline.filesystem import local_path, require_found
from ottla.pipeline.formats import Format
from ottla.pipeline.formats.csv_format import CsvFormat
from ottla.pipeline.formats.json_format import JsonFormat
from ottla.pipeline.settings import Settings
from ottla.pipeline.sources.source import Source

# Options that Spark gives its own names, handed on as they are.
_OF_WHOLE_FILES: Final = (
    "maxFilesPerTrigger",
    "pathGlobFilter",
    "recursiveFileLookup",
    "cleanSource",
    "sourceArchiveDir",
)
_OF_PARSING: Final = ("timestampFormat", "dateFormat")
# How Spark's reader of csv gives each line as it stands, but for headers, which no other reader of Spark's knows: what
# separates fields is in no text, and there are no quotes.
_WHOLE_LINES: Final = {"header": "true", "sep": "\uffff", "quote": "", "escape": ""}
# So much of a line stands in an error.
_SHOWN: Final = 100
_CLEANINGS: Final = ("off", "delete", "archive")
_ANY_AGE: Final = "36500d"
_OF_FORMAT: Final = {
    "text": (),
    "csv": ("delimiter", "quote", "escape", "nullValue", *_OF_PARSING),
    "json": _OF_PARSING,
    "parquet": (),
}


class FilesSource(Source):
    """Rows of text (one column, `value`), csv (one row a line), json (one object a line) or parquet files.

    With `follow`, which text has by default, files may still be appended to, and each whole line is read once.
    Without, a file is read once, whole, and has to be complete when it appears, as by a rename.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = require_found(settings, "path")
        self._format = settings.choice("format", list(_OF_FORMAT), "text")
        self._schema = settings.optional("schema") if self._format == "parquet" else None
        is_local = local_path(self._path) is not None
        self._follows = settings.truth("follow", default=self._format == "text" and is_local)
        if self._follows and self._format == "parquet":
            raise settings.wrong("follow", "is for files of lines, which parquet is not")
        if self._follows and not is_local:
            raise settings.wrong("follow", f"is for files on disks, which {self._path} is not")
        if self._follows and "{" in self._path:
            raise settings.wrong(
                "path", "has braces, which are for files that are read whole: with follow, take * or [ab]"
            )
        self._is_lenient = settings.truth("ignoreMissingFiles", default=False)
        self._has_header = self._format == "csv" and settings.truth("header", default=False)
        options = () if self._follows else _OF_WHOLE_FILES
        self._options = {key: text for key in options if (text := settings.optional(key)) is not None}
        self._form = self._read_form(settings)
        if "maxFilesPerTrigger" in self._options:
            settings.integer("maxFilesPerTrigger", least=1)
        if "cleanSource" in self._options and settings.choice("cleanSource", _CLEANINGS) == "archive":
            settings.text("sourceArchiveDir")

    def _read_form(self, settings: Settings) -> Format | None:
        """How lines are read as rows; None for what Spark itself reads."""
        options = {key: text for key in _OF_FORMAT[self._format] if (text := settings.optional(key)) is not None}
        if self._format == "csv":
            return CsvFormat(settings, options)
        if self._format != "json":
            return None
        # Its keys are the job's own, of which this is one.
        form = JsonFormat(
            Settings({"schema": settings.text("schema")}, settings.file, settings.prefix),
            is_connect=False,
            options=options,
        )
        form.check_reading()
        return form

    def load(self, spark: Any, *, streaming: bool, checkpoint: str = "") -> Any:
        """Read what there is, or all that comes: of csv and json the lines, and the file of each."""
        try:
            return self._lines(spark, streaming) if self._form else self._load(spark, streaming)
        except Exception as error:
            raise self._settings.wrong("path", f"cannot be read: {reason(error)}") from None

    def records(self, spark: Any, *, streaming: bool, checkpoint: str = "") -> Any:
        """The same as a record frame; a line of csv or json that is no row has an error, which names its file."""
        if self._form is None:
            return super().records(spark, streaming=streaming, checkpoint=checkpoint)
        from pyspark.sql import functions as fn

        lines = self.load(spark, streaming=streaming, checkpoint=checkpoint)
        line = fn.substring(fn.col("original.value").cast("string"), 1, _SHOWN)
        place = fn.concat(fn.lit("file "), fn.col("file"), fn.lit(", line "), line, fn.lit(": "))
        return self._form.decode(record_frame.from_lines(lines), "value", place)

    def _load(self, spark: Any, streaming: bool) -> Any:
        if streaming and self._follows:
            return self._growing(spark).select("value")
        schema = self._schema
        if streaming and self._format == "parquet" and schema is None:
            schema = spark.read.options(**self._options).parquet(self._path).schema
        reader = self._reader(spark, streaming, self._format, self._options)
        return (reader if schema is None else reader.schema(schema)).load(self._path)

    def _reader(self, spark: Any, streaming: bool, kind: str, options: Mapping[str, str]) -> Any:
        reader = (spark.readStream if streaming else spark.read).format(kind).options(**options)
        # Else Spark passes over new files that are a week older than the newest one that it knows.
        return reader.options(ignoreMissingFiles=self._is_lenient, maxFileAge=_ANY_AGE)

    def _growing(self, spark: Any) -> Any:
        from ottla.pipeline.sources.growing import GrowingFiles

        spark.dataSource.register(GrowingFiles)
        reader = spark.readStream.format(GrowingFiles.name())
        reader = reader.option("ignoreMissingFiles", self._is_lenient)
        return reader.option("header", str(self._has_header).lower()).load(str(local_path(self._path)))

    def _lines(self, spark: Any, streaming: bool) -> Any:
        """Lines with something in them, and without the first one of each file where that is a header."""
        from pyspark.sql import functions as fn

        if streaming and self._follows:
            lines = self._growing(spark)
        else:
            kind, options = ("csv", _WHOLE_LINES) if self._has_header else ("text", {})
            lines = self._reader(spark, streaming, kind, {**self._options, **options}).schema("value STRING")
            lines = lines.load(self._path).select("value", fn.col("_metadata.file_path").alias("file"))
        return lines.withColumn("value", fn.ltrim("value", fn.lit("\ufeff"))).where("trim(value) <> ''")
