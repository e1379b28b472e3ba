"""Writes, for a declaration and a version, the straight-line function that decodes it.

Fixed-width fields, and the first byte or the fixed width of a length that follows them, are unpacked by one fused
struct. Nested structs and arrays are written out in place; known tagged fields have functions of their own, because
they are rare. Each announced count is compared with the bytes that are left. A request has a second function for large
frames, which counts elements and need not keep them (`large_arrays`).
Counterpart in Kafka: the readers that org.apache.kafka.message.MessageDataGenerator writes.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.wire.compiled.source import Source
from ottla.wire.errors import DecodeError
from ottla.wire.large_arrays import SMALL_FRAME, few, read_array
from ottla.wire.schema import ArrayOf, Field, Message, Request, Struct, StructOf, WireType, fields
from ottla.wire.types import Primitive

_MAX_STRING = 0x7FFF
# Per struct. Kafka's messages have less than a dozen.
_MAX_UNKNOWN_TAGS = 4096
_LENGTH_CODES = {"string": "h", "bytes": "i", "records": "i"}


def uvarint_rest(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """Return an unsigned varint and its end, after its `first` byte above 127; cut to 32 bits as in Kafka."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, pos
    raise DecodeError("a varint of more than 5 bytes")


def string_length_rest(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """As `uvarint_rest`, for the length of a string. DecodeError: it is beyond Kafka's limit."""
    value, pos = uvarint_rest(buf, pos, first)
    if value > _MAX_STRING + 1:
        raise DecodeError(f"a string of {value - 1} bytes")
    return value, pos


def skip_tagged_field(buf: memoryview, pos: int, limit: int) -> int:
    """Return the position behind an unknown tagged field; `pos` is the position of its size."""
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = uvarint_rest(buf, pos, size)
    if size > limit - pos:
        raise DecodeError("a tagged field reaches beyond the end")
    return pos + size


def skip_tagged_fields(buf: memoryview, pos: int, limit: int, count: int) -> int:
    """Return the position behind a section of `count` unknown tagged fields."""
    if count > _MAX_UNKNOWN_TAGS:
        raise DecodeError(f"{count} tagged fields")
    for _ in range(count):
        tag = buf[pos]
        pos += 1
        if tag > 127:
            tag, pos = uvarint_rest(buf, pos, tag)
        pos = skip_tagged_field(buf, pos, limit)
    return pos


def minimum_size(wire_type: WireType, message: type[Message], version: int) -> int:
    """Return the fewest bytes of a value of this type."""
    flexible = version in message.flexible
    if isinstance(wire_type, StructOf):
        total = int(flexible)
        for field in fields(wire_type.struct):
            if version not in field.versions or field.is_tagged(version):
                continue
            nullable_struct = isinstance(field.type, StructOf) and version in field.nullable
            total += 1 if nullable_struct else minimum_size(field.type, message, version)
        return total
    if isinstance(wire_type, ArrayOf):
        return 1 if flexible else 4
    if wire_type.code:
        return struct.calcsize(">" + wire_type.code)
    return 1 if flexible else struct.calcsize(">" + _LENGTH_CODES[wire_type.kafka_name])


class DecoderSource(Source):
    """The source of `decode(buf, pos)` for one message and version.

    `decode_large` decodes large requests. None: this is the source for large requests, `decode(buf, pos, budget)`.
    """

    def __init__(self, message: type[Message], version: int, decode_large: Callable[..., Any] | None = None) -> None:
        super().__init__(
            {
                "DecodeError": DecodeError,
                "decode_large": decode_large,
                "failures": (struct.error, IndexError),
                "few": few,
                "new": object.__new__,
                "read_array": read_array,
                "skip_tagged_field": skip_tagged_field,
                "skip_tagged_fields": skip_tagged_fields,
                "string_length_rest": string_length_rest,
                "unpack_from": struct.unpack_from,
                "uvarint_rest": uvarint_rest,
            }
        )
        self._message = message
        self._version = version
        self._flexible = version in message.flexible
        self._is_large = decode_large is None
        self._budget = ", budget" if self._is_large else ""
        self._label = f"{message.__name__} v{version}"
        # Fields at fixed distances from `pos` that are not unpacked yet: format codes and targets.
        self._codes = ""
        self._targets: list[str] = []
        with self.function(f"def decode(buf, pos{self._budget}):"):
            self.emit("limit = len(buf)")
            if not self._is_large and issubclass(message, Request):
                with self.block(f"if limit > {SMALL_FRAME}:"):
                    self.emit("return decode_large(buf, pos, few())")
            with self.block("try:"):
                root = self._struct(message)
                self._flush()
                self.emit(f"return {root}, pos")
            with self.block("except failures as error:"):
                self.emit(f'raise DecodeError(f"{self._label}: {{error}}") from None')

    def _fixed(self, code: str, target: str) -> None:
        self._codes += code
        self._targets.append(target)

    def _flush(self) -> None:
        """Write the unpacking of the collected fields; `pos` is behind them then."""
        if not self._codes:
            return
        if self._codes == "B":
            self.emit(f"{self._targets[0]} = buf[pos]")
        else:
            self.emit(f"({', '.join(self._targets)},) = {self.packer('unpack_from', self._codes)}(buf, pos)")
        self.emit(f"pos += {struct.calcsize('>' + self._codes)}")
        self._codes = ""
        self._targets = []

    @contextmanager
    def _branch(self, head: str) -> Iterator[None]:
        self._flush()
        with self.block(head):
            yield
            self._flush()

    def _uvarint(self, rest: str = "uvarint_rest") -> str:
        """Write the reading of an unsigned varint; return its name."""
        name = self.name("n")
        self._fixed("B", name)
        with self._branch(f"if {name} > 127:"):
            self.emit(f"{name}, pos = {rest}(buf, pos, {name})")
        return name

    def _fail(self, what: str) -> None:
        self.emit(f"raise DecodeError({f'{self._label}: {what}'!r})")

    def _struct(self, cls: type[Struct]) -> str:
        """Write the reading of a struct; return its name."""
        name = self.name("o")
        self.emit(f"{name} = new({self.constant('struct', cls)})")
        tagged = []
        for field in fields(cls):
            target = f"{name}.{field.name}"
            if self._version in field.versions and not field.is_tagged(self._version):
                self._field(field, target)
                continue
            self.emit(f"{target} = {self.literal(field.default)}")
            if self._version in field.versions:
                tagged.append(field)
        if self._flexible:
            self._tagged_section(cls, name, tagged)
        return name

    def _field(self, field: Field, target: str) -> None:
        nullable = self._version in field.nullable
        flexible = field.is_flexible(self._version, self._message)
        if isinstance(field.type, StructOf) and nullable:
            flag = self.name("n")
            self._fixed("b", flag)
            self._maybe_struct(field.type.struct, target, f"{flag} < 0")
        else:
            self._value(field.type, target, field.name, nullable, flexible)

    def _maybe_struct(self, cls: type[Struct], target: str, is_null: str) -> None:
        with self._branch(f"if {is_null}:"):
            self.emit(f"{target} = None")
        with self._branch("else:"):
            self.emit(f"{target} = {self._struct(cls)}")

    def _value(self, wire_type: WireType, target: str, label: str, nullable: bool, flexible: bool) -> None:
        if isinstance(wire_type, StructOf):
            self.emit(f"{target} = {self._struct(wire_type.struct)}")
        elif isinstance(wire_type, ArrayOf):
            self._array(wire_type.element, target, label, nullable, flexible)
        elif wire_type.code:
            self._fixed(wire_type.code, target)
        else:
            self._sized(wire_type.kafka_name, target, label, nullable, flexible)

    def _sized(self, kind: str, target: str, label: str, nullable: bool, flexible: bool) -> None:
        """Write the reading of a string, bytes or records: a length, then the bytes."""
        if flexible:
            length = self._uvarint("string_length_rest" if kind == "string" else "uvarint_rest")
            head, end = f"if {length}:", f"end = pos + {length} - 1"
        else:
            length = self.name("n")
            self._fixed(_LENGTH_CODES[kind], length)
            head, end = f"if {length} >= 0:", f"end = pos + {length}"
        with self._branch(head):
            self.emit(end)
            with self.block("if end > limit:"):
                self._fail(f"{label} reaches beyond the end")
            read = {
                "string": 'str(buf[pos:end], "utf-8", "replace")',
                "bytes": "buf[pos:end].tobytes()",
                "records": "buf[pos:end]",
            }
            self.emit(f"{target} = {read[kind]}")
            self.emit("pos = end")
        self._null(target, label, nullable)

    def _null(self, target: str, label: str, nullable: bool) -> None:
        with self.block("else:"):
            if nullable:
                self.emit(f"{target} = None")
            else:
                self._fail(f"{label} is null")

    def _array(self, element: Primitive | StructOf, target: str, label: str, nullable: bool, flexible: bool) -> None:
        if flexible:
            # The compact count is one more than the number of elements.
            count, none = self._uvarint(), 1
        else:
            count, none = self.name("n"), 0
            self._fixed("i", count)
        with self._branch(f"if {count} > {none}:"):
            if flexible:
                self.emit(f"{count} -= 1")
            # At least 1, because otherwise any number of empty elements could be announced.
            size = max(1, minimum_size(element, self._message, self._version))
            with self.block(f"if {count} * {size} > limit - pos:"):
                self._fail(f"{label} announces more than there is")
            if self._is_large:
                reader = self._reader(element, label, flexible)
                self.emit(f"{target}, pos = read_array({reader}, buf, pos, limit, {count}, budget)")
            else:
                self._elements(element, target, label, count, flexible)
        with self.block(f"elif {count} == {none}:"):
            self.emit(f"{target} = ()")
        if not flexible:
            with self.block(f"elif {count} < -1:"):
                self._fail(f"{label} has a negative length")
        self._null(target, label, nullable)

    def _elements(self, element: Primitive | StructOf, target: str, label: str, count: str, flexible: bool) -> None:
        if isinstance(element, Primitive) and len(element.code) == 1:
            # One call for all elements, because there can be many.
            self.emit(f'{target} = unpack_from(f">{{{count}}}{element.code}", buf, pos)')
            self.emit(f"pos += {count} * {struct.calcsize('>' + element.code)}")
            return
        items, item = self.name("items"), self.name("item")
        self.emit(f"{target} = {items} = []")
        with self._branch(f"for _ in range({count}):"):
            if isinstance(element, StructOf):
                item = self._struct(element.struct)
            else:
                self._value(element, item, label, False, flexible)
            self._flush()
            self.emit(f"{items}.append({item})")

    def _reader(self, element: Primitive | StructOf, label: str, flexible: bool) -> str:
        """Write the function that reads one element; return its name."""
        function, item = self.name("read_element_"), self.name("item")
        with self.function(f"def {function}(buf, pos, limit, budget):"):
            if isinstance(element, StructOf):
                item = self._struct(element.struct)
            else:
                self._value(element, item, label, False, flexible)
            self._flush()
            self.emit(f"return {item}, pos")
        return function

    def _tagged_section(self, cls: type[Struct], name: str, tagged: list[Field]) -> None:
        count = self._uvarint()
        with self._branch(f"if {count}:"):
            if self._is_large:
                self.emit(f"budget.spend({count})")
            if tagged:
                function = self._tagged_function(cls, tagged)
                self.emit(f"pos = {function}(buf, pos, limit, {count}, {name}{self._budget})")
            else:
                self.emit(f"pos = skip_tagged_fields(buf, pos, limit, {count})")

    def _tagged_function(self, cls: type[Struct], tagged: list[Field]) -> str:
        function = self.name(f"read_tags_of_{cls.__name__}_")
        with self.function(f"def {function}(buf, pos, limit, count, o{self._budget}):"):
            with self._branch("for _ in range(count):"):
                tag = self._uvarint()
                for field in tagged:
                    with self._branch(f"if {tag} == {field.tag}:"):
                        self._tagged_field(field)
                        self._flush()
                        self.emit("continue")
                self.emit("pos = skip_tagged_field(buf, pos, limit)")
            self.emit("return pos")
        return function

    def _tagged_field(self, field: Field) -> None:
        """Write the reading of a tagged field by its type; its size is ignored, as in Kafka."""
        self._uvarint()
        target = f"o.{field.name}"
        nullable = self._version in field.nullable
        if isinstance(field.type, StructOf) and nullable:
            self._maybe_struct(field.type.struct, target, f"not 0 < {self._uvarint()} < 0x80000000")
        else:
            self._value(field.type, target, field.name, nullable, True)
