"""Batches and logs for the tests of storage."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.log.append_info import LogAppendInfo
from ottla.log.config import LogConfig
from ottla.log.log import PartitionLog
from ottla.log.recovery.recovery import LoadOptions
from ottla.log.segments.open_files import FileRegion, OpenFiles
from ottla.log.state.verification import TransactionalAppend
from ottla.wire.records.batch import (
    ControlType,
    NewRecord,
    ProducedBatch,
    Record,
    build_batch,
    build_marker,
    iter_batches,
    iter_records,
    parse_header,
)
from ottla.wire.types import TopicPartition

TOPIC_PARTITION = TopicPartition("orders", 3)
NOW_MS = 1_700_000_000_000


def produced(
    count: int = 1,
    *,
    value: bytes = b"value",
    timestamp: int = NOW_MS,
    timestamps: Sequence[int] | None = None,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
) -> ProducedBatch:
    """A validated batch."""
    times = timestamps or [timestamp] * count
    records = [NewRecord(b"key", value, time) for time in times]
    known = producer_id >= 0
    data = memoryview(
        build_batch(
            records,
            transactional=transactional,
            producer_id=producer_id,
            producer_epoch=epoch if known else -1,
            base_sequence=sequence if known else -1,
        )
    )
    return ProducedBatch(parse_header(data), data, max(times))


def marker(
    producer_id: int,
    kind: ControlType = ControlType.COMMIT,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp: int = NOW_MS,
) -> ProducedBatch:
    """A marker for a leader's log."""
    data = memoryview(build_marker(producer_id, epoch, kind, coordinator_epoch, timestamp))
    return ProducedBatch(parse_header(data), data, timestamp)


def open_log(
    directory: Path, *, clean: bool = True, recovery_point: int = 0, start: int = 0, **config: Any
) -> PartitionLog:
    """Return the log in `directory`; `config` takes Kafka's keys in snake_case."""
    directory.mkdir(exist_ok=True)
    options = LoadOptions(
        LogConfig(**config), NOW_MS, log_start_offset=start, recovery_point=recovery_point, clean=clean
    )
    return checked(PartitionLog(TOPIC_PARTITION, directory, OpenFiles(8), options))


def checked(log: PartitionLog) -> PartitionLog:
    """Return the log after checking all segments that were found on the disk."""
    for segment in log.segments:
        if not segment.is_checked:
            job = log.segments.check_job(segment)
            log.segments.checked(segment, job, job.run())
    return log


def append(
    log: PartitionLog,
    *batches: ProducedBatch,
    epoch: int = 0,
    now_ms: int = NOW_MS,
    how: TransactionalAppend | None = None,
) -> LogAppendInfo:
    """Append the batches as leader of `epoch`; return the info of the last one."""
    infos = [log.append_as_leader(batch, epoch, now_ms, how) for batch in batches or (produced(),)]
    return infos[-1]


def content(region: FileRegion | bytes | bytearray) -> bytes:
    """Return the bytes of a read."""
    return region.read() if isinstance(region, FileRegion) else bytes(region)


def records_from(log: PartitionLog, offset: int = 0, end: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """Return all records from `offset` on, read as a consumer does."""
    end = log.log_end_offset if end is None else end
    found: list[Record] = []
    while offset < end:
        data = content(log.read(offset, max_bytes, end, min_one_message=True))
        if not data:
            break
        for header, batch in iter_batches(memoryview(data)):
            found += [record for record in iter_records(batch) if record.offset >= offset]
            following = header.next_offset
        offset = following
    return found


def values_from(log: PartitionLog, offset: int = 0, end: int | None = None) -> list[bytes | None]:
    """Return the values of `records_from`."""
    return [record.value for record in records_from(log, offset, end)]
