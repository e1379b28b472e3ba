"""Records as exact JSON: `ottla consume --output ndjson` prints it, `ottla produce --input ndjson` reads it.

PURE. Bytes in UTF-8 are a string, other bytes an object `{"base64": ...}`, and null stays null. Headers keep their
order, and may have the same key several times.
"""

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, Final

from ottla.scripts.terminal.records.formats import Shown
from ottla.scripts.terminal.records.reading import ReadRecord
from ottla.wire.records.batch import TimestampType

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
_TYPES: Final = {TimestampType.CREATE_TIME: "create_time", TimestampType.LOG_APPEND_TIME: "log_append_time"}
_NUMBERS: Final = {"partition": 0, "timestamp": -1}
Decoder = Callable[[bytes], Any]


def bytes_as_json(data: bytes | None) -> Any:
    """Return bytes as a JSON value."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def record_as_json(shown: Shown, decode_value: Decoder = bytes_as_json) -> dict[str, Any]:
    """Return a record as a JSON object."""
    record = shown.record
    return {
        "topic": shown.partition.topic,
        "partition": shown.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": _TYPES[shown.header.timestamp_type],
        "key": bytes_as_json(record.key),
        "value": None if record.value is None else decode_value(record.value),
        "headers": [{"key": name, "value": bytes_as_json(value)} for name, value in record.headers],
    }


def record_of_json(line: bytes) -> ReadRecord:
    """Return the record of a JSON object, with None for missing fields. ValueError for an invalid one."""
    found = json.loads(line)
    if not isinstance(found, dict) or "value" not in found:
        raise ValueError("a record is a JSON object with a `value`")
    headers = found.get("headers") or []
    if not isinstance(headers, list):
        raise ValueError("headers: a list is expected")
    for name, least in _NUMBERS.items():
        each = found.get(name)
        if each is not None and (not isinstance(each, int) or isinstance(each, bool) or each < least):
            raise ValueError(f"{name}: a number is expected, not {each!r}")
    return ReadRecord(
        _bytes("value", found["value"]),
        _bytes("key", found.get("key")),
        [_header(each) for each in headers],
        found.get("partition"),
        found.get("timestamp"),
    )


def _header(found: Any) -> tuple[str, bytes | None]:
    match found:
        case {"key": str(name), **rest}:
            return name, _bytes(f"header {name}", rest.get("value"))
    raise ValueError("headers: each header is an object with a `key` and a `value`")


def _bytes(name: str, found: Any) -> bytes | None:
    match found:
        case None:
            return None
        case str():
            return found.encode("utf-8")
        case {"base64": str(text)} if len(found) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ValueError(f"{name}: {error}") from None
    raise ValueError(f'{name}: null, a string or {{"base64": ...}} is expected')
