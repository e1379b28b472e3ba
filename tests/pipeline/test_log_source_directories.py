"""Which records of a log directory may be read, by what stands beside its logs."""

import re
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from zlib import crc32

import pytest

from ottla.log.log import PartitionLog
from ottla.log.state.checkpoint import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, write_clean_shutdown, write_offsets
from ottla.log.state.meta_properties import DirectoryLocks, is_locked
from ottla.pipeline import log_source_directories
from ottla.pipeline.log_source_directories import Logs, UnreadableLogError
from ottla.wire.records.batch import ControlType
from ottla.wire.records.batch_header import MAGIC_POSITION
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS, TOPIC_PARTITION, open_log
from tests.pipeline.log_tables import checkpoint, end_transaction, options, plan, read, values, write


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


@pytest.fixture
def log(directory: Path) -> Iterator[PartitionLog]:
    """A log whose broker runs, by all that can be seen from beside it."""
    locks = DirectoryLocks([directory])
    made = open_log(directory / str(TOPIC_PARTITION), index_interval_bytes=200)
    yield made
    made.release()
    locks.release()


def fill(log: PartitionLog, count: int, every: int = 1000) -> None:
    """Values 0, 1, ..., each in a batch of its own, in segments of `every`."""
    for number in range(count):
        if number and number % every == 0:
            log.roll(NOW_MS)
        write(log, b"%d" % number)


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def test_nothing_from_the_high_watermark_on_is_read(directory: Path, log: PartitionLog) -> None:
    fill(log, 9, every=4)
    checkpoint(directory, 7)
    assert values(read(directory)) == numbers(0, 7)
    assert [(each.start, each.end) for each in plan(directory)] == [(0, 4), (4, 7)]


def test_of_a_partition_that_a_running_broker_has_told_nothing_of_nothing_is_read(
    directory: Path, log: PartitionLog
) -> None:
    fill(log, 9)
    assert read(directory) == []
    checkpoint(directory, {})
    assert read(directory) == []
    assert not Logs(options(directory)).ranges()[TOPIC_PARTITION].is_known


def test_a_directory_that_was_left_cleanly_is_read_to_its_end_where_no_high_watermark_is_known(directory: Path) -> None:
    log = open_log(directory / str(TOPIC_PARTITION))
    fill(log, 9)
    log.close()
    checkpoint(directory, {})
    assert read(directory) == []  # it may have crashed
    write_clean_shutdown(directory)
    assert values(read(directory)) == numbers(0, 9)
    checkpoint(directory, 5)
    assert values(read(directory)) == numbers(0, 5)  # a replica that stopped before it knew that the rest is committed


def test_a_log_that_was_copied_without_its_checkpoints_is_read_to_its_last_whole_batch(directory: Path) -> None:
    log = open_log(directory / str(TOPIC_PARTITION))
    fill(log, 9)
    log.release()
    path = directory / str(TOPIC_PARTITION) / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    assert values(read(directory)) == numbers(0, 8)


def test_records_that_were_deleted_but_share_a_segment_with_others_are_not_read(
    directory: Path, log: PartitionLog
) -> None:
    fill(log, 9)
    checkpoint(directory, 9)
    write_offsets(directory / LOG_START_OFFSET_FILE, {TOPIC_PARTITION: 3})
    assert values(read(directory)) == numbers(3, 9)


def test_a_log_that_ends_before_its_high_watermark_is_told_of(directory: Path, log: PartitionLog) -> None:
    fill(log, 3)
    checkpoint(directory, 4)
    path = directory / str(TOPIC_PARTITION) / f"{0:020d}.log"
    line = f"{path}: the last whole batch ends at position {path.stat().st_size} with offset 2, and the high watermark"
    with pytest.raises(UnreadableLogError, match=re.escape(line)):
        read(directory)
    assert values(read(directory, mode="PERMISSIVE")) == numbers(0, 3)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("high_watermark", [None, 5])
def test_old_message_formats_are_refused(tmp_path: Path, magic: int, high_watermark: int | None) -> None:
    log = open_log(tmp_path / str(TOPIC_PARTITION))
    fill(log, 3)
    log.release()
    path = log.directory / f"{0:020d}.log"
    position = path.stat().st_size
    body = bytes([magic, 0, *bytes(8 * magic)]) + pack(">ii5s", -1, 5, b"value")
    message = pack(">qiI", 3, 4 + len(body), crc32(body)) + body
    path.write_bytes(path.read_bytes() + message * 5)
    if high_watermark is not None:
        checkpoint(tmp_path, high_watermark)
    with pytest.raises(UnreadableLogError, match=f"{path}: position {position}: a batch of the message format {magic}"):
        read(tmp_path)
    assert values(read(tmp_path, mode="PERMISSIVE")) == numbers(0, 3)


