"""The speed of encoding and decoding messages, compared with kafka-python and kio.

Every codec decodes the same bytes of a typical message and encodes the result. A codec gets no figure if it does not
return the same bytes. Only bodies are measured, without headers and frames.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO
from pkgutil import walk_packages
from typing import Any, NamedTuple

import kafka.protocol
from kafka.protocol.api_message import ApiMessage
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ottla.wire.api_keys import ApiKey
from ottla.wire.compiled.compiler import decoder, encoder
from ottla.wire.messages import request_type, response_type
from ottla.wire.schema import ArrayOf, Message, Struct, StructOf, WireType, fields
from ottla.wire.types import Primitive

_ELEMENTS = 3
_REPEATS = 5
_SECONDS = 0.002
_SAMPLES: dict[str, Any] = {
    "bool": True,
    "float64": 0.5,
    "string": "orders-by-region",
    "uuid": bytes(range(16)),
    "bytes": bytes(100),
    "records": bytes(1000),
}

Decode = Callable[[], Any]
Encode = Callable[[Any], bytes]


class Codec(NamedTuple):
    """A library's decoding and encoding of one message."""

    decode: Decode
    encode: Encode


class Speed(NamedTuple):
    """Microseconds."""

    decoding: float
    encoding: float


def table() -> list[str]:
    """Measure all messages; return the rows of the table, a summary first."""
    speeds = dict(_all_speeds())
    rows = []
    for name in ("kafka-python", "kio"):
        decoding = [other[name].decoding / other["Ottla"].decoding for _, other in speeds.values() if name in other]
        encoding = [other[name].encoding / other["Ottla"].encoding for _, other in speeds.values() if name in other]
        rows.append(
            f"{name} takes {statistics.geometric_mean(decoding):.1f} times as long to decode and "
            f"{statistics.geometric_mean(encoding):.1f} times as long to encode (geometric means of {len(decoding)} "
            f"messages; at the least {min(decoding):.1f} and {min(encoding):.1f} times)."
        )
    rows += [
        "",
        "| message | bytes | Ottla decodes | encodes | kafka-python decodes | encodes | kio decodes | encodes |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for label, (size, of) in speeds.items():
        cells = [_cells(of.get(name)) for name in ("Ottla", "kafka-python", "kio")]
        rows.append(f"| {label} | {size} | " + " | ".join(cells) + " |")
    return rows


def _cells(speed: Speed | None) -> str:
    return "| " if speed is None else f"{speed.decoding:.1f} | {speed.encoding:.1f}"


def _all_speeds() -> Iterator[tuple[str, tuple[int, dict[str, Speed]]]]:
    others = _kafka_python_messages()
    for key in ApiKey:
        for message in (request_type(key), response_type(key)):
            if message is None:
                continue
            candidates = [_codecs(key, message, version, others) for version in message.versions]
            # The latest version that most codecs know.
            version, encoded, codecs = max(candidates, key=lambda found: (len(found[2]), found[0]))
            of = {name: _speed(codec) for name, codec in codecs.items()}
            yield f"{message.__name__} v{version}", (len(encoded), of)


def _codecs(
    key: ApiKey, message: type[Message], version: int, others: dict[str, Any]
) -> tuple[int, bytes, dict[str, Codec]]:
    encoded = _encoded(message, version)
    codecs = {
        "Ottla": _ottla(message, version, encoded),
        "kafka-python": _kafka_python(others.get(message.__name__), version, encoded),
        "kio": _kio(key, version, message is request_type(key), encoded),
    }
    return version, encoded, {name: codec for name, codec in codecs.items() if codec and _is_true_to(codec, encoded)}


def _is_true_to(codec: Codec, encoded: bytes) -> bool:
    try:
        return codec.encode(codec.decode()) == encoded
    except Exception:  # any error of another library on an unknown message
        return False


def _speed(codec: Codec) -> Speed:
    decoded = codec.decode()
    return Speed(_microseconds(codec.decode), _microseconds(lambda: codec.encode(decoded)))


def _microseconds(function: Callable[[], Any]) -> float:
    """Return the time of the best round, because other processes only make a round slower."""
    count = 1
    while (took := _seconds(function, count)) < _SECONDS:
        count *= 2
    return min(took, *(_seconds(function, count) for _ in range(_REPEATS))) / count * 1e6


def _seconds(function: Callable[[], Any], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        function()
    return time.perf_counter() - began


# A typical message


def _encoded(message: type[Message], version: int) -> bytes:
    chunks: list[Any] = []
    encoder(message, version)(_typical(message, version), chunks)
    return b"".join(chunks)


def _typical(cls: type[Struct], version: int) -> Any:
    """Return a message with three elements in every array and text in every string; tagged fields have defaults."""
    values = {}
    for field in fields(cls):
        is_sent = version in field.versions and not field.is_tagged(version)
        values[field.name] = _value(field.type, version) if is_sent else field.default
    return cls(**values)


def _value(wire_type: WireType, version: int) -> Any:
    if isinstance(wire_type, StructOf):
        return _typical(wire_type.struct, version)
    if isinstance(wire_type, ArrayOf):
        return [_value(wire_type.element, version) for _ in range(_ELEMENTS)]
    assert isinstance(wire_type, Primitive)
    return _SAMPLES.get(wire_type.kafka_name, 17)


# The codecs


def _ottla(message: type[Message], version: int, encoded: bytes) -> Codec:
    read, write = decoder(message, version), encoder(message, version)
    view = memoryview(encoded)

    def encode(decoded: Any) -> bytes:
        chunks: list[Any] = []
        write(decoded, chunks)
        return b"".join(chunks)

    return Codec(lambda: read(view, 0)[0], encode)


def _kafka_python_messages() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name:
            for value in vars(import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, ApiMessage):
                    found[value.__name__] = value
    return found


def _kafka_python(message: Any, version: int, encoded: bytes) -> Codec | None:
    if message is None or version > message.max_version:
        return None
    return Codec(lambda: message.decode(encoded, version=version), lambda decoded: bytes(decoded.encode()))


def _kio(key: ApiKey, version: int, is_request: bool, encoded: bytes) -> Codec | None:
    kind = "request" if is_request else "response"
    try:
        module = load_payload_module(key, version, EntityType[kind])  # type: ignore[arg-type]
    except (KeyError, RuntimeError):
        return None
    name = key.name.replace("_", "").lower() + kind
    entity = next(value for label, value in vars(module).items() if label.lower() == name)
    read, write = entity_reader(entity), entity_writer(entity)

    def encode(decoded: Any) -> bytes:
        buffer = BytesIO()
        write(buffer, decoded)
        return buffer.getvalue()

    return Codec(lambda: read(encoded, 0)[0], encode)
