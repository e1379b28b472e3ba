"""Writes, for a declaration and a version, the straight-line function that encodes it.

Fixed-width fields, and the length that follows them, are packed by one fused struct; the byte of an empty section of
tagged fields is a padding byte in it. Functions of their own write tagged fields that are not at their default.
Counterpart in Kafka: the writers that org.apache.kafka.message.MessageDataGenerator writes.
"""

import struct
from collections.abc import Sequence

from ottla.wire.compiled.source import Source
from ottla.wire.schema import ArrayOf, Field, Message, Struct, StructOf, WireType, fields
from ottla.wire.types import EncodeError, Primitive

_MAX_STRING = 0x7FFF
# A table, because most lengths and counts are one byte.
_ONE_BYTE = tuple(bytes((value,)) for value in range(128))
_LENGTH_CODES = {"string": "h", "bytes": "i", "records": "i"}


def uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def string_length(value: int) -> bytes:
    """Return the compact length of a string. EncodeError: it is beyond Kafka's limit."""
    if value > _MAX_STRING + 1:
        raise EncodeError(f"a string of {value - 1} bytes")
    return uvarint(value)


def join_uuids(uuids: Sequence[bytes]) -> bytes:
    """Return the elements of an array of UUIDs."""
    joined = b"".join(uuids)
    if len(joined) != 16 * len(uuids):
        raise EncodeError("a UUID that is not 16 bytes long")
    return joined