def test_a_checkpoint_that_cannot_be_read_is_told_of(directory: Path, log: PartitionLog) -> None:
    fill(log, 1)
    (directory / HIGH_WATERMARK_FILE).write_text("0\n1\nnonsense\n")
    with pytest.raises(UnreadableLogError, match=r"Malformed line in .*replication-offset-checkpoint: 'nonsense'"):
        read(directory)


def test_records_behind_an_open_transaction_wait_for_its_end(directory: Path, log: PartitionLog) -> None:
    write(log, b"0")
    write(log, b"1", producer=7)
    write(log, b"2")
    checkpoint(directory, 3)
    assert values(read(directory)) == [b"0"]
    assert values(read(directory, isolation="read_uncommitted")) == [b"0", b"1", b"2"]
    log.roll(NOW_MS)  # from here on a snapshot tells of it
    end_transaction(log, 7, ControlType.COMMIT)
    checkpoint(directory, 3)
    assert values(read(directory)) == [b"0"]
    checkpoint(directory, 4)
    assert values(read(directory)) == [b"0", b"1", b"2"]


def test_damage_that_may_hide_the_end_of_a_transaction_is_told_of(directory: Path, log: PartitionLog) -> None:
    write(log, b"0", producer=7)
    path = directory / str(TOPIC_PARTITION) / f"{0:020d}.log"
    position = path.stat().st_size
    write(log, b"1")
    end_transaction(log, 7, ControlType.COMMIT)
    fill(log, 9)
    log.flush()
    checkpoint(directory, 12)
    assert values(read(directory)) == [b"0", b"1", *numbers(0, 9)]
    data = bytearray(path.read_bytes())
    data[position + MAGIC_POSITION] = 1
    path.write_bytes(data)
    with pytest.raises(UnreadableLogError, match=re.escape(f"{path}: position {position}: Invalid magic")):
        read(directory)
    end_transaction(log, 7, ControlType.COMMIT)
    checkpoint(directory, 13)
    found = values(read(directory, mode="PERMISSIVE"))
    assert found[:1] + found[-5:] == [b"0", *numbers(4, 9)]


def test_offsets_that_are_named_bound_what_is_read(directory: Path, log: PartitionLog) -> None:
    fill(log, 9, every=4)
    checkpoint(directory, 9)
    between = {"startingOffsets": '{"orders": {"3": 3}}', "endingOffsets": '{"orders": {"3": 8}}'}
    assert values(read(directory, **between)) == numbers(3, 8)
    ends = {"startingOffsets": '{"orders": {"3": -2}}', "endingOffsets": '{"orders": {"3": -1}}'}
    assert values(read(directory, **ends)) == numbers(0, 9)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"startingOffsets": '{"orders": {"3": 1}}'}, "orders-3 can be read from 2 to 5, and not from 1 on"),
        ({"startingOffsets": '{"orders": {"3": 6}}'}, "orders-3 can be read from 2 to 5, and not from 6 on"),
        ({"endingOffsets": '{"orders": {"3": 6}}'}, "orders-3 can be read up to 5, and not up to 6"),
    ],
)
def test_offsets_that_are_not_there_are_told_of_unless_that_is_all_right(
    directory: Path, log: PartitionLog, asked: dict[str, str], line: str
) -> None:
    fill(log, 9)
    checkpoint(directory, 5)
    write_offsets(directory / LOG_START_OFFSET_FILE, {TOPIC_PARTITION: 2})
    with pytest.raises(UnreadableLogError, match=line):
        read(directory, **asked)
    there = numbers(2, 5) if "6" not in str(asked.get("startingOffsets")) else []
    assert values(read(directory, failOnDataLoss="false", **asked)) == there


def test_what_is_named_has_to_be_there(directory: Path, log: PartitionLog) -> None:
    fill(log, 1)
    checkpoint(directory, 1)
    with pytest.raises(UnreadableLogError, match=re.escape(f"There is no log of other in {directory}")):
        read(directory, subscribe="orders,other")
    with pytest.raises(UnreadableLogError, match="There is no log of orders-4 in"):
        read(directory, assign='{"orders": [3, 4]}')
    with pytest.raises(UnreadableLogError, match="startingOffsets names orders-4, and the partitions are orders-3"):
        read(directory, startingOffsets='{"orders": {"4": 0}}')
    with pytest.raises(UnreadableLogError, match="nowhere cannot be read: No such file"):
        read(directory, path=str(directory / "nowhere"))
    assert read(directory, subscribePattern="nothing.*") == []


