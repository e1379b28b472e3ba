"""Log directories for the tests of the source that reads them, and what it reads, without Spark."""

from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.log.log import PartitionLog
from ottla.log.state.checkpoint import HIGH_WATERMARK_FILE, write_offsets
from ottla.pipeline.log_source_columns import NO_HEADERS, NO_KEY, NO_VALUE, Columns
from ottla.pipeline.log_source_directories import Logs, Slice
from ottla.pipeline.log_source_options import LogOptions, parse_options
from ottla.pipeline.log_source_reading import SliceReader
from ottla.wire.records.batch import ControlType, NewRecord, Record, build_batch, build_control_batch
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS, TOPIC_PARTITION


def options(directory: Path, **others: str) -> LogOptions:
    """What a batch was asked for, of the topic that the builders of logs write."""
    return parse_options(_asked(directory, others))


def stream_options(directory: Path, **others: str) -> LogOptions:
    """The same of a stream, from the beginning on."""
    return parse_options(_asked(directory, {"startingOffsets": "earliest"} | others), streaming=True)


def _asked(directory: Path, others: Mapping[str, str]) -> dict[str, str]:
    which = {} if {"assign", "subscribePattern"} & others.keys() else {"subscribe": TOPIC_PARTITION.topic}
    return {"path": str(directory), **which, **others}


def plan(directory: Path, **others: str) -> list[Slice]:
    """The tasks of a batch."""
    return Logs(options(directory, **others)).batch()


def read_slices(slices: Iterable[Slice], asked: LogOptions) -> list[Record]:
    """What tasks read, in their order."""
    found: list[Record] = []
    for each in slices:
        reader = SliceReader(each, is_permissive=asked.is_permissive, fail_on_data_loss=asked.fail_on_data_loss)
        for columns in reader.read():
            found += rows(columns)
    return found


def read(directory: Path, **others: str) -> list[Record]:
    """What is read of a directory."""
    asked = options(directory, **others)
    return read_slices(Logs(asked).batch(), asked)


def rows(columns: Columns) -> list[Record]:
    """The records behind positions."""
    data = columns.data()
    flags, header_flags = columns.flags.getvalue(), columns.header_flags.getvalue()
    pairs = _pairs(data, _numbers("i", columns.spans.getvalue()), flags)
    headers = [
        ((key or b"").decode(errors="replace"), value)
        for key, value in _pairs(data, _numbers("i", columns.header_spans.getvalue()), header_flags)
    ]
    ends = _numbers("i", columns.header_ends.getvalue())
    found = []
    for row, (offset, time) in enumerate(
        zip(_numbers("q", columns.offsets.getvalue()), _numbers("q", columns.timestamps.getvalue()), strict=True)
    ):
        of_record = tuple(headers[ends[row - 1] if row else 0 : ends[row]])
        assert bool(of_record) is not bool(flags[row] & NO_HEADERS)
        found.append(Record(offset, time, *pairs[row], of_record))
    assert len(found) == columns.rows == len(flags)
    return found


def _numbers(kind: str, data: bytes) -> "array[int]":
    found = array(kind)
    found.frombytes(data)
    return found


def _pairs(data: bytes, spans: "array[int]", flags: bytes) -> list[tuple[bytes | None, bytes | None]]:
    assert list(spans) == sorted(spans)
    return [
        (
            None if flag & NO_KEY else data[spans[at] : spans[at + 1]],
            None if flag & NO_VALUE else data[spans[at + 2] : spans[at + 3]],
        )
        for at, flag in zip(range(0, len(spans), 4), flags, strict=True)
    ]


def checkpoint(directory: Path, offsets: Mapping[TopicPartition, int] | int) -> None:
    """Write the high watermarks down, as a broker does."""
    by_partition = {TOPIC_PARTITION: offsets} if isinstance(offsets, int) else offsets
    write_offsets(directory / HIGH_WATERMARK_FILE, by_partition)


def write(log: PartitionLog, *values: bytes, producer: int | None = None) -> None:
    """Append a batch; with a producer, as a part of its transaction."""
    records = [NewRecord(b"key", value, NOW_MS) for value in values]
    if producer is None:
        batch = build_batch(records, base_offset=log.log_end_offset)
    else:
        sequence = log.producers.entries[producer].last_sequence + 1 if producer in log.producers.entries else 0
        batch = build_batch(
            records,
            base_offset=log.log_end_offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
    log.append_as_follower(memoryview(batch), NOW_MS)


def end_transaction(log: PartitionLog, producer: int, kind: ControlType) -> None:
    """Append the marker."""
    marker = build_control_batch(
        kind,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=1,
        timestamp=NOW_MS,
        base_offset=log.log_end_offset,
    )
    log.append_as_follower(memoryview(marker), NOW_MS)


def values(records: Iterable[Record]) -> list[bytes | None]:
    """Their values."""
    return [record.value for record in records]
