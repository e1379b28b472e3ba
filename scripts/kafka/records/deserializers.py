"""Values of Kafka's deserializers, as Java prints them.

PURE. Counterparts: org.apache.kafka.common.serialization, and `toString` of its results.
"""

import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from ottla.scripts.kafka.face import JavaError
from ottla.scripts.kafka.java.hashes import double_text

_PACKAGE: Final = "org.apache.kafka.common.serialization."
_ERROR: Final = "org.apache.kafka.common.errors.SerializationException"
_FLOAT_DIGITS: Final = 9
Deserializer = Callable[[bytes], str]


def _number(name: str, layout: str) -> Deserializer:
    packed = struct.Struct(layout)

    def read(data: bytes) -> str:
        if len(data) != packed.size:
            raise JavaError(_ERROR, f"Size of data received by {name}Deserializer is not {packed.size}")
        return str(packed.unpack(data)[0])

    return read


def _float(data: bytes) -> str:
    if len(data) != 4:
        raise JavaError(_ERROR, "Size of data received by Deserializer is not 4")
    (value,) = struct.unpack(">f", data)
    for digits in range(1, _FLOAT_DIGITS + 1):
        text = f"{value:.{digits}g}"
        if struct.pack(">f", float(text)) == data:
            return double_text(float(text))
    return double_text(value)


def _double(data: bytes) -> str:
    if len(data) != 8:
        raise JavaError(_ERROR, "Size of data received by Deserializer is not 8")
    return double_text(struct.unpack(">d", data)[0])


def _boolean(data: bytes) -> str:
    if len(data) != 1:
        raise JavaError(_ERROR, "Size of data received by BooleanDeserializer is not 1")
    if data[0] > 1:
        raise JavaError(_ERROR, f"Unexpected byte received by BooleanDeserializer: {data[0]}")
    return "true" if data[0] else "false"


def _uuid(data: bytes) -> str:
    try:
        parts = [int(part, 16) for part in data.decode().split("-")]
        most, least = parts[0] << 32 | parts[1] << 16 | parts[2], parts[3] << 48 | parts[4]
        return str(uuid.UUID(int=most << 64 | least))
    except (ValueError, IndexError):
        raise JavaError(_ERROR, "Error parsing data into UUID") from None


def _bytes(data: bytes) -> str:
    return "".join(chr(each) if 0x20 <= each <= 0x7E and each != 0x5C else f"\\x{each:02X}" for each in data)


_DESERIALIZERS: Final[Mapping[str, Deserializer]] = {
    _PACKAGE + "StringDeserializer": lambda data: data.decode("utf-8", "replace"),
    # Java prints an array as its address in memory.
    _PACKAGE + "ByteArrayDeserializer": lambda data: f"[B@{id(data) & 0x7FFFFFFF:x}",
    _PACKAGE + "ByteBufferDeserializer": lambda data: f"java.nio.HeapByteBuffer[pos=0 lim={len(data)} cap={len(data)}]",
    _PACKAGE + "BytesDeserializer": _bytes,
    _PACKAGE + "BooleanDeserializer": _boolean,
    _PACKAGE + "ShortDeserializer": _number("Short", ">h"),
    _PACKAGE + "IntegerDeserializer": _number("Integer", ">i"),
    _PACKAGE + "LongDeserializer": _number("Long", ">q"),
    _PACKAGE + "FloatDeserializer": _float,
    _PACKAGE + "DoubleDeserializer": _double,
    _PACKAGE + "UUIDDeserializer": _uuid,
}


def deserializer(name: str) -> Deserializer:
    """Return a deserializer by the name of its class. JavaError for an unknown class."""
    if name not in _DESERIALIZERS:
        known = ", ".join(each.removeprefix(_PACKAGE) for each in _DESERIALIZERS)
        text = f"{name}: no class of Java can run here, only those of {_PACKAGE[:-1]}: {known}"
        raise JavaError("java.lang.ClassNotFoundException", text)
    return _DESERIALIZERS[name]
