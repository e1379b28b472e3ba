"""Messages of no API, with every kind of field."""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.schema import DEFAULT, Message, Struct, V
from ottla.wire.types import (
    ZERO_UUID,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
)


class Point(Struct):
    x: Int32 = -1
    y: Annotated[Int16, V("1+")] = -2
    label: Annotated[String, V("2+", tag=3)] = ""


class Leaf(Struct):
    name: String
    point: Point
    maybe_point: Annotated[Point | None, V("1+", nullable="1+")] = None


class Everything(Message, versions="0-4", flexible="2+"):
    """Flexible from version 2 on; the tags are declared out of their order."""

    a_bool: Bool
    an_int8: Int8
    an_int16: Int16
    a_uint16: UInt16
    an_int32: Annotated[Int32, V("1+")] = 7
    a_uint32: UInt32
    an_int64: Annotated[Int64, V("0-2")] = 2**40
    a_float: Float64
    a_uuid: Uuid
    a_string: String
    a_nullable_string: Annotated[String | None, V(nullable="0+")] = None
    late_nullable: Annotated[String | None, V(nullable="1+")] = ""
    some_bytes: Bytes
    nullable_bytes: Annotated[Bytes | None, V(nullable="0+")] = None
    records: Annotated[Records, V(nullable="0+")] = None
    never_null_records: Records
    rigid_string: Annotated[String | None, V(nullable="0+", flexible="none")] = None
    bools: Sequence[Bool]
    int8s: Sequence[Int8]
    int16s: Sequence[Int16]
    int64s: Annotated[Sequence[Int64] | None, V("1+", nullable="1+")] = None
    floats: Sequence[Float64]
    uuids: Sequence[Uuid]
    strings: Sequence[String]
    byte_arrays: Sequence[Bytes]
    leaves: Annotated[Sequence[Leaf] | None, V(nullable="2+")] = ()
    leaf: Leaf
    maybe_leaf: Annotated[Leaf | None, V(nullable="0+")] = None
    late_tag: Annotated[Int32, V("3+", tag=4)] = 12
    tagged_leaves: Annotated[Sequence[Leaf], V("2+", tag=130)] = ()
    tagged_number: Annotated[Int64, V("2+", tag=2)] = -1
    tagged_point: Annotated[Point, V("2+", tag=1)] = DEFAULT
    tagged_maybe_point: Annotated[Point | None, V("2+", nullable="2+", tag=0)] = None
    tagged_maybe_point_with_default: Annotated[Point | None, V("2+", nullable="2+", tag=7)] = DEFAULT
    tagged_string: Annotated[String | None, V("2+", nullable="2+", tag=5)] = None
    tagged_text: Annotated[String | None, V("2+", nullable="2+", tag=9)] = "usual"
    tagged_array: Annotated[Sequence[Int32] | None, V("3+", nullable="3+", tag=6)] = ()
    tagged_uuid: Annotated[Uuid, V("2+", tag=8)] = ZERO_UUID


class Nothing(Message, versions="0-1", flexible="1+"):
    """No field at all."""


class Rigid(Message, versions="0-1"):
    """Never flexible."""

    name: Annotated[String, V("1+")] = ""
    leaves: Sequence[Leaf]


SAMPLES: tuple[type[Message], ...] = (Everything, Nothing, Rigid)