class EncoderSource(Source):
    """The source of `encode(o, chunks)` for one message and version."""

    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(
            {
                "EncodeError": EncodeError,
                "failures": (struct.error, TypeError, AttributeError, ValueError),
                "join_uuids": join_uuids,
                "one_byte": _ONE_BYTE,
                "pack": struct.pack,
                "string_length": string_length,
                "uvarint": uvarint,
            }
        )
        self._message = message
        self._version = version
        self._flexible = version in message.flexible
        # Values that are packed together before the next one of variable width: format codes and expressions.
        self._codes = ""
        self._values: list[str] = []
        with self.function("def encode(o, chunks):"):
            self.emit("add = chunks.append")
            with self.block("try:"):
                self._struct(message, "o")
                self._flush()
            with self.block("except failures as error:"):
                self.emit(f'raise EncodeError(f"{message.__name__} v{version}: {{error}}") from error')

    def _fixed(self, code: str, value: str) -> None:
        self._codes += code
        self._values.append(value)

    def _packed(self, code: str = "", value: str = "") -> str:
        """Return the expression that packs the collected values, and one more. A length "B" is below 128."""
        codes = self._codes + code
        values = [*self._values, value] if value else self._values
        if codes == "x":
            return 'b"\\0"'
        if codes == "B" and code:
            return f"one_byte[{value}]"
        return f"{self.packer('pack', codes)}({', '.join(values)})"

    def _clear(self) -> None:
        self._codes = ""
        self._values = []

    def _flush(self) -> None:
        if self._codes:
            self.emit(f"add({self._packed()})")
            self._clear()

    def _uvarint(self, name: str, rest: str = "uvarint") -> None:
        """Write the encoding of the unsigned varint in `name`."""
        with self.block(f"if {name} < 128:"):
            self.emit(f"add({self._packed('B', name)})")
        with self.block("else:"):
            if self._codes:
                self.emit(f"add({self._packed()})")
            self.emit(f"add({rest}({name}))")
        self._clear()

    def _struct(self, cls: type[Struct], name: str) -> None:
        tagged = []
        for field in fields(cls):
            if self._version not in field.versions:
                continue
            if field.is_tagged(self._version):
                tagged.append(field)
            else:
                self._field(field, f"{name}.{field.name}")
        if self._flexible:
            self._tagged_section(cls, name, sorted(tagged, key=lambda field: field.tag or 0))

    def _field(self, field: Field, source: str) -> None:
        nullable = self._version in field.nullable
        flexible = field.is_flexible(self._version, self._message)
        if isinstance(field.type, StructOf) and nullable:
            self._maybe_struct(field.type.struct, source, b"\xff")
        else:
            self._value(field.type, source, nullable, flexible)

    def _maybe_struct(self, cls: type[Struct], source: str, null: bytes) -> None:
        self._flush()
        name = self.name("o")
        self.emit(f"{name} = {source}")
        with self.block(f"if {name} is None:"):
            self.emit(f"add({null!r})")
        with self.block("else:"):
            self._fixed("b", "1")
            self._struct(cls, name)
            self._flush()

    def _value(self, wire_type: WireType, source: str, nullable: bool, flexible: bool) -> None:
        if isinstance(wire_type, StructOf):
            name = self.name("o")
            self.emit(f"{name} = {source}")
            self._struct(wire_type.struct, name)
        elif isinstance(wire_type, ArrayOf):
            self._array(wire_type.element, source, nullable, flexible)
        elif wire_type.code:
            if wire_type.kafka_name == "uuid":
                # struct would cut or pad it without an error.
                with self.block(f"if len({source}) != 16:"):
                    self.emit('raise EncodeError("a UUID that is not 16 bytes long")')
            self._fixed(wire_type.code, source)
        else:
            self._sized(wire_type.kafka_name, source, nullable, flexible)

    def _sized(self, kind: str, source: str, nullable: bool, flexible: bool) -> None:
        """Write the encoding of a string, bytes or records: a length, then the bytes."""
        value, length = self.name("v"), self.name("n")
        self.emit(f"{value} = {source}")
        encode = f"{value} = {value}.encode()" if kind == "string" else ""
        measure = f"{length} = len({value})" + (" + 1" if flexible else "")
        if nullable:
            with self.block(f"if {value} is None:"):
                self.emit(f'{value} = b""')
                self.emit(f"{length} = {0 if flexible else -1}")
            with self.block("else:"):
                self.emit(f"{encode}; {measure}" if encode else measure)
        else:
            self.emit(f"{encode}; {measure}" if encode else measure)
        if flexible:
            self._uvarint(length, "string_length" if kind == "string" else "uvarint")
        else:
            self._fixed(_LENGTH_CODES[kind], length)
            self._flush()
        self.emit(f"add({value})")

    def _array(self, element: Primitive | StructOf, source: str, nullable: bool, flexible: bool) -> None:
        values, count = self.name("v"), self.name("n")
        self.emit(f"{values} = {source}")
        if flexible:
            measure = f"len({values}) + 1"
            self.emit(f"{count} = 0 if {values} is None else {measure}" if nullable else f"{count} = {measure}")
            self._uvarint(count)
        else:
            measure = f"len({values})"
            self._fixed("i", f"-1 if {values} is None else {measure}" if nullable else measure)
            self._flush()
        with self.block(f"if {values}:"):
            self._elements(element, values, flexible)

    def _elements(self, element: Primitive | StructOf, values: str, flexible: bool) -> None:
        if isinstance(element, Primitive) and element.code:
            if element.code == "16s":
                self.emit(f"add(join_uuids({values}))")
            else:
                self.emit(f'add(pack(f">{{len({values})}}{element.code}", *{values}))')
            return
        item = self.name("o")
        with self.block(f"for {item} in {values}:"):
            if isinstance(element, StructOf):
                self._struct(element.struct, item)
            else:
                self._value(element, item, False, flexible)
            self._flush()

    def _tagged_section(self, cls: type[Struct], name: str, tagged: list[Field]) -> None:
        if not tagged:
            self._codes += "x"
            return
        conditions = [self._is_default(field, f"{name}.{field.name}") for field in tagged]
        function = self._tagged_function(cls, tagged)
        with self.block(f"if {' and '.join(conditions)}:"):
            self.emit(f"add({self._packed('x')})")
        with self.block("else:"):
            if self._codes:
                self.emit(f"add({self._packed()})")
            self.emit(f"{function}({name}, add)")
        self._clear()

    def _is_default(self, field: Field, source: str) -> str:
        """Return the condition under which a tagged field is not written."""
        if field.default is None:
            return f"{source} is None"
        if isinstance(field.type, ArrayOf):
            return f"({source} is not None and not {source})" if self._version in field.nullable else f"not {source}"
        default = self.literal(field.default)
        if isinstance(field.type, StructOf):
            # Usually the same instance, and comparing is slow.
            return f"({source} is {default} or {source} == {default})"
        return f"{source} == {default}"

    def _tagged_function(self, cls: type[Struct], tagged: list[Field]) -> str:
        function = self.name(f"write_tags_of_{cls.__name__}_")
        waiting = self._codes, self._values
        self._clear()
        with self.function(f"def {function}(o, add_to_message):"):
            self.emit("count = 0")
            self.emit("section = []")
            for field in tagged:
                with self.block(f"if not ({self._is_default(field, f'o.{field.name}')}):"):
                    self._tagged_field(field)
            self.emit("add_to_message(uvarint(count))")
            with self.block("for chunk in section:"):
                self.emit("add_to_message(chunk)")
        self._codes, self._values = waiting
        return function

    def _tagged_field(self, field: Field) -> None:
        self.emit("chunks = []")
        self.emit("add = chunks.append")
        nullable = self._version in field.nullable
        if isinstance(field.type, StructOf) and nullable:
            self._maybe_struct(field.type.struct, f"o.{field.name}", b"\0")
        else:
            self._value(field.type, f"o.{field.name}", nullable, True)
        self._flush()
        self.emit(f"section += [{uvarint(field.tag or 0)!r}, uvarint(sum(map(len, chunks))), *chunks]")
        self.emit("count += 1")
