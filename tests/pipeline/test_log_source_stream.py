"""A stream takes every record once, in its turn, and tells of those that are gone."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import PartitionLog
from ottla.log.recovery.recovery import LoadOptions
from ottla.log.removal import delete_old_segments
from ottla.log.segments.open_files import OpenFiles
from ottla.log.state.checkpoint import LOG_START_OFFSET_FILE, write_offsets
from ottla.log.state.meta_properties import DirectoryLocks
from ottla.pipeline.log_source_directories import UnreadableLogError
from ottla.pipeline.log_source_options import Offsets
from ottla.pipeline.log_source_stream import LogStream
from ottla.wire.records.batch import ControlType
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS
from tests.pipeline.log_tables import checkpoint, end_transaction, read_slices, stream_options, values, write

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Directory:
    """A log directory that a broker has open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._locks = DirectoryLocks([path])

    def add(self, topic_partition: TopicPartition, *new: bytes, checkpointed: bool = True) -> PartitionLog:
        """Append records, each in a batch of its own."""
        if topic_partition not in self.logs:
            folder = self.path / str(topic_partition)
            folder.mkdir(exist_ok=True)
            load = LoadOptions(LogConfig(retention_bytes=0), NOW_MS, log_start_offset=0, recovery_point=0, clean=True)
            self.logs[topic_partition] = PartitionLog(topic_partition, folder, OpenFiles(8), load)
        for value in new:
            write(self.logs[topic_partition], value)
        if checkpointed:
            self.commit()
        return self.logs[topic_partition]

    def commit(self) -> None:
        """Have all that there is be committed."""
        checkpoint(self.path, {each: log.log_end_offset for each, log in self.logs.items()})

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a partition."""
        self.logs.pop(topic_partition).release()
        shutil.rmtree(self.path / str(topic_partition))

    def close(self) -> None:
        for log in self.logs.values():
            log.release()
        self._locks.release()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    made = Directory(tmp_path)
    yield made
    made.close()


class Query:
    """What Spark does with a stream, which it asks anew after each batch."""

    def __init__(self, directory: Directory, **asked: str) -> None:
        self._options = stream_options(directory.path, **asked)
        self._stream = LogStream(self._options)
        self.offsets: Offsets = self._stream.initial()

    def batch(self, most: int | None = None) -> list[bytes | None]:
        """Take a batch in."""
        latest = self._stream.latest(self.offsets, most)
        slices = self._stream.slices(self.offsets, latest)
        self.offsets = latest
        return values(read_slices(slices, self._options))

    def only_what_is_there(self) -> "Query":
        """Take no more than that."""
        self._stream.stop_at_what_is_there()
        return self

    def restart(self, directory: Directory, **asked: str) -> "Query":
        """Go on in another process, which knows nothing but the offsets."""
        again = type(self)(directory, **asked)
        again.offsets = self.offsets
        return again


class UntoldQuery(Query):
    """What Spark did before 4.2: the stream is to know where it is."""

    def batch(self, most: int | None = None) -> list[bytes | None]:
        latest = self._stream.latest({}, most)
        slices = self._stream.slices(self.offsets, latest)
        self.offsets = latest
        return values(read_slices(slices, self._options))


def test_each_batch_has_what_came_since_the_last_one(directory: Directory) -> None:
    log = directory.add(ZERO, b"0", b"1")
    query = Query(directory)
    assert query.batch() == [b"0", b"1"]
    assert query.batch() == []
    directory.add(ZERO, b"2", checkpointed=False)
    assert query.batch() == []  # not committed, for all that is known
    directory.commit()
    assert query.batch() == [b"2"]
    for value in (b"3", b"4", b"5"):
        log.roll(NOW_MS)
        directory.add(ZERO, value)
    directory.add(ONE, b"new partition")
    assert query.batch() == [b"3", b"4", b"5", b"new partition"]
    assert query.offsets == {ZERO: 6, ONE: 1}


def test_a_stream_begins_with_what_comes_unless_it_is_told_otherwise(directory: Directory) -> None:
    directory.add(ZERO, b"0", b"1")
    latest = Query(directory, startingOffsets="latest")
    named = Query(directory, startingOffsets='{"orders": {"0": 1}}')
    directory.add(ZERO, b"2")
    assert latest.batch() == [b"2"]
    assert named.batch() == [b"1", b"2"]


def test_records_of_transactions_come_when_these_are_decided(directory: Directory) -> None:
    log = directory.add(ZERO, b"0")
    query = Query(directory)
    write(log, b"aborted", producer=1)
    write(log, b"committed", producer=2)
    directory.add(ZERO, b"1")
    assert query.batch() == [b"0"]
    end_transaction(log, 1, ControlType.ABORT)
    directory.commit()
    assert query.batch() == []  # what is before the other one has no record that counts
    again = query.restart(directory)
    end_transaction(log, 2, ControlType.COMMIT)
    directory.commit()
    assert query.batch() == again.batch() == [b"committed", b"1"]


def test_a_batch_is_no_larger_than_asked_and_every_partition_has_its_share(directory: Directory) -> None:
    directory.add(ZERO, *(b"a%d" % number for number in range(8)))
    directory.add(ONE, *(b"b%d" % number for number in range(4)))
    query = Query(directory)
    assert query.batch(6) == [b"a0", b"a1", b"a2", b"a3", b"b0", b"b1"]
    assert query.batch(1) == [b"a4", b"b2"]  # none starves
    assert query.batch(100) == [b"a5", b"a6", b"a7", b"b3"]


def test_a_query_that_is_to_end_takes_nothing_that_comes_later(directory: Directory) -> None:
    directory.add(ZERO, b"0", b"1", b"2")
    query = Query(directory).only_what_is_there()
    assert query.batch(2) == [b"0", b"1"]
    directory.add(ZERO, b"3")
    directory.add(ONE, b"later")
    assert query.batch(2) == [b"2"]
    assert query.batch(2) == []
    assert query.offsets == {ZERO: 3}
    assert query.restart(directory).batch() == [b"3", b"later"]


def test_a_broker_that_has_not_written_down_how_far_it_is_makes_a_stream_wait(directory: Directory) -> None:
    directory.add(ZERO, b"0")
    query = Query(directory)
    assert query.batch() == [b"0"]
    directory.add(ONE, b"1", checkpointed=False)
    checkpoint(directory.path, {})
    assert query.batch() == []
    assert query.offsets == {ZERO: 1}


def test_a_stream_waits_for_the_high_watermark_of_a_partition_that_moved(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    old, new = Directory(tmp_path / "a"), Directory(tmp_path / "b")
    log = old.add(ZERO, b"0", b"1", b"2")
    query = Query(old, path=f"{old.path},{new.path}")
    assert query.batch() == [b"0", b"1", b"2"]
    checkpoint(new.path, {ZERO: 1})  # that of the copy, some seconds ago
    log.release()
    (old.path / str(ZERO)).rename(new.path / str(ZERO))
    checkpoint(old.path, {})
    assert query.batch() == []
    assert query.offsets == {ZERO: 3}
    new.add(ZERO, b"3")
    assert query.batch() == [b"3"]
    new.delete(ZERO)
    old.logs.clear()
    old.add(ZERO, b"of another topic")
    with pytest.raises(UnreadableLogError, match="orders-0 ends at 1, and was read up to 4"):
        query.batch()
    old.close()
    new.close()


def test_a_stream_that_is_not_told_where_it_is_keeps_its_partitions(directory: Directory) -> None:
    """As those of Spark before 4.2 are not."""
    directory.add(ZERO, b"0")
    directory.add(ONE, b"1")
    query = UntoldQuery(directory)
    assert query.batch() == [b"0", b"1"]
    checkpoint(directory.path, {ZERO: 1})  # it may take a while until that of a partition that came here is there
    assert query.batch() == []
    with pytest.raises(UnreadableLogError, match="The log of orders-1 is gone"):
        query.restart(directory).batch()
    directory.commit()
    assert query.batch() == []
    directory.delete(ONE)
    with pytest.raises(UnreadableLogError, match="The log of orders-1 is gone"):
        query.batch()


def test_records_that_were_deleted_before_they_were_read_are_told_of(directory: Directory) -> None:
    log = directory.add(ZERO, b"0", b"1", b"2")
    query = Query(directory)
    assert query.batch(1) == [b"0"]
    log.roll(NOW_MS)
    directory.add(ZERO, b"3")
    delete_old_segments(log, 3, NOW_MS)
    with pytest.raises(UnreadableLogError, match=r"orders-0 begins at 3, and was read up to 1\."):
        query.restart(directory).batch()
    assert query.restart(directory, failOnDataLoss="false").batch() == [b"3"]
    write_offsets(directory.path / LOG_START_OFFSET_FILE, {ZERO: 4})
    assert query.restart(directory, failOnDataLoss="false").batch() == []


def test_a_topic_that_is_deleted_or_made_anew_is_told_of(directory: Directory) -> None:
    directory.add(ZERO, b"0", b"1")
    directory.add(ONE, b"2")
    query = Query(directory)
    assert query.batch() == [b"0", b"1", b"2"]
    directory.delete(ONE)
    with pytest.raises(UnreadableLogError, match="The log of orders-1 is gone"):
        query.restart(directory).batch()
    directory.add(ONE)
    with pytest.raises(UnreadableLogError, match="orders-1 ends at 0, and was read up to 1"):
        query.restart(directory).batch()
    going_on = query.restart(directory, failOnDataLoss="false")
    assert going_on.batch() == []
    directory.add(ONE, b"3")
    assert going_on.batch() == [b"3"]
    directory.delete(ZERO)
    directory.delete(ONE)
    with pytest.raises(UnreadableLogError, match=r"There is no log of orders in .* With failOnDataLoss=false what"):
        query.restart(directory).batch()
    assert going_on.batch() == []
    directory.add(ZERO, b"4")
    assert going_on.batch() == [b"4"]
