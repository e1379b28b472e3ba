"""Keys and values of __transaction_state, byte for byte Kafka's.

Owns which version is written, and which records cannot be read. Must not know a decision. Counterpart in Kafka:
TransactionLog.

A producer id that takes effect later is never dropped: such a value has version 1 at every level.
"""

from typing import Final

from ottla.coordinator.effects import Record
from ottla.coordinator.transaction import NO_PRODUCER_ID, NO_TIMESTAMP, State, Transaction
from ottla.wire.errors import DecodeError
from ottla.wire.internal.transaction_records import STATES, PartitionsSchema, TransactionLogKey, TransactionLogValue
from ottla.wire.schema import Message
from ottla.wire.types import TopicPartition

_KEY_VERSION: Final = 0
_NEVER_IN_THE_LOG: Final = (State.DEAD, State.PREPARE_EPOCH_FENCE)


def transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id."""
    return _prefixed(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


def transaction_record(transactional_id: str, transaction: Transaction, level: int) -> Record:
    """The record of a transactional id. `level` is that of transaction.version: 0 knows value 0 alone."""
    version = 1 if level > 0 or transaction.next_producer_id != NO_PRODUCER_ID else 0
    is_empty = transaction.state is State.EMPTY
    tags = {
        "previous_producer_id": transaction.previous_producer_id,
        "next_producer_id": transaction.next_producer_id,
        "client_transaction_version": transaction.client_version,
    }
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=STATES.index(transaction.state.value),
        transaction_partitions=None if is_empty else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=NO_TIMESTAMP if is_empty else transaction.start_ms,
        **(tags if version else {}),
    )
    return transaction_key(transactional_id), _prefixed(value, version)


def read_transaction_key(data: bytes) -> str:
    """Return the transactional id of a key. Raises DecodeError for an unknown type too."""
    if _version(data) != _KEY_VERSION:
        raise DecodeError(f"key of type {_version(data)}")
    return TransactionLogKey.decode(data[2:], _KEY_VERSION).transactional_id


def read_transaction_value(data: bytes) -> Transaction:
    """Decode a value of any version. Raises DecodeError for an unknown version or state too."""
    version = _version(data)
    if version not in TransactionLogValue.versions:
        raise DecodeError(f"transaction of version {version}")
    value = TransactionLogValue.decode(data[2:], version)
    number = value.transaction_status
    state = State(STATES[number]) if 0 <= number < len(STATES) else None
    if state is None or state in _NEVER_IN_THE_LOG:
        raise DecodeError(f"transaction in state {number}")
    if value.transaction_partitions is None and state is not State.EMPTY:
        raise DecodeError(f"transaction in state {number} without partitions")
    return Transaction(
        state=state,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        partitions=frozenset(
            TopicPartition(each.topic, partition)
            for each in value.transaction_partitions or ()
            for partition in each.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()]


def _prefixed(message: Message, version: int) -> bytes:
    return version.to_bytes(2, "big") + message.encode(version)


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise DecodeError("no version")
    return int.from_bytes(data[:2], "big", signed=True)
