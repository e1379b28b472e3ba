"""kafka-dump-log for keys and values: as text or numbers, or decoded.

PURE. Counterparts: DumpLogSegments.MessageParser, org.apache.kafka.tools.api.Decoder, TransactionLog.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final

from ottla.scripts.kafka.face import Face, JavaError
from ottla.scripts.kafka.flags import Parsed
from ottla.scripts.kafka.java.hashes import hash_order, partition_hash
from ottla.scripts.kafka.java.json_values import encode
from ottla.wire.errors import DecodeError
from ottla.wire.internal.internal_records import (
    Decoded,
    UnknownRecordTypeError,
    decode_group_record,
    decode_transaction_record,
)
from ottla.wire.internal.transaction_records import STATES
from ottla.wire.records.batch import Record

Parser = Callable[[Record], tuple[str | None, str | None]]
"""Returns the printed key and the printed payload of a record; None for nothing."""
_API: Final = "org.apache.kafka.tools.api."
_OLDER: Final = "kafka.serializer."
_LAST_GROUP_TYPE_OF_3_9: Final = 8
_REFUSED: Final = ("cluster-metadata-decoder", "remote-log-metadata-decoder", "share-group-state-decoder")


def _number(form: str) -> Callable[[bytes], str]:
    layout = struct.Struct(form)

    def decode(data: bytes) -> str:
        if len(data) < layout.size:
            raise JavaError("java.nio.BufferUnderflowException", None)
        return str(layout.unpack_from(data)[0])

    return decode


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


_DECODERS: Final[Mapping[str, Callable[[bytes], str]]] = {
    "StringDecoder": _text,
    "LongDecoder": _number(">q"),
    "IntegerDecoder": _number(">i"),
    "DefaultDecoder": lambda data: f"[B@{len(data):x}",
}


def refused_decoder(parsed: Parsed) -> str | None:
    """Return the first flag with a decoder that is not imitated."""
    return next((name for name in _REFUSED if parsed.knows(name) and parsed.has(name)), None)


def parser_of(parsed: Parsed, face: Face) -> Parser:
    """Return the parser of the flags. JavaError for an unknown class."""
    if parsed.has("offsets-decoder"):
        return _older_offsets if face.is_3_9 else _offsets
    if parsed.has("transaction-log-decoder"):
        return _older_transactions if face.is_3_9 else _transactions
    # The class of values comes first.
    value, key = (_decoder(parsed.value(name), face) for name in ("value-decoder-class", "key-decoder-class"))

    def parse(record: Record) -> tuple[str | None, str | None]:
        return (
            None if record.key is None else key(record.key),
            None if record.value is None else value(record.value),
        )

    return parse


def _decoder(java_class: str, face: Face) -> Callable[[bytes], str]:
    if face.is_3_9 and java_class.startswith(_OLDER) and java_class.removeprefix(_OLDER) in _DECODERS:
        name = java_class.removeprefix(_OLDER)
        face.print(f"{java_class} is deprecated. Please use {_API}{name} instead")
        java_class = _API + name
    found = _DECODERS.get(java_class.removeprefix(_API)) if java_class.startswith(_API) else None
    if found is not None:
        return found
    missing = JavaError("java.lang.ClassNotFoundException", java_class)
    raise missing if face.is_3_9 else JavaError("java.lang.RuntimeException", "Failed to load decoder class", missing)


def _offsets(record: Record) -> tuple[str | None, str | None]:
    return _as_json(record, decode_group_record, "the specified decoder")


def _older_offsets(record: Record) -> tuple[str | None, str | None]:
    def decode(key: bytes, value: bytes | None) -> Decoded:
        found = decode_group_record(key, value)
        if found.type > _LAST_GROUP_TYPE_OF_3_9:
            raise UnknownRecordTypeError(found.type)
        return found

    return _as_json(record, decode, "offset topic decoder")


def _transactions(record: Record) -> tuple[str | None, str | None]:
    return _as_json(record, decode_transaction_record, "the specified decoder")


def _as_json(
    record: Record, decode: Callable[[bytes, bytes | None], Decoded], name: str
) -> tuple[str | None, str | None]:
    if record.key is None:
        text = f"Failed to decode message at offset {record.offset} using {name} (message had a missing key)"
        raise JavaError("java.lang.RuntimeException", text)
    try:
        found = decode(record.key, record.value)
    except UnknownRecordTypeError as error:
        return f"Unknown record type {error.number} at offset {record.offset}, skipping.", None
    except DecodeError as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    key = encode({"type": str(found.type), "data": found.key})
    value = "<DELETE>" if found.value is None else encode({"version": str(found.version), "data": found.value})
    return key, value


def _older_transactions(record: Record) -> tuple[str | None, str | None]:
    """Return a record of __transaction_state in the format of Kafka 3.9, which is not JSON."""
    try:
        found = decode_transaction_record(record.key or b"", record.value)
    except UnknownRecordTypeError as error:
        return f"unknown::version={error.number}", None
    except DecodeError as error:
        raise JavaError("java.lang.IllegalStateException", str(error)) from None
    key = f"transaction_metadata::transactionalId={found.key['transactionalId']}"
    if found.value is None:
        return key, "<DELETE>"
    value = found.value
    partitions = [
        (each["topic"], number) for each in value["transactionPartitions"] or () for number in each["partitionIds"]
    ]
    ordered = [partitions[at] for at in hash_order(partition_hash(*each) for each in partitions)]
    return key, (
        f"producerId:{value['producerId']},producerEpoch:{value['producerEpoch']},"
        f"state={STATES[value['transactionStatus']]},"
        f"partitions=[{','.join(f'{topic}-{number}' for topic, number in ordered)}],"
        f"txnLastUpdateTimestamp={value['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={value['transactionTimeoutMs']}"
    )
