"""CSV: one line becomes one row, or has a problem.

Owns which lines are rows of a schema. Where Spark's parser takes quotes that do not end for some text, or has fewer or
more fields than there are columns, that is a problem here. Must not know files. No counterpart in Kafka, whose Connect
has no CSV.
"""

import re
from collections.abc import Mapping
from typing import Final

from ottla.pipeline.formats.format import Column, Format, Outcome
from ottla.pipeline.formats.json_reading import CORRUPT, JsonReader
from ottla.pipeline.formats.schema import Schema
from ottla.pipeline.formats.schema_text import KEY, read_schema
from ottla.pipeline.names import quoted
from ottla.pipeline.record_frame import unmoved
from ottla.pipeline.settings import Settings

# Spark's own, and what it takes for one character.
_DEFAULTS: Final = {"delimiter": ",", "quote": '"', "escape": "\\"}
_ESCAPED: Final = {
    r"\t": "\t",
    r"\r": "\r",
    r"\b": "\b",
    r"\f": "\f",
    r"\\": "\\",
    r"\'": "'",
    r"\"": '"',
    r"\u0000": "\0",
}
_NO_ROW: Final = "no row of the schema"
_QUOTES: Final = "quotes that do not end where a field ends"


class CsvFormat(Format):
    """Lines of CSV with a schema; `options` are those of Spark's parser."""

    converter = "org.apache.kafka.connect.storage.Converter"

    def __init__(self, settings: Settings, options: Mapping[str, str]) -> None:
        super().__init__(settings)
        schema = read_schema(settings)
        if schema is None or schema.type != "struct":
            settings.text(KEY)
            raise settings.wrong(KEY, "is to have columns")
        self.schema: Schema = schema
        self._reader = JsonReader(is_connect=False)
        self._options = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}

    def parse(self, raw: Column) -> Column:
        """Return a struct of the columns, and of the line where it is no row of theirs."""
        from pyspark.sql import functions as fn

        columns = [f"{quoted(name)} {self._reader.parsed_type(each)}" for name, each in self.schema.fields]
        return unmoved(fn.from_csv(raw.cast("string"), ", ".join([*columns, f"{CORRUPT} STRING"]), self._options))

    def read(self, raw: Column, parsed: Column) -> Outcome:
        """Return rows and problems of lines."""
        from pyspark.sql import functions as fn

        row = fn.struct(*(parsed.getField(name).alias(name) for name, _ in self.schema.fields))
        value, problem = self._reader.outcome(self.schema, row)
        found = fn.when(parsed.getField(CORRUPT).isNotNull(), fn.lit(_NO_ROW)).otherwise(problem)
        delimiter, quote, escape = (self._options.get(*each) for each in _DEFAULTS.items())
        delimiter = _ESCAPED.get(delimiter, delimiter)
        if quote:
            rest = fn.regexp_replace(raw.cast("string"), *well_quoted(delimiter, quote, escape))
            found = fn.when(rest.rlike(open_quote(delimiter, quote)), fn.lit(_QUOTES)).otherwise(found)
        return Outcome(value, fn.when(raw.isNotNull(), found))


def well_quoted(delimiter: str, quote: str, escape: str) -> tuple[str, str]:
    """Return a regular expression of quoted fields that end where their quotes end, and what leaves out the fields.

    Repeats are possessive: Java does not call itself for each character then.
    """
    between, q, e = map(re.escape, (delimiter, quote, escape))
    inner = f"[^{q}]++|{q}{q}" if quote == escape else f"[^{q}{e}]++|{e}." if escape else f"[^{q}]++"
    return rf"(^|{between})\s*{q}(?:{inner})*+{q}\s*(?={between}|$)", "$1"


def open_quote(delimiter: str, quote: str) -> str:
    """Return a regular expression that finds a quote at the beginning of a field."""
    return rf"(^|{re.escape(delimiter)})\s*{re.escape(quote)}"
