"""Records from lines, as kafka-console-producer reads them.

PURE. Counterpart: org.apache.kafka.tools.LineMessageReader.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.scripts.kafka.face import JavaError

_KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"
_DEFAULTS: Final = {
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
_PARTS: Final = (
    ("headers.delimiter", "headers.separator"),
    ("headers.delimiter", "headers.key.separator"),
    ("headers.separator", "headers.key.separator"),
    ("null.marker", "key.separator"),
    ("null.marker", "headers.separator"),
    ("null.marker", "headers.delimiter"),
    ("null.marker", "headers.key.separator"),
)
"""Properties that must differ."""


class LineRecord(NamedTuple):
    """A record of a line."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineMessageReader:
    """Makes a record of each line. JavaError for a line without a part that the properties require."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """JavaError for properties that contradict each other."""
        found = {**_DEFAULTS, **properties}
        for one, other in _PARTS:
            if found.get(one) is not None and found.get(one) == found.get(other):
                raise JavaError(_KAFKA_EXCEPTION, f"{one} and {other} may not be equal")
        self._parses_key = _is_true(found, "parse.key")
        self._parses_headers = _is_true(found, "parse.headers")
        self._ignores_errors = _is_true(found, "ignore.error")
        self._key_separator = found["key.separator"]
        self._headers_delimiter = found["headers.delimiter"]
        self._headers_separator = re.compile(found["headers.separator"])
        self._header_key_separator = found["headers.key.separator"]
        self._null: str | None = found.get("null.marker")
        self._line = 0

    def read(self, line: str) -> LineRecord:
        """Return the record of the next line."""
        self._line += 1
        position = 0
        headers = key = None
        if self._parses_headers:
            headers, position = self._part(line, position, self._headers_delimiter, "headers delimiter")
        if self._parses_key:
            key, position = self._part(line, position, self._key_separator, "key separator")
        found = [] if headers is None or headers == self._null else self._headers(headers)
        return LineRecord(self._bytes(key), self._bytes(line[position:]), found)

    def _part(self, line: str, start: int, separator: str, name: str) -> tuple[str | None, int]:
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end], end + len(separator)
        if self._ignores_errors:
            return None, start
        raise JavaError(_KAFKA_EXCEPTION, f"No {name} found on line number {self._line}: '{line}'")

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode("utf-8", "replace")

    def _headers(self, text: str) -> list[tuple[str, bytes | None]]:
        pairs = self._headers_separator.split(text)
        # Java's split drops empty pairs at the end, but not a single one.
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        return [self._header(pair) for pair in pairs]

    def _header(self, pair: str) -> tuple[str, bytes | None]:
        key, found, value = pair.partition(self._header_key_separator)
        if not found:
            if self._ignores_errors:
                return pair, None
            text = f"No header key separator found in pair '{pair}' on line number {self._line}"
            raise JavaError(_KAFKA_EXCEPTION, text)
        if key == self._null:
            text = f"Header keys should not be equal to the null marker '{self._null}' as they can't be null"
            raise JavaError(_KAFKA_EXCEPTION, text)
        return key, self._bytes(value)


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


class Lines:
    """Lines from pieces of bytes; a line ends with LF, CR or both."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that are complete now."""
        data = self._rest + data
        # A CR at the end may be the first half of a line's end.
        held = data[-1:] if data.endswith(b"\r") else b""
        lines = re.split(rb"\r\n|\r|\n", data[: len(data) - len(held)])
        self._rest = lines.pop() + held
        return [each.decode("utf-8", "replace") for each in lines]

    def end(self) -> list[str]:
        """Return the last line, if it has no end."""
        rest, self._rest = self._rest, b""
        return [rest.removesuffix(b"\r").decode("utf-8", "replace")] if rest else []
