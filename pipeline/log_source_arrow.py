"""Columns of records as Arrow has them, in the schema that Spark's source for Kafka has.

Owns that schema, and the way from positions to columns: the bytes that were walked over are one long Arrow array of
keys, values and what is between them, of which Arrow takes out every fourth. Must not know files, nor Spark.
Counterpart in Spark: KafkaRecordToRowConverter.
"""

from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.pipeline.log_source_columns import LOG_APPEND_TIME, NO_HEADERS, NO_KEY, NO_VALUE, Columns

SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_HEADERS: Final = pa.list_(pa.field("element", _HEADER))
ARROW_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", _HEADERS),
    ]
)
# Of each key and each value, start and end.
_POSITIONS: Final = 4
_MOST_MILLISECONDS: Final = (2**63 - 1) // 1000


def record_batch(columns: Columns, topic: str, partition: int) -> Any:
    """A `pyarrow.RecordBatch` of ARROW_SCHEMA."""
    rows = columns.rows
    data = pa.py_buffer(columns.data())
    flags = np.frombuffer(columns.flags.getvalue(), np.uint8)
    key, value = _pairs(data, columns.spans.getvalue(), (flags & NO_KEY) != 0, (flags & NO_VALUE) != 0)
    arrays = [
        key,
        value,
        pa.repeat(pa.scalar(topic), rows),
        pa.repeat(pa.scalar(partition, pa.int32()), rows),
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.offsets.getvalue())]),
        _timestamps(np.frombuffer(columns.timestamps.getvalue(), np.int64)),
        pa.array((flags & LOG_APPEND_TIME) != 0).cast(pa.int32()),
        _headers(columns, data, flags),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _pairs(data: Any, spans: bytes, no_key: Any, no_value: Any) -> tuple[Any, Any]:
    """The keys and the values."""
    count = len(no_key)
    everything = pa.Array.from_buffers(pa.binary(), _POSITIONS * count - 1, [None, pa.py_buffer(spans), data])
    keys = _every_fourth(count)
    return everything.take(pa.array(keys, mask=no_key)), everything.take(pa.array(keys + 2, mask=no_value))


@cache
def _fourth(count: int) -> Any:
    return np.arange(0, _POSITIONS * count, _POSITIONS, dtype=np.int32)


def _every_fourth(count: int) -> Any:
    # Most are asked for again and again, with counts that differ by little.
    return _fourth(-(-count // 4096) * 4096)[:count]


def _timestamps(milliseconds: Any) -> Any:
    """Those that Spark has no number for are null."""
    is_beyond = (milliseconds > _MOST_MILLISECONDS) | (milliseconds < -_MOST_MILLISECONDS)
    with np.errstate(over="ignore"):
        return pa.array(milliseconds * 1000, pa.int64(), mask=is_beyond).cast(ARROW_SCHEMA.field("timestamp").type)


def _headers(columns: Columns, data: Any, flags: Any) -> Any:
    if not columns.headers:
        return pa.nulls(columns.rows, _HEADERS)
    header_flags = np.frombuffer(columns.header_flags.getvalue(), np.uint8)
    never: Any = np.zeros(columns.headers, bool)
    keys, values = _pairs(data, columns.header_spans.getvalue(), never, (header_flags & NO_VALUE) != 0)
    try:
        keys = keys.cast(pa.string())
    except pa.ArrowInvalid:
        keys = pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
    ends = np.frombuffer(columns.header_ends.getvalue(), np.int32)
    starts = np.concatenate((np.zeros(1, np.int32), ends))
    headers = pa.StructArray.from_arrays([keys, values], fields=list(_HEADER))
    is_absent = pa.array((flags & NO_HEADERS) != 0)
    return pa.ListArray.from_arrays(pa.array(starts), headers, type=_HEADERS, mask=is_absent)