def test_directories_that_are_no_logs_are_passed_over(directory: Path, log: PartitionLog) -> None:
    fill(log, 1)
    checkpoint(directory, 1)
    for name in ("orders-4.0123-delete", "orders-5.0123-future", "orders-x", "orders", "-7"):
        (directory / name).mkdir()
    (directory / "orders-6").touch()
    (directory / "orders-8").mkdir()  # of which the files are still to be made
    found = Logs(options(directory)).ranges()
    assert {each: found[each].end for each in found} == {TOPIC_PARTITION: 1, TopicPartition("orders", 8): 0}


def test_of_several_replicas_the_one_is_read_that_goes_furthest(tmp_path: Path) -> None:
    for name, count in (("a", 4), ("b", 6), ("c", 5)):
        (tmp_path / name).mkdir()
        log = open_log(tmp_path / name / str(TOPIC_PARTITION))
        fill(log, count)
        log.close()
    paths = ",".join(str(tmp_path / name) for name in "abc")
    assert values(read(tmp_path, path=paths)) == numbers(0, 6)


def test_a_replica_that_went_its_own_way_is_read_as_far_as_it_is_committed(tmp_path: Path) -> None:
    for name, high_watermark, count in (("a", 5, 9), ("b", 7, 7)):
        (tmp_path / name).mkdir()
        log = open_log(tmp_path / name / str(TOPIC_PARTITION))
        for number in range(count):
            write(log, b"%d" % number if number < 5 else b"%d of %s" % (number, name.encode()))
        log.release()
        checkpoint(tmp_path / name, high_watermark)
    found = values(read(tmp_path, path=f"{tmp_path}/a,{tmp_path}/b"))
    assert found == [*numbers(0, 5), b"5 of b", b"6 of b"]


def test_a_partition_that_moves_between_directories_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    log = open_log(tmp_path / "b" / str(TOPIC_PARTITION))
    other = open_log(tmp_path / "b" / "orders-4")
    fill(log, 4)
    log.release()
    other.release()
    checkpoint(tmp_path / "a", {TopicPartition("orders", 5): 7})
    checkpoint(tmp_path / "b", {TOPIC_PARTITION: 3, TopicPartition("orders", 4): 0})

    def move_before_it_is_asked_for(path: Path) -> bool:
        moved = tmp_path / "a" / str(TOPIC_PARTITION)
        if path.name == "b" and log.directory.exists():
            log.directory.rename(moved)
        return is_locked(path)

    monkeypatch.setattr(log_source_directories, "is_locked", move_before_it_is_asked_for)
    # How far it is committed the new directory does not tell yet.
    assert values(read(tmp_path, path=f"{tmp_path}/a,{tmp_path}/b")) == numbers(0, 3)


def test_a_large_segment_is_shared_by_tasks(
    directory: Path, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 200, every=100)
    checkpoint(directory, 190)
    assert len(plan(directory)) == 2
    monkeypatch.setattr(log_source_directories, "SLICE_BYTES", 1500)
    slices = plan(directory)
    assert len(slices) == 6  # entries of the active segment may still be in memory
    assert [each.start for each in slices[1:]] == [each.end for each in slices[:-1]]
    assert values(read(directory)) == numbers(0, 190)


def test_an_index_that_is_wrong_or_missing_costs_no_records(
    directory: Path, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 100)
    log.flush()
    checkpoint(directory, 100)
    monkeypatch.setattr(log_source_directories, "SLICE_BYTES", 1500)
    index = directory / str(TOPIC_PARTITION) / f"{0:020d}.index"
    for position in range(0, len(index.read_bytes().rstrip(b"\0")), 11):
        data = bytearray(index.read_bytes())
        data[position] ^= 1
        kept = index.read_bytes()
        index.write_bytes(data)
        assert values(read(directory, startingOffsets='{"orders": {"3": 30}}')) == numbers(30, 100)
        index.write_bytes(kept)
    index.unlink()
    assert values(read(directory)) == numbers(0, 100)


def test_reading_leaves_no_trace_and_no_lock(directory: Path) -> None:
    log = open_log(directory / str(TOPIC_PARTITION))
    fill(log, 9, every=4)
    log.close()
    (directory / ".lock").touch()
    checkpoint(directory, 9)

    def state() -> dict[Path, tuple[int, int]]:
        files = [directory, *directory.rglob("*")]
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}

    before = state()
    assert len(read(directory)) == 9
    assert state() == before
    open_files = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
    assert not [path for path in open_files if path.is_relative_to(directory.resolve())]
