"""The formatters of kafka-console-consumer.

PURE: a formatter calls a function with bytes. Counterparts: DefaultMessageFormatter, LoggingMessageFormatter,
NoOpMessageFormatter. The formatters of Kafka's internal topics are in `coordinator_formatters`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from ottla.scripts.kafka.face import Face, JavaError
from ottla.scripts.kafka.records.coordinator_formatters import COORDINATOR_FORMATTERS
from ottla.scripts.kafka.records.deserializers import Deserializer, deserializer
from ottla.wire.records.batch import BatchHeader, Record, TimestampType

_PACKAGE: Final = "org.apache.kafka.tools.consumer."
DEFAULT_FORMATTER: Final = _PACKAGE + "DefaultMessageFormatter"
_TYPES: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}
_FIELDS: Final = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
"""The fields in the order of their output."""
_ONLY_NEW: Final = frozenset({"delivery", "epoch"})
_RENAMED: Final[Mapping[str, str]] = {
    "kafka.tools.DefaultMessageFormatter": DEFAULT_FORMATTER,
    "kafka.tools.LoggingMessageFormatter": _PACKAGE + "LoggingMessageFormatter",
    "kafka.tools.NoOpMessageFormatter": _PACKAGE + "NoOpMessageFormatter",
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter": _PACKAGE
    + "TransactionLogMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": _PACKAGE + "OffsetsMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": _PACKAGE
    + "GroupMetadataMessageFormatter",
}
Write = Callable[[bytes], object]


class Formatter(Protocol):
    """Prints records."""

    def write(self, partition: int, header: BatchHeader, record: Record, write: Write) -> None:
        """Write a record. JavaError for one that cannot be read."""


class DefaultFormatter:
    """Prints the fields that properties name; without such properties the value only."""

    def __init__(self, properties: Mapping[str, str], *, is_3_9: bool) -> None:
        shown = {"value"}
        for field in _FIELDS:
            name = f"print.{field}"
            if name in properties and not (is_3_9 and field in _ONLY_NEW):
                (shown.add if properties[name].strip().lower() == "true" else shown.discard)(field)
        self._fields = [field for field in _FIELDS if field in shown]
        self._column = properties.get("key.separator", "\t").encode()
        self._line = properties.get("line.separator", "\n").encode()
        self._between_headers = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        names = {field: properties.get(f"{field}.deserializer") for field in ("key", "value", "headers")}
        self._read: Mapping[str, Deserializer | None] = {
            field: None if name is None else deserializer(name) for field, name in names.items()
        }

    def write(self, partition: int, header: BatchHeader, record: Record, write: Write) -> None:
        """Write the fields with a separator between them, and the line separator after them."""
        for field in self._fields:
            for piece in self._pieces(field, partition, header, record):
                write(piece)
            write(self._line if field == self._fields[-1] else self._column)

    def _pieces(self, field: str, partition: int, header: BatchHeader, record: Record) -> Sequence[bytes]:
        match field:
            case "timestamp":
                return [f"{_TYPES[header.timestamp_type]}:{record.timestamp}".encode()]
            case "partition":
                return [b"Partition:%d" % partition]
            case "offset":
                return [b"Offset:%d" % record.offset]
            case "delivery" | "epoch":
                # The tool hands on neither.
                return [f"{field.capitalize()}:NOT_PRESENT".encode()]
            case "headers":
                return self._headers(record)
            case "key":
                return [self._text(field, record.key)]
            case _:
                return [self._text(field, record.value)]

    def _headers(self, record: Record) -> Sequence[bytes]:
        if not record.headers:
            return [b"NO_HEADERS"]
        pairs = [name.encode() + b":" + self._text("headers", value) for name, value in record.headers]
        return [self._between_headers.join(pairs)]

    def _text(self, field: str, data: bytes | None) -> bytes:
        there = self._null if data is None else data
        read = self._read[field]
        return there if read is None else read(there).encode("utf-8", "replace")


class NoOpFormatter:
    """Prints nothing."""

    def write(self, partition: int, header: BatchHeader, record: Record, write: Write) -> None:
        """Write nothing."""


def formatter(name: str, properties: Mapping[str, str], face: Face) -> Formatter:
    """Return a formatter by the name of its class. JavaError for an unknown class."""
    if face.is_3_9 and name in _RENAMED:
        face.complain(
            f"WARNING: {name} is deprecated and will be removed in the next major release. Please use "
            f"{_RENAMED[name]} instead"
        )
        name = _RENAMED[name]
    if name in (DEFAULT_FORMATTER, _PACKAGE + "LoggingMessageFormatter"):
        return DefaultFormatter(properties, is_3_9=face.is_3_9)
    if name == _PACKAGE + "NoOpMessageFormatter":
        return NoOpFormatter()
    short = name.removeprefix(_PACKAGE)
    if name.startswith(_PACKAGE) and short in COORDINATOR_FORMATTERS:
        return COORDINATOR_FORMATTERS[short](face.is_3_9)
    known = ["DefaultMessageFormatter", "LoggingMessageFormatter", "NoOpMessageFormatter", *COORDINATOR_FORMATTERS]
    text = f"{name}: no class of Java can run here, only those of {_PACKAGE[:-1]}: {', '.join(known)}"
    raise JavaError("java.lang.ClassNotFoundException", text)
