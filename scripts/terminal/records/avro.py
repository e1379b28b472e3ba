"""Avro values, read with the writer's schema, as JSON values.

PURE but for the file of the schema. It supports no second schema, no logical types, and no container files. The prefix
of a schema registry (a zero and four bytes) is skipped.
"""

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ottla.scripts.terminal.records.json_lines import bytes_as_json
from ottla.wire.config_def import ConfigError

_REGISTRY_PREFIX: Final = 5
_MOST_ITEMS: Final = 1 << 20


class AvroError(ValueError):
    """Bytes that are not a value of the schema."""


class _Data:
    """Bytes with a position of reading."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def take(self, size: int) -> bytes:
        start = self.position
        if size < 0 or start + size > len(self.data):
            raise AvroError("the value ends too early")
        self.position = start + size
        return self.data[start : start + size]

    def number(self) -> int:
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
            if shift > 63:
                raise AvroError("a number does not end")


Read = Callable[[_Data], Any]


def _boolean(data: _Data) -> bool:
    return data.take(1) != b"\0"


def _float(data: _Data) -> Any:
    return _plain(struct.unpack("<f", data.take(4))[0])


def _double(data: _Data) -> Any:
    return _plain(struct.unpack("<d", data.take(8))[0])


def _plain(number: float) -> Any:
    """Return the number, or its text if JSON lacks it, such as NaN."""
    return number if number - number == 0 else str(number)


def _bytes(data: _Data) -> Any:
    return bytes_as_json(data.take(data.number()))


def _string(data: _Data) -> str:
    return data.take(data.number()).decode("utf-8", "replace")


_PRIMITIVES: Final[Mapping[str, Read]] = {
    "null": lambda data: None,
    "boolean": _boolean,
    "int": _Data.number,
    "long": _Data.number,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


class _Schema:
    """Makes readers of a schema; a named type can be used after its declaration."""

    def __init__(self) -> None:
        self._named: dict[str, Read] = {}

    def reader(self, schema: Any, namespace: str = "") -> Read:
        match schema:
            case str(name):
                return self._by_name(name, namespace)
            case list():
                return self._union([self.reader(each, namespace) for each in schema])
            case {"type": "record" | "error", "name": str(name), "fields": list(fields)}:
                return self._record(_full(name, schema, namespace), fields)
            case {"type": "enum", "name": str(name), "symbols": list(symbols)}:
                return self._declare(_full(name, schema, namespace), lambda data: _choice(symbols, data.number()))
            case {"type": "fixed", "name": str(name), "size": int(size)}:
                return self._declare(_full(name, schema, namespace), lambda data: bytes_as_json(data.take(size)))
            case {"type": "array", "items": items}:
                return self._array(self.reader(items, namespace))
            case {"type": "map", "values": values}:
                return self._map(self.reader(values, namespace))
            case {"type": inner}:
                return self.reader(inner, namespace)
        raise ConfigError(f"--schema: {schema!r} is not an Avro schema")

    def _by_name(self, name: str, namespace: str) -> Read:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._named and name not in self._named:
            raise ConfigError(f"--schema: there is no type {name}")
        # Looked up at reading, because a type may contain itself.
        known = full if full in self._named else name
        return lambda data: self._named[known](data)

    def _declare(self, name: str, read: Read) -> Read:
        self._named[name] = read
        return read

    def _record(self, name: str, fields: list[Any]) -> Read:
        readers: list[tuple[str, Read]] = []
        read = self._declare(name, lambda data: {field: each(data) for field, each in readers})
        namespace = name.rpartition(".")[0]
        for field in fields:
            if not isinstance(field, dict) or "name" not in field or "type" not in field:
                raise ConfigError(f"--schema: {field!r} is not a field")
            readers.append((field["name"], self.reader(field["type"], namespace)))
        return read

    def _union(self, branches: list[Read]) -> Read:
        return lambda data: _choice(branches, data.number())(data)

    def _array(self, item: Read) -> Read:
        return lambda data: [item(data) for _ in _items(data)]

    def _map(self, value: Read) -> Read:
        return lambda data: {_string(data): value(data) for _ in _items(data)}


def _full(name: str, schema: Mapping[str, Any], namespace: str) -> str:
    if "." in name:
        return name
    space = schema.get("namespace", namespace)
    return f"{space}.{name}" if space else name


def _choice(options: list[Any], number: int) -> Any:
    if not 0 <= number < len(options):
        raise AvroError(f"there is no choice {number}")
    return options[number]


def _items(data: _Data) -> Any:
    """Yield once for each item of an array or a map, which consist of blocks."""
    while count := data.number():
        if count < 0:
            count = -count
            data.number()  # the size of the block in bytes
        if count > _MOST_ITEMS:
            raise AvroError(f"{count} items in a block")
        yield from range(count)


def reader_of(path: Path) -> Callable[[bytes], Any]:
    """Return a reader of values for the schema in a file. ConfigError for an invalid schema."""
    try:
        read = _Schema().reader(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None

    def value_of(data: bytes) -> Any:
        starts = (_REGISTRY_PREFIX, 0) if data[:1] == b"\0" else (0,)
        for start in starts:
            source = _Data(data, start)
            try:
                found = read(source)
            except (AvroError, RecursionError):
                continue
            if source.position == len(data):
                return found
        # Bytes that are not a value of the schema are shown as they are.
        return bytes_as_json(data)

    return value_of
