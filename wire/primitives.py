"""Kafka's primitive types as subcons of construct.

Owns how each type looks on the wire, plainly and slowly: the compiled code is tested against it. Used by no request,
and imported by none, since construct takes long to import. Knows no message.
Counterpart in Kafka: org.apache.kafka.common.protocol.types.Type, ByteUtils.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import construct

_MAX_STRING = 0x7FFF
_MAX_INT32 = 2**31 - 1


class UnsignedVarint(construct.Construct):
    """Seven bits a byte, the lowest first, at most 5 bytes; bits beyond 32 are dropped."""

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte: int = construct.stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFF
        raise construct.IntegerError("a varint of more than 5 bytes", path=path)

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        rest = obj
        while rest > 0x7F:
            construct.stream_write(stream, bytes([rest & 0x7F | 0x80]), 1, path)
            rest >>= 7
        construct.stream_write(stream, bytes([rest]), 1, path)
        return obj


class CompactLength(construct.Adapter):
    """The length plus one, so that 0 is null."""

    def _decode(self, obj: int, context: Any, path: str) -> int:
        return obj - 1

    def _encode(self, obj: int, context: Any, path: str) -> int:
        return obj + 1


class LengthPrefixed(construct.Construct):
    """A length, -1 for null, and the bytes."""

    def __init__(self, length: construct.Construct, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.nullable = nullable

    def _parse(self, stream: Any, context: Any, path: str) -> bytes | None:
        length = self.length._parsereport(stream, context, path)
        if length >= 0:
            return bytes(construct.stream_read(stream, length, path))
        if self.nullable:
            return None
        raise construct.ValidationError("null where none may be", path=path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is None and not self.nullable:
            raise construct.ValidationError("null where none may be", path=path)
        self.length._build(-1 if obj is None else len(obj), stream, context, path)
        if obj is not None:
            construct.stream_write(stream, bytes(obj), len(obj), path)
        return obj


class Text(construct.Adapter):
    """UTF-8 of limited length; invalid bytes are replaced, as by Java."""

    def _decode(self, obj: bytes | None, context: Any, path: str) -> str | None:
        if obj is not None and len(obj) > _MAX_STRING:
            raise construct.StringError("a string too long", path=path)
        return None if obj is None else obj.decode("utf-8", "replace")

    def _encode(self, obj: str | None, context: Any, path: str) -> bytes | None:
        encoded = None if obj is None else obj.encode()
        if encoded is not None and len(encoded) > _MAX_STRING:
            raise construct.StringError("a string too long", path=path)
        return encoded


class Elements(construct.Construct):
    """A count, -1 for null, and the elements."""

    def __init__(self, length: construct.Construct, element: construct.Construct, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.element = element
        self.nullable = nullable

    def _parse(self, stream: Any, context: Any, path: str) -> list[Any] | None:
        count = self.length._parsereport(stream, context, path)
        if count >= 0:
            return [self.element._parsereport(stream, context, path) for _ in range(count)]
        if self.nullable and count == -1:
            return None
        raise construct.ValidationError("null where none may be, or a negative length", path=path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if obj is None and not self.nullable:
            raise construct.ValidationError("null where none may be", path=path)
        self.length._build(-1 if obj is None else len(obj), stream, context, path)
        for item in obj or ():
            self.element._build(item, stream, context, path)
        return obj


class Optional(construct.Construct):
    """A struct behind a flag, which is above `null` for a struct."""

    def __init__(self, flag: construct.Construct, subcon: construct.Construct, null: int) -> None:
        super().__init__()
        self.flag = flag
        self.subcon = subcon
        self.null = null

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        flag = self.flag._parsereport(stream, context, path)
        if not self.null < flag <= _MAX_INT32:
            return None
        return self.subcon._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self.flag._build(self.null if obj is None else 1, stream, context, path)
        if obj is not None:
            self.subcon._build(obj, stream, context, path)
        return obj


class TaggedFields(construct.Construct):
    """The section of tagged fields that ends a struct: a count, then tag, size and value of each.

    `known` gives, by tag, a field's name, its subcon, and whether a value is its default and so is left out.
    """

    def __init__(self, known: Mapping[int, tuple[str, construct.Construct, Callable[[Any], bool]]]) -> None:
        super().__init__()
        self.known = known

    def _parse(self, stream: Any, context: Any, path: str) -> dict[str, Any]:
        values = {}
        for _ in range(unsigned_varint._parsereport(stream, context, path)):
            tag = unsigned_varint._parsereport(stream, context, path)
            size = unsigned_varint._parsereport(stream, context, path)
            if tag in self.known:
                name, subcon, _ = self.known[tag]
                values[name] = subcon._parsereport(stream, context, path)
            else:
                construct.stream_read(stream, size, path)
        return values

    def _build(self, obj: Mapping[str, Any], stream: Any, context: Any, path: str) -> Any:
        written = [
            (tag, subcon.build(obj[name]))
            for tag, (name, subcon, is_default) in sorted(self.known.items())
            if not is_default(obj[name])
        ]
        unsigned_varint._build(len(written), stream, context, path)
        for tag, value in written:
            unsigned_varint._build(tag, stream, context, path)
            unsigned_varint._build(len(value), stream, context, path)
            construct.stream_write(stream, value, len(value), path)
        return obj


class Instance(construct.Adapter):
    """Objects of `cls` for the containers of `subcon`. A missing field has its default."""

    def __init__(self, cls: type, subcon: construct.Construct, defaults: Mapping[str, Any]) -> None:
        super().__init__(subcon)
        self.cls = cls
        self.defaults = defaults

    def _decode(self, obj: Any, context: Any, path: str) -> Any:
        instance: Any = object.__new__(self.cls)
        values = {**self.defaults, **obj, **obj.get("_tagged", {})}
        for name in self.defaults:
            setattr(instance, name, values[name])
        return instance

    def _encode(self, obj: Any, context: Any, path: str) -> Any:
        values = {name: getattr(obj, name) for name in self.defaults}
        return {**values, "_tagged": values}


unsigned_varint = UnsignedVarint()
compact_length = CompactLength(unsigned_varint)

_FIXED = {
    "bool": construct.Flag,
    "int8": construct.Int8sb,
    "int16": construct.Int16sb,
    "uint16": construct.Int16ub,
    "int32": construct.Int32sb,
    "uint32": construct.Int32ub,
    "int64": construct.Int64sb,
    "float64": construct.Float64b,
    "uuid": construct.Bytes(16),
}


def primitive(kafka_name: str, nullable: bool, compact: bool) -> construct.Construct:
    """Return the construct of a primitive type."""
    if kafka_name in _FIXED:
        return _FIXED[kafka_name]
    plain_length = construct.Int16sb if kafka_name == "string" else construct.Int32sb
    data = LengthPrefixed(compact_length if compact else plain_length, nullable)
    return Text(data) if kafka_name == "string" else data


def array(element: construct.Construct, nullable: bool, compact: bool) -> construct.Construct:
    """Return the construct of an array."""
    return Elements(compact_length if compact else construct.Int32sb, element, nullable)


def nullable_struct(struct: construct.Construct, tagged: bool) -> construct.Construct:
    """Return the construct of a nullable struct: its flag is a varint in a tagged field, one byte elsewhere."""
    return Optional(unsigned_varint, struct, 0) if tagged else Optional(construct.Int8sb, struct, -1)


def sequence(members: Iterable[tuple[str, construct.Construct]]) -> construct.Construct:
    """Return the construct of named members in their order."""
    return construct.Struct(*(name / subcon for name, subcon in members))
