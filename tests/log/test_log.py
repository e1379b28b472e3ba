import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.log.append_info import UnexpectedAppendOffsetError
from ottla.log.log import PartitionLog
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import HEADER_SIZE, NewRecord, build_batch, iter_batches, place
from tests.log.building import NOW_MS, append, content, open_log, produced, records_from, values_from


def _refusal(log: PartitionLog, offset: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        log.read(offset, 100, log.log_end_offset, True)
    return refused.value.code


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """Limit files to `size` bytes: a write across the limit is short, a write behind it fails."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


# Appending


def test_batches_get_offsets_and_epoch_and_are_read_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = append(log, produced(3), epoch=7)
    second = append(log, produced(2, value=b"other"), epoch=7)
    assert (first.first_offset, first.last_offset, first.log_append_time_ms, first.log_start_offset) == (0, 2, -1, 0)
    assert (second.first_offset, second.last_offset, second.is_duplicate) == (3, 4, False)
    assert log.log_end_offset == 5
    batches = list(iter_batches(memoryview(content(log.read(0, 1 << 20, 5, True)))))
    assert [(header.base_offset, header.partition_leader_epoch) for header, _ in batches] == [(0, 7), (3, 7)]
    assert [record.offset for record in records_from(log)] == [0, 1, 2, 3, 4]
    assert log.size == first.size + second.size == (tmp_path / "00000000000000000000.log").stat().st_size


def test_a_duplicate_batch_returns_its_first_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(4))
    append(log, produced(2, producer_id=5))
    again = append(log, produced(2, producer_id=5))
    assert (again.first_offset, again.last_offset, again.is_duplicate, again.size) == (4, 5, True, 0)
    assert again.log_append_time_ms == NOW_MS
    assert log.log_end_offset == 6


def test_a_batch_out_of_sequence_changes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(2, producer_id=5))
    with pytest.raises(KafkaError) as refused:
        append(log, produced(2, producer_id=5, sequence=3))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 2
    assert append(log, produced(2, producer_id=5, sequence=2)).first_offset == 2


@pytest.mark.parametrize("segment_bytes", [1 << 20, 250])
def test_after_a_restart_the_last_five_batches_are_recognised(tmp_path: Path, segment_bytes: int) -> None:
    log = open_log(tmp_path, segment_bytes=segment_bytes)
    sent = [produced(2, producer_id=5, sequence=2 * number) for number in range(7)]
    for number, batch in enumerate(sent):
        append(log, batch)
        append(log, produced(producer_id=6, sequence=number))
    log.close()
    log = open_log(tmp_path, segment_bytes=segment_bytes)
    for number in range(2, 7):
        again = append(log, produced(2, producer_id=5, sequence=2 * number))
        assert (again.first_offset, again.is_duplicate) == (3 * number, True)
    for sequence in (2, 13):
        with pytest.raises(KafkaError) as refused:
            append(log, produced(2, producer_id=5, sequence=sequence))
        assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, produced(producer_id=5, sequence=14)).first_offset == 21


def test_after_a_restart_batches_of_an_older_epoch_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(producer_id=5, sequence=0))
    append(log, produced(producer_id=5, epoch=1, sequence=0), produced(producer_id=5, epoch=1, sequence=1))
    log.close()
    log = open_log(tmp_path)
    assert append(log, produced(producer_id=5, epoch=1, sequence=0)).is_duplicate
    with pytest.raises(KafkaError) as refused:
        append(log, produced(producer_id=5, epoch=0, sequence=0))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_batches_before_a_truncation_are_recognised_after_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(4):
        append(log, produced(producer_id=5, sequence=number))
    log.close()
    log = open_log(tmp_path)
    append(log, produced(producer_id=5, sequence=4))
    log.truncate_to(4)
    assert [append(log, produced(producer_id=5, sequence=each)).is_duplicate for each in (1, 2, 3)] == [True] * 3
    assert append(log, produced(producer_id=5, sequence=4)).first_offset == 4


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=200)
    append(log, produced(producer_id=9))
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            append(log, produced(value=bytes(300)))
        assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    with pytest.raises(KafkaError) as out_of_order:
        append(log, produced(value=bytes(300), producer_id=9, sequence=5))
    assert out_of_order.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 1
    assert len(log.segments) == 1


@pytest.mark.parametrize("room", range(0, 200, 7))
def test_a_short_or_failed_write_leaves_the_log_unchanged(tmp_path: Path, room: int) -> None:
    log = open_log(tmp_path)
    append(log, produced(2, producer_id=9))
    size = log.size
    with _largest_file(size + room), pytest.raises(KafkaError) as failed:
        append(log, produced(2, value=bytes(200), producer_id=9, sequence=2))
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_end_offset, log.size) == (2, size)
    assert (tmp_path / "00000000000000000000.log").stat().st_size == size
    assert append(log, produced(1, producer_id=9, sequence=2)).first_offset == 2
    assert len(records_from(log)) == 3


def test_a_batch_that_needs_a_new_segment_leaves_a_snapshot_of_the_state_before(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=400)
    append(log, produced(2, value=bytes(100), producer_id=1))
    append(log, produced(1, value=bytes(100), producer_id=1, sequence=2), produced(1, producer_id=2))
    log.release()
    again = open_log(tmp_path, clean=False, segment_bytes=400)
    assert {pid: entry.last_sequence for pid, entry in again.producers.entries.items()} == {1: 2, 2: 0}
    assert again.producers.snapshot_offsets[0] == 2


def test_a_new_leader_epoch_is_kept_with_its_first_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.assign_epoch(3)
    append(log, produced(5), epoch=3)
    append(log, produced(5), epoch=4)
    assert tuple(log.leader_epochs.entries) == ((3, 0), (4, 5))
    assert tuple(log.end_offset_for_epoch(3)) == (3, 5)
    assert tuple(log.end_offset_for_epoch(4)) == (4, 10)
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n3 0\n4 5\n"


def test_an_epoch_is_in_the_file_from_its_first_batch_on(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    log = open_log(tmp_path)
    log.assign_epoch(3)
    assert not path.exists()
    append(log, produced(5), epoch=3)
    assert path.read_bytes() == b"0\n1\n3 0\n"
    log.assign_epoch(4)
    assert log.leader_epochs.latest == 4
    assert path.read_bytes() == b"0\n1\n3 0\n"
    append(log, produced(1), produced(1), epoch=4)
    assert path.read_bytes() == b"0\n2\n3 0\n4 5\n"
    log.assign_epoch(5)
    log.close()
    assert path.read_bytes() == b"0\n3\n3 0\n4 5\n5 7\n"


def test_an_epoch_forgotten_while_loading_leaves_the_file_with_the_next_batch(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    log = open_log(tmp_path)
    append(log, produced(2), epoch=1)
    log.assign_epoch(7)
    log.close()
    log = open_log(tmp_path)
    assert path.read_bytes() == b"0\n2\n1 0\n7 2\n"
    batch = produced(1)
    place(batch.data, 2, 1)
    log.append_as_follower(batch.data, NOW_MS)
    assert path.read_bytes() == b"0\n1\n1 0\n"
    log.release()
    assert open_log(tmp_path, clean=False).leader_epochs.latest == 1


def test_the_first_flush_syncs_what_was_written_before_the_log_was_opened(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.set_topic_id(bytes(range(16)))
    append(log, produced(1), epoch=1)
    log.release()
    log = open_log(tmp_path, clean=False)
    job = log.flush_job()
    assert job is not None
    assert {path.name for path in job.paths} == {"partition.metadata", "leader-epoch-checkpoint"}


def test_an_append_returns_the_log_append_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime")
    assert append(log, produced(timestamp=NOW_MS + 5), now_ms=NOW_MS + 5).log_append_time_ms == NOW_MS + 5


# Rolling


def test_a_segment_ends_before_it_exceeds_its_size(tmp_path: Path) -> None:
    size = len(produced().data)
    log = open_log(tmp_path, segment_bytes=3 * size)
    for _ in range(7):
        append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"{base:020d}.{suffix}" for base in (0, 3, 6) for suffix in ("log", "index", "timeindex")),
        "00000000000000000003.snapshot",
        "00000000000000000006.snapshot",
        "leader-epoch-checkpoint",
    }
    assert len(records_from(log)) == 7


@pytest.mark.parametrize(("later_ms", "segments"), [(1000, 1), (1001, 2)])
def test_a_segment_ends_by_the_timestamps_of_its_records(tmp_path: Path, later_ms: int, segments: int) -> None:
    log = open_log(tmp_path, segment_ms=1000)
    append(log, produced(timestamps=[NOW_MS - 50, NOW_MS]))
    append(log, produced(timestamp=NOW_MS + later_ms), now_ms=NOW_MS - 10**9)
    assert len(log.segments) == segments


@pytest.mark.parametrize(("later_ms", "segments"), [(1000, 1), (1001, 2)])
def test_a_segment_without_timestamps_ends_by_the_clock(tmp_path: Path, later_ms: int, segments: int) -> None:
    log = open_log(tmp_path, segment_ms=1000)
    append(log, produced(timestamp=-1))
    append(log, produced(timestamp=-1), now_ms=NOW_MS + later_ms)
    assert len(log.segments) == segments


def test_a_segment_of_a_compacted_topic_ends_before_its_records_have_to_be_compacted(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",), segment_ms=1000, max_compaction_lag_ms=500)
    append(log, produced(timestamp=NOW_MS))
    append(log, produced(timestamp=NOW_MS + 501))
    assert len(log.segments) == 2


def test_time_does_not_end_an_empty_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_ms=1)
    append(log, now_ms=NOW_MS + 10**6)
    assert len(log.segments) == 1


def test_a_segment_ends_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_index_bytes=24, index_interval_bytes=0)
    for number in range(10):
        append(log, produced(timestamp=NOW_MS + number))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8]
    assert len(records_from(log)) == 10


def test_a_segment_ends_before_an_offset_that_its_index_cannot_hold(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    for offset in (2**31 - 1, 2**31, 2**40):
        batch = build_batch([NewRecord(value=b"v", timestamp=NOW_MS)], base_offset=offset)
        log.append_as_follower(memoryview(batch), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31, 2**40]
    assert [record.offset for record in records_from(log)] == [0, 2**31 - 1, 2**31, 2**40]


def test_an_inactive_segment_has_trimmed_indexes_and_its_last_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(3, timestamp=NOW_MS))
    assert (tmp_path / "00000000000000000000.index").stat().st_size == 10_485_760
    assert (tmp_path / "00000000000000000000.timeindex").stat().st_size == 10_485_756
    log.roll(NOW_MS)
    assert (tmp_path / "00000000000000000000.index").stat().st_size == 0
    entry = NOW_MS.to_bytes(8, "big") + (2).to_bytes(4, "big")
    assert (tmp_path / "00000000000000000000.timeindex").read_bytes() == entry


def test_index_entries_lie_an_interval_apart(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=1000)
    position, since, expected = 0, 0, []
    for number in range(50):
        batch = produced(2, value=bytes(number * 7))
        size = len(batch.data)
        if since > 1000:
            expected.append((number * 2 + 1, position))
            since = 0
        append(log, batch)
        position += size
        since += size
    log.close()
    data = (tmp_path / "00000000000000000000.index").read_bytes()
    entries = [
        (int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big"))
        for at in range(0, len(data), 8)
    ]
    assert entries == expected
    assert len(entries) > 5


# Appending as a follower


def _replicated(*batches: bytearray) -> memoryview:
    return memoryview(b"".join(batches))


def test_a_follower_keeps_offsets_epochs_and_gaps(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    record = NewRecord(value=b"v", timestamp=NOW_MS)
    first = build_batch(
        [record, record], base_offset=10, leader_epoch=2, producer_id=4, producer_epoch=0, base_sequence=0
    )
    second = build_batch([record], base_offset=20, leader_epoch=3)
    log.append_as_follower(_replicated(first, second, second[:30]), NOW_MS)
    assert log.log_end_offset == 21
    assert [record.offset for record in records_from(log)] == [10, 11, 20]
    assert tuple(log.leader_epochs.entries) == ((2, 10), (3, 20))
    assert log.producers.entries[4].last_sequence == 1


def test_a_follower_refuses_damage_and_wrong_offsets(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(5))
    record = NewRecord(value=b"v", timestamp=NOW_MS)
    damaged = build_batch([record], base_offset=5)
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(memoryview(damaged), NOW_MS)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(UnexpectedAppendOffsetError) as unexpected:
        log.append_as_follower(memoryview(build_batch([record, record], base_offset=4)), NOW_MS)
    assert (unexpected.value.first_offset, unexpected.value.last_offset) == (4, 5)
    later, earlier = build_batch([record], base_offset=9), build_batch([record], base_offset=7)
    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(_replicated(later, earlier), NOW_MS)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 5


# Truncating


def test_truncating_forgets_records_epochs_producers_and_snapshots(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=400)
    for number in range(12):
        append(log, produced(2, producer_id=8, sequence=2 * number), epoch=number // 4)
    assert len(log.segments) == 3
    log.truncate_to(7)
    assert log.log_end_offset == 7
    assert [record.offset for record in records_from(log)] == list(range(6))
    assert tuple(log.leader_epochs.entries) == ((0, 0),)
    assert log.producers.entries[8].last_sequence == 5
    assert max(log.producers.snapshot_offsets) <= 7
    assert append(log, produced(1, producer_id=8, sequence=6), epoch=5).first_offset == 7
    names = sorted(path.name for path in tmp_path.glob("*.log"))
    assert names == [f"{segment.base_offset:020d}.log" for segment in log.segments]


def test_truncating_behind_the_end_only_forgets_an_epoch_without_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(5))
    log.assign_epoch(9)
    log.truncate_to(5)
    assert log.log_end_offset == 5
    assert log.leader_epochs.latest == 0


def test_truncating_below_the_first_segment_restarts_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, start=100)
    append(log, produced(5))
    log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert [path.name for path in tmp_path.glob("*.log")] == [f"{50:020d}.log"]
    with pytest.raises(ValueError, match="-1"):
        log.truncate_to(-1)


# Flushing


def test_the_recovery_point_moves_with_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300)
    for _ in range(10):
        append(log)
    assert (log.recovery_point, log.log_end_offset - log.recovery_point) == (0, 10)
    log.flush(log.segments.active.base_offset)
    assert log.recovery_point == log.segments.active.base_offset
    log.flush()
    assert (log.recovery_point, log.log_end_offset - log.recovery_point) == (10, 0)
    assert log.flush_job() is None


def test_a_flush_that_overtakes_an_earlier_one_does_not_move_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    earlier = log.flush_job()
    append(log)
    later = log.flush_job()
    assert earlier is not None
    assert later is not None
    later.run()
    log.flushed(later)
    assert log.recovery_point == 0
    earlier.run()
    log.flushed(earlier)
    assert log.recovery_point == 2


def test_flushes_of_truncated_bytes_do_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(5))
    job = log.flush_job()
    assert job is not None
    log.truncate_to(0)
    append(log, produced(9))
    job.run()
    log.flushed(job)
    assert log.recovery_point == 0


def test_after_a_failed_flush_everything_is_synced_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    job = log.flush_job()
    assert job is not None
    later_job = log.flush_job()
    assert later_job is not None
    assert len(later_job.files) < len(job.files)
    log.flush_failed(job, OSError(5, "broken"))
    log.flushed(later_job)
    assert log.recovery_point == 0
    again = log.flush_job()
    assert again is not None
    assert len(again.files) == 3
    assert set(again.paths) == set(job.paths)
    assert again.directories


def test_a_flush_job_has_descriptors_of_its_own(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    job = log.flush_job()
    assert job is not None
    log.release()
    for file in job.files:
        assert os.fstat(file.fd).st_nlink == 1
    job.run()


# Identity


def test_the_topic_id_is_kept_and_another_id_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.topic_id is None
    log.set_topic_id(bytes(range(16)))
    log.set_topic_id(bytes(range(16)))
    with pytest.raises(KafkaError) as refused:
        log.set_topic_id(bytes(16))
    assert refused.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    log.close()
    assert open_log(tmp_path).topic_id == bytes(range(16))


def test_records_are_read_back_after_a_clean_shutdown(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=1000)
    expected = []
    for number in range(40):
        append(log, produced(value=b"%d" % number))
        expected.append(b"%d" % number)
    log.close()
    log = open_log(tmp_path, segment_bytes=1000)
    assert log.recovery_point == log.log_end_offset == 40
    assert values_from(log) == expected
    assert len(produced().data) > HEADER_SIZE
    assert append(log).first_offset == 40
