"""Keys and values of the records in __transaction_state.

Owns their formats. A key begins with the number of its type, which is 0; a value begins with its version. Must not know
a coordinator. Counterparts in Kafka: transaction-coordinator's messages, TransactionLog.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from ottla.wire.internal.group_records import RecordType
from ottla.wire.schema import Message, Struct, V
from ottla.wire.types import Int8, Int16, Int32, Int64, String

STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    "PrepareEpochFence",
)  # fmt: skip
"""The names of the states by their numbers. The last two are never in the log."""


class TransactionLogKey(Message, versions="0"):
    """The key of a transactional id."""

    transactional_id: String


class PartitionsSchema(Struct):
    """Partitions of one topic in a transaction."""

    topic: String
    partition_ids: Sequence[Int32]


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """The last transaction of a transactional id."""

    producer_id: Int64
    previous_producer_id: Annotated[Int64, V("1+", tag=0)] = -1
    next_producer_id: Annotated[Int64, V("1+", tag=1)] = -1
    producer_epoch: Int16
    next_producer_epoch: Annotated[Int16, V("1+", tag=3)] = -1
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: Annotated[Sequence[PartitionsSchema] | None, V(nullable="0+")]
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Annotated[Int16, V("1+", tag=2)] = 0


RECORD_TYPES: Final[Mapping[int, RecordType]] = {0: RecordType(TransactionLogKey, TransactionLogValue)}
"""The declarations of each record type."""
