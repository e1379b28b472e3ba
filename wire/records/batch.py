"""Record batches (magic 2): the names that other rooms import.

Owns nothing itself: `batch_header`, `record_builder`, `record_reader`, `record_validation` and `recompression` do the
work. Counterpart in Kafka: the package `org.apache.kafka.common.record`.
"""

from ottla.wire.records.batch_header import (
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    CorruptBatch,
    TimestampType,
    crc_is_valid,
    increment_sequence,
    iter_batches,
    parse_header,
    place,
)
from ottla.wire.records.builder import ControlType, NewRecord, Record, build_batch, build_control_batch, build_marker
from ottla.wire.records.compression import Compression
from ottla.wire.records.reader import (
    EndTransactionMarker,
    check_records,
    control_type,
    end_transaction_marker,
    iter_records,
)
from ottla.wire.records.recompression import recompressed, recompression_needs_offload
from ottla.wire.records.validation import (
    InvalidRecordsError,
    NotOneBatchError,
    ProducedBatch,
    RecordRules,
    UnreadableStartError,
    check_start,
    needs_offload,
    size_of_one_batch,
    validate_produced,
)

__all__ = [
    "CONTROL_FLAG",
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "BatchHeader",
    "Compression",
    "ControlType",
    "CorruptBatch",
    "EndTransactionMarker",
    "InvalidRecordsError",
    "NewRecord",
    "NotOneBatchError",
    "ProducedBatch",
    "Record",
    "RecordRules",
    "TimestampType",
    "UnreadableStartError",
    "build_batch",
    "build_control_batch",
    "build_marker",
    "check_records",
    "check_start",
    "control_type",
    "crc_is_valid",
    "end_transaction_marker",
    "increment_sequence",
    "iter_batches",
    "iter_records",
    "needs_offload",
    "parse_header",
    "place",
    "recompressed",
    "recompression_needs_offload",
    "size_of_one_batch",
    "validate_produced",
]
