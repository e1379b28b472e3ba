"""The formatters of kafka-console-consumer for __consumer_offsets and __transaction_state: JSON without line ends.

PURE. Counterparts: CoordinatorRecordMessageFormatter, and ApiMessageFormatter before 4.0.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from ottla.scripts.kafka.face import JavaError
from ottla.scripts.kafka.java.json_values import encode
from ottla.wire.errors import DecodeError
from ottla.wire.internal import group_records, transaction_records
from ottla.wire.internal.group_records import RecordType
from ottla.wire.internal.message_json import as_json
from ottla.wire.records.batch import BatchHeader, Record

_UNKNOWN: Final = "unknown"
_LATER_FIELDS: Final = frozenset({"topicId", "nextProducerEpoch"})
"""Fields that 3.9 does not know and does not print."""
_KEY_VERSION: Final = 0


class _Kind(NamedTuple):
    """What a formatter prints."""

    types: Mapping[int, RecordType]
    printed: Collection[int]
    passed_over: Collection[int]
    """Types that 3.9 knows but does not print; unknown types it prints as unknown."""


class CoordinatorFormatter:
    """Prints the records of a `_Kind`."""

    def __init__(self, kind: _Kind, is_3_9: bool) -> None:
        self._kind = kind
        self._is_3_9 = is_3_9

    def write(self, partition: int, header: BatchHeader, record: Record, write: Callable[[bytes], object]) -> None:
        """Write a record as JSON. JavaError for an invalid one."""
        try:
            found = self._older(record) if self._is_3_9 else self._newer(record)
        except DecodeError as error:
            text = f"Could not read record at offset {record.offset} due to: {error}"
            raise JavaError("java.lang.RuntimeException", text) from None
        if found is not None:
            write(encode(found).encode())

    def _newer(self, record: Record) -> dict[str, Any] | None:
        if record.key is None:
            return None
        number = _first_number(record.key)
        if number not in self._kind.printed:
            return None
        known = self._kind.types[number]
        key = as_json(known.key.decode(record.key[2:], _KEY_VERSION), _KEY_VERSION)
        found: dict[str, Any] = {"key": {"type": number, "data": key}, "value": None}
        if record.value is not None:
            version = _first_number(record.value)
            if version not in known.value.versions:
                raise DecodeError(f"{known.value.__name__} has no version {version}")
            value = as_json(known.value.decode(record.value[2:], version), version)
            found["value"] = {"version": version, "data": value}
        return found

    def _older(self, record: Record) -> dict[str, Any] | None:
        found: dict[str, Any] = {"key": None, "value": None}
        if record.key is not None:
            number = _first_number(record.key)
            if number in self._kind.passed_over:
                return None
            data: Any = _UNKNOWN
            if number in self._kind.printed:
                data = as_json(self._kind.types[number].key.decode(record.key[2:], _KEY_VERSION), _KEY_VERSION)
            found["key"] = {"version": number, "data": data}
        if record.value is not None:
            version = _first_number(record.value)
            data = _UNKNOWN
            declared = self._kind.types[max(self._kind.printed)].value
            if version in declared.versions:
                data = as_json(declared.decode(record.value[2:], version), version)
                data = {name: each for name, each in data.items() if name not in _LATER_FIELDS}
            found["value"] = {"version": version, "data": data}
        return found


def _first_number(data: bytes) -> int:
    if len(data) < 2:
        raise DecodeError("there is no version")
    return int.from_bytes(data[:2], "big", signed=True)


def _formatter(kind: _Kind) -> Callable[[bool], CoordinatorFormatter]:
    return lambda is_3_9: CoordinatorFormatter(kind, is_3_9)


COORDINATOR_FORMATTERS: Final[Mapping[str, Callable[[bool], CoordinatorFormatter]]] = {
    "OffsetsMessageFormatter": _formatter(_Kind(group_records.RECORD_TYPES, (0, 1), (2,))),
    "GroupMetadataMessageFormatter": _formatter(_Kind(group_records.RECORD_TYPES, (2,), (0, 1))),
    "TransactionLogMessageFormatter": _formatter(_Kind(transaction_records.RECORD_TYPES, (0,), ())),
}
"""Formatters by the names of Kafka's classes; the argument is whether to print like 3.9."""
