"""Records of Kafka's internal topics as JSON, as its tools print them.

PURE. Counterparts in Kafka: CoordinatorRecordSerde, DumpLogSegments' message parsers.
"""

from collections.abc import Callable, Mapping
from struct import Struct as Layout
from typing import Any, Final, NamedTuple

from ottla.wire.errors import DecodeError
from ottla.wire.internal import group_records, transaction_records
from ottla.wire.internal.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ottla.wire.internal.group_records import GroupMetadataValue, MemberMetadata, RecordType
from ottla.wire.internal.message_json import as_json
from ottla.wire.schema import Message

_INT16: Final = Layout(">h")


class UnknownRecordTypeError(ValueError):
    """A key has a record type that is not declared for its topic."""

    def __init__(self, number: int) -> None:
        super().__init__(f"record type {number} is unknown")
        self.number = number


class Decoded(NamedTuple):
    """A record: its type, key, version and value. A tombstone has neither version nor value."""

    type: int
    key: dict[str, Any]
    version: int | None
    value: dict[str, Any] | None


def decode_group_record(key: bytes, value: bytes | None) -> Decoded:
    """Return a record of __consumer_offsets. UnknownRecordTypeError, or DecodeError: it is malformed."""
    return _decode(group_records.RECORD_TYPES, key, value)


def decode_transaction_record(key: bytes, value: bytes | None) -> Decoded:
    """Return a record of __transaction_state. UnknownRecordTypeError, or DecodeError: it is malformed."""
    return _decode(transaction_records.RECORD_TYPES, key, value)


DECODERS: Final[Mapping[str, Callable[[bytes, bytes | None], Decoded]]] = {
    "offsets": decode_group_record,
    "transactions": decode_transaction_record,
}
"""The decoder of each internal topic, by its contents."""


def _decode(types: Mapping[int, RecordType], key: bytes, value: bytes | None) -> Decoded:
    number = _first_number(key, "key")
    found = types.get(number)
    if found is None:
        raise UnknownRecordTypeError(number)
    key_as_json = as_json(_message(found.key, key, 0, "key"), 0)
    if value is None:
        return Decoded(number, key_as_json, None, None)
    version = _first_number(value, "value")
    message = _message(found.value, value, version, "value")
    as_object = as_json(message, version)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == PROTOCOL_TYPE:
        for member, shown in zip(message.members, as_object["members"], strict=True):
            shown.update(_consumer_protocol(member))
    return Decoded(number, key_as_json, version, as_object)


def _first_number(data: bytes, name: str) -> int:
    if len(data) < _INT16.size:
        raise DecodeError(f"Could not read version from {name}'s buffer.")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _message(kind: type[Message], data: bytes, version: int, name: str) -> Message:
    try:
        if version not in kind.versions:
            raise DecodeError(f"there is no version {version} of {kind.__name__}")
        return kind.decode(data[_INT16.size :], version)
    except DecodeError as error:
        text = f"Could not read record with version {version} from {name}'s buffer due to: {error}."
        raise DecodeError(text) from None


def _consumer_protocol(member: MemberMetadata) -> dict[str, Any]:
    """Return a consumer's decoded subscription and assignment, without those that cannot be decoded."""
    found = {}
    for name, kind in (("subscription", ConsumerProtocolSubscription), ("assignment", ConsumerProtocolAssignment)):
        data = getattr(member, name)
        try:
            version = min(_first_number(data, name), kind.versions.highest)
            found[name] = as_json(kind.decode(data[_INT16.size :], version), version)
        except (DecodeError, ValueError):
            continue
    return found
