"""Files: those that a folder gets more of, by Spark's own file source, and those that are still appended to.

Owns the keys. Must not know how lines are read while a file grows (`growing`). Counterparts in Kafka and around it:
FileStreamSourceConnector, the connectors that watch a folder.
"""

from typing import Any, Final

from ottla.pipeline.failures import reason
from ottla.pipeline.filesystem import local_path, require_found
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
_OF_PARSING: Final = ("mode", "timestampFormat", "dateFormat", "columnNameOfCorruptRecord")
# Of any other mode Spark makes the first one. Leaving out what is malformed is for files that are read whole.
_MODES: Final = ("PERMISSIVE", "FAILFAST", "DROPMALFORMED")
_CLEANINGS: Final = ("off", "delete", "archive")
_ANY_AGE: Final = "36500d"
_OF_FORMAT: Final = {
    "text": (),
    "csv": ("header", "delimiter", "quote", "escape", "nullValue", *_OF_PARSING),
    "json": _OF_PARSING,
    "parquet": (),
}


class FilesSource(Source):
    """Rows of text (one column, `value`), csv, json (one object a line) or parquet files.

    With `follow`, which text has by default, files may still be appended to, and each whole line is read once.
    Without, a file is read once, whole, and has to be complete when it appears, as by a rename.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = require_found(settings, "path")
        self._format = settings.choice("format", list(_OF_FORMAT), "text")
        self._schema = settings.text("schema") if self._format in ("csv", "json") else None
        if self._format == "parquet":
            self._schema = settings.optional("schema")
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
        options = (*(() if self._follows else _OF_WHOLE_FILES), *_OF_FORMAT[self._format])
        self._options = {key: text for key in options if (text := settings.optional(key)) is not None}
        if "header" in self._options:
            self._options["header"] = str(settings.truth("header")).lower()
        if "mode" in self._options:
            settings.choice("mode", _MODES[: 2 if self._follows else 3])
        if "maxFilesPerTrigger" in self._options:
            settings.integer("maxFilesPerTrigger", least=1)
        if "cleanSource" in self._options and settings.choice("cleanSource", _CLEANINGS) == "archive":
            settings.text("sourceArchiveDir")

    def load(self, spark: Any, *, streaming: bool, checkpoint: str = "") -> Any:
        """Read what there is, or all that comes."""
        try:
            return self._load(spark, streaming)
        except Exception as error:
            raise self._settings.wrong("path", f"cannot be read: {reason(error)}") from None

    def _load(self, spark: Any, streaming: bool) -> Any:
        if streaming and self._follows:
            return self._parsed(self._lines(spark))
        schema = self._schema
        if streaming and self._format == "parquet" and schema is None:
            schema = spark.read.options(**self._options).parquet(self._path).schema
        reader = (spark.readStream if streaming else spark.read).format(self._format).options(**self._options)
        # Else Spark passes over new files that are a week older than the newest one that it knows.
        reader = reader.options(ignoreMissingFiles=self._is_lenient, maxFileAge=_ANY_AGE)
        return (reader if schema is None else reader.schema(schema)).load(self._path)

    def _lines(self, spark: Any) -> Any:
        from ottla.pipeline.sources.growing import GrowingFiles

        spark.dataSource.register(GrowingFiles)
        reader = spark.readStream.format(GrowingFiles.name())
        reader = reader.option("ignoreMissingFiles", self._is_lenient)
        return reader.option("header", self._options.get("header", "false")).load(str(local_path(self._path)))

    def _parsed(self, lines: Any) -> Any:
        if self._format == "text":
            return lines
        from pyspark.sql import functions

        parse = functions.from_json if self._format == "json" else functions.from_csv
        options = {key: text for key, text in self._options.items() if key != "header"}
        rows = lines.where("trim(value) <> ''").select(parse("value", self._schema, options).alias("row"))
        return rows.select("row.*")
