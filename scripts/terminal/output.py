"""Rows of a command in the format of `--output`: a table, tab-separated rows, JSON, NDJSON, YAML or CSV.

Owns the formats and the JSON envelope. Must not know a command.

A row maps column names to plain values. In text an unknown value (None) is `-`, and an empty one is empty. JSON and
YAML keep null, empty, numbers, lists and objects apart.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

from ottla.wire.errors import ErrorCode, KafkaError

SCHEMA: Final = 1
"""The version of the JSON envelope and of all rows; it rises when a key is removed or changes its meaning."""
TABLE, TSV, JSON, NDJSON, YAML, CSV = FORMATS = ("table", "tsv", "json", "ndjson", "yaml", "csv")
ERROR: Final = ("error", "message")
"""The last columns of a command whose items can fail separately."""
UNKNOWN: Final = "-"
Row = Mapping[str, Any]
_DENIED: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the transactional id",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "the delegation token",
}
# Kafka's text for a missing permission, which contains the printed request object.
_REQUEST: Final = re.compile(r"Request .*\b(needs \w+ permission|is not authorized)\.", re.DOTALL)


def default_format(stream: TextIO) -> str:
    """Return the format without `--output`: a table on a terminal, tab-separated rows elsewhere."""
    return TABLE if stream.isatty() else TSV


def explained(error: KafkaError) -> str | None:
    """Return the text of an error, without Kafka's request object; None if its code says all."""
    request = _REQUEST.fullmatch(error.detail)
    if request is not None:
        return f"the request {request[1]}"
    if not error.detail and error.code in _DENIED:
        return f"this user may not do this to {_DENIED[error.code]}"
    return error.detail or None


class Output:
    """The stdout of one command. Rows of NDJSON and TSV are printed at once, other formats at the end."""

    def __init__(self, command: str, form: str, stream: TextIO | None = None) -> None:
        self.form = form
        self.has_failed = False
        self.is_dry_run: bool | None = None
        """None for a command that never changes anything."""
        self._command = command
        self._stream = stream or sys.stdout
        self._columns: Sequence[str] = ()
        self._rows: list[Row] = []

    def begin(self, *columns: str) -> None:
        """Set the columns of the rows that follow."""
        self._columns = columns

    def row(self, **values: Any) -> None:
        """Add a row. A missing column is None."""
        row = {column: values.get(column) for column in self._columns}
        if row.get("error") is not None:
            self.has_failed = True
        if self.form == NDJSON:
            self._print(_json(row))
        elif self.form == TSV:
            self._print("\t".join(_cell(row[column]) for column in self._columns))
        else:
            self._rows.append(row)

    def item(self, error: KafkaError | None, **values: Any) -> None:
        """Add a row for an item that succeeded (None) or failed; the columns end with `ERROR`."""
        if error is None:
            self.row(**values)
        else:
            self.row(**values, error=error.code.name, message=explained(error))

    def rows(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        for row in rows:
            self.row(**row)

    def end(self) -> None:
        """Print all that is not printed yet."""
        match self.form:
            case "table":
                if self._rows:
                    _print_table(self._columns, self._rows, self._stream)
            case "json":
                self._print(_json(self._document(), indent=2))
            case "yaml":
                self._print("\n".join(_yaml(self._document())))
            case "csv":
                self._print_csv()
        self._rows = []
        self._stream.flush()

    def text(self, text: str) -> None:
        """Print a document in place of rows, in any format."""
        self._stream.write(text)
        self.form = TSV

    def flush(self) -> None:
        """Flush the rows that are printed at once."""
        self._stream.flush()

    def interrupt(self) -> None:
        """Print the rows so far of an interrupted command, in a document with the error `Interrupted`."""
        if self.form in (JSON, YAML):
            self.fail("Interrupted", "the command was interrupted", "")
        elif self._columns:
            self.end()
        self._stream.flush()

    def fail(self, code: str, text: str, hint: str) -> None:
        """Print a document for a command that failed as a whole; no text formats, because stderr has the error."""
        self.has_failed = True
        error = {"code": code, "message": text, "hint": hint or None}
        if self.form == JSON:
            self._print(_json({**self._document(), "error": error}, indent=2))
        elif self.form == YAML:
            self._print("\n".join(_yaml({**self._document(), "error": error})))
        elif self.form == NDJSON:
            self._print(_json({"error": code, "message": text}))
        self._stream.flush()

    def _document(self) -> dict[str, Any]:
        dry = {} if self.is_dry_run is None else {"dry_run": self.is_dry_run}
        return {"schema": SCHEMA, "command": self._command, **dry, "items": self._rows, "error": None}

    def _print_csv(self) -> None:
        import csv

        writer = csv.writer(self._stream, lineterminator="\n")
        writer.writerow(self._columns)
        for row in self._rows:
            writer.writerow(["" if row[column] is None else _text(row[column]) for column in self._columns])

    def _print(self, line: str) -> None:
        if self._stream.isatty():
            line = "\n".join(map(_printable, line.split("\n")))
        self._stream.write(line + "\n")


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def _cell(value: Any) -> str:
    """Return a value as a cell of tab-separated rows, with tabs and line ends escaped."""
    text = UNKNOWN if value is None else _text(value)
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.3f}".rstrip("0").rstrip(".")
        case dict():
            return ",".join(f"{key}={'' if each is None else _text(each)}" for key, each in value.items())
        case list() | tuple():
            return ",".join(map(_text, value))
        case None:
            return UNKNOWN
        case _:
            return str(value)


def title(column: str) -> str:
    """Return the heading of a column."""
    return column.upper().replace("_", "-")


def _print_table(columns: Sequence[str], rows: Sequence[Row], stream: TextIO) -> None:
    """Print a table as wide as its content. The columns `ERROR` are left out if nothing failed."""
    shown = [each for each in columns if each not in ERROR or any(row[each] is not None for row in rows)]
    cells = [[_printable(_cell(row[column])) for column in shown] for row in rows]
    numeric = [all(_is_number(row[column]) for row in rows) for column in shown]
    widths = [max(len(title(c)), *(len(line[at]) for line in cells)) for at, c in enumerate(shown)]
    bold, plain = ("\x1b[1m", "\x1b[0m") if _has_color(stream) else ("", "")
    for number, line in enumerate([[title(c) for c in shown], *cells]):
        parts = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        text = "  ".join(parts).rstrip()
        stream.write(f"{bold}{text}{plain}\n" if number == 0 else f"{text}\n")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _printable(text: str) -> str:
    """Return text with control characters escaped, because records may hold anything."""
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)


def _has_color(stream: TextIO) -> bool:
    import os

    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _yaml(value: Any, indent: int = 0) -> list[str]:
    """Return the lines of a block; strings are quoted as in JSON, which is valid YAML."""
    pad = "  " * indent
    lines: list[str] = []
    if isinstance(value, dict):
        for key, each in value.items():
            lines += _yaml_entry(f"{pad}{_json(key) if not key.isidentifier() else key}:", each, indent)
        return lines
    for each in value:
        inner = _yaml_entry(f"{pad}-", each, indent)
        if isinstance(each, dict) and each:
            # The first key follows the dash.
            block = _yaml(each, indent + 1)
            inner = [f"{pad}- {block[0].lstrip()}", *block[1:]]
        lines += inner
    return lines


def _yaml_entry(start: str, value: Any, indent: int) -> list[str]:
    if isinstance(value, dict | list | tuple) and value:
        return [start, *_yaml(value, indent + 1)]
    if isinstance(value, tuple):
        value = []
    return [f"{start} {_json(value)}"]
