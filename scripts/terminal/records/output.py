"""The output of `ottla consume`: records by a format string, as lines of JSON, or as rows.

Owns the writing. Must not know where records come from.
"""

import json
import sys
from collections.abc import Callable
from typing import Any, Final

from ottla.scripts.terminal.output import NDJSON, Output
from ottla.scripts.terminal.records.formats import RecordFormat, Shown
from ottla.scripts.terminal.records.json_lines import COLUMNS, Decoder, bytes_as_json, record_as_json

DEFAULT_FORMAT: Final = "%v\\n"
HEX_FORMAT: Final = "%v{hex}\\n"
_BUFFER: Final = 1 << 18
Write = Callable[[Shown], Any]


class RecordOutput:
    """Prints records, buffered until `flush`."""

    def __init__(self, out: Output, form: str | None, text: str | None, decode_value: Decoder | None = None) -> None:
        """`form` is the value of --output, and `text` that of --format."""
        # A buffer for many records, because most are small.
        self._stream = open(sys.stdout.fileno(), "wb", _BUFFER, closefd=False)  # noqa: SIM115
        self._out = out
        self._decode = decode_value or bytes_as_json
        self._is_terminal = self._stream.isatty()
        if form is None:
            self._format = RecordFormat(text or DEFAULT_FORMAT, is_terminal=self._is_terminal)
            self.write: Write = self._write_decoded if decode_value else self._write_text
        elif form == NDJSON:
            self.write = self._write_line
        else:
            out.begin(*COLUMNS)
            self.write = self._write_row

    def _write_text(self, shown: Shown) -> None:
        self._stream.write(self._format.write(shown))

    def _write_decoded(self, shown: Shown) -> None:
        value = shown.record.value
        text = value if value is None else json.dumps(self._decode(value), ensure_ascii=False).encode()
        self._write_text(shown._replace(record=shown.record._replace(value=text)))

    def _write_line(self, shown: Shown) -> None:
        # On a terminal ASCII only, because other characters may be control characters.
        line = json.dumps(record_as_json(shown, self._decode), ensure_ascii=self._is_terminal, allow_nan=False)
        self._stream.write(line.encode() + b"\n")

    def _write_row(self, shown: Shown) -> None:
        self._out.row(**record_as_json(shown, self._decode))

    def flush(self) -> None:
        """Flush the buffer."""
        self._stream.flush()
        self._out.flush()
