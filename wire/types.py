"""The vocabulary of message declarations: Kafka's primitive types, version ranges, and names that all rooms share.

Owns the aliases that annotations use (an alias is the Python type for the checker, and carries the wire type for the
compiler). Must not know messages or encoding. Counterpart in Kafka: org.apache.kafka.message.FieldType, Versions.
"""

from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple, Protocol

_HIGHEST = 32767
# The epoch of a leader, a broker or a producer that has none, or does not say it.
NO_EPOCH: Final = -1


class EncodeError(ValueError):
    """A message holds a value that its wire form cannot express."""


class TopicPartition(NamedTuple):
    """A partition, by its topic's name and its number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class VersionRange:
    """An inclusive range of versions, written as in Kafka's specifications: "3", "0-4", "2+" or "none"."""

    __slots__ = ("highest", "lowest")

    def __init__(self, lowest: int, highest: int) -> None:
        self.lowest = lowest
        self.highest = highest

    @classmethod
    def parse(cls, text: str) -> "VersionRange":
        """Return the range that `text` names."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _HIGHEST)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VersionRange):
            return NotImplemented
        return (self.lowest, self.highest) == (other.lowest, other.highest)

    def __hash__(self) -> int:
        return hash((self.lowest, self.highest))

    def __str__(self) -> str:
        if self.highest < self.lowest:
            return "none"
        if self.highest == _HIGHEST:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"

    def __repr__(self) -> str:
        return f"VersionRange({str(self)!r})"


class Region(Protocol):
    """Bytes that are not in memory. The codec needs only their number; the transport sends them."""

    def __len__(self) -> int: ...


class Primitive:
    """A primitive type of Kafka's protocol; `code` is its `struct` format where its width is fixed."""

    __slots__ = ("code", "kafka_name", "zero")

    def __init__(self, kafka_name: str, code: str, zero: object) -> None:
        self.kafka_name = kafka_name
        self.code = code
        self.zero = zero

    def __repr__(self) -> str:
        return self.kafka_name


ZERO_UUID = bytes(16)
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

Bool = Annotated[bool, Primitive("bool", "?", False)]
Int8 = Annotated[int, Primitive("int8", "b", 0)]
Int16 = Annotated[int, Primitive("int16", "h", 0)]
UInt16 = Annotated[int, Primitive("uint16", "H", 0)]
Int32 = Annotated[int, Primitive("int32", "i", 0)]
UInt32 = Annotated[int, Primitive("uint32", "I", 0)]
Int64 = Annotated[int, Primitive("int64", "q", 0)]
Float64 = Annotated[float, Primitive("float64", "d", 0.0)]
Uuid = Annotated[bytes, Primitive("uuid", "16s", ZERO_UUID)]
String = Annotated[str, Primitive("string", "", "")]
Bytes = Annotated[bytes, Primitive("bytes", "", b"")]
# Decodes to a view into the frame, or to None where a version lets it be null.
Records = Annotated[bytes | bytearray | memoryview | Region | None, Primitive("records", "", b"")]
