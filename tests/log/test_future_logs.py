import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log.config import LogConfig
from ottla.log.future_logs import create_future, delete_future, future_name, replace_current
from ottla.log.log import PartitionLog
from ottla.log.manager import DuplicateLogError, LogManager
from ottla.log.new_log import make_logs
from ottla.log.segments.open_files import FileRegion
from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.log.state.checkpoint import EpochEntry, write_checkpoints
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS, append, content, produced, values_from

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))


def manager_of(*directories: Path) -> LogManager:
    manager = LogManager(directories, broker_id=1, cluster_id="c")
    manager.load(NOW_MS)
    return manager


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a", tmp_path / "b"


@pytest.fixture
def manager(two: tuple[Path, Path]) -> Iterator[LogManager]:
    """A manager with a log in `a`: two leader epochs, and two producers, one of them below the log start."""
    manager = manager_of(*two)
    log = manager.get_or_create(ORDERS, TOPIC_ID, LogConfig(segment_bytes=400), NOW_MS)
    assert make_logs(manager.take_unmade()) == [None]
    log.made()
    append(log, produced(value=b"gone", producer_id=7), epoch=1)
    for value in (b"one", b"two", b"three"):
        append(log, produced(value=value * 40, producer_id=8, sequence=log.log_end_offset - 1), epoch=2)
    log.increment_log_start_offset(2)
    yield manager
    manager.abandon()


def copy(source: PartitionLog, future: PartitionLog) -> None:
    if future.log_end_offset < source.log_start_offset:
        future.truncate_fully_and_start_at(source.log_start_offset)
    while future.log_end_offset < source.log_end_offset:
        region = source.read(future.log_end_offset, 1 << 20, source.log_end_offset, True)
        future.append_as_follower(memoryview(content(region)), NOW_MS)


def test_a_future_log_replaces_the_current_log_and_keeps_all_its_state(
    manager: LogManager, two: tuple[Path, Path]
) -> None:
    old = manager.logs[ORDERS]
    old.assign_epoch(5)
    held = old.read(2, 1 << 20, 4, True, may_copy=False)
    future = create_future(manager, ORDERS, two[1], NOW_MS)
    assert [path.name.endswith("-future") for path in two[1].glob("orders-0.*")] == [True]
    copy(old, future)
    replace_current(manager, ORDERS)
    log = manager.logs[ORDERS]
    assert log is future
    assert manager.futures == {}
    assert log.directory == two[1] / "orders-0"
    assert (log.topic_id, log.config) == (TOPIC_ID, old.config)
    assert (log.log_start_offset, log.log_end_offset) == (2, 4)
    assert log.leader_epochs.entries == (EpochEntry(2, 2), EpochEntry(5, 4))
    assert set(log.producers.entries) == {7, 8}
    assert append(log, produced(producer_id=7)).is_duplicate
    # Regions of the old log stay readable; reads of the new log use the new names.
    assert isinstance(held, FileRegion)
    assert b"two" * 40 in held.read()
    for segment in log.segments:
        segment.release()
    append(log, produced(value=b"new"), epoch=6)
    log.segments.active.transactions.append(AbortedTransaction(8, 4, 4, 4))
    assert len(list(log.directory.glob("*.txnindex"))) == 1
    job = log.flush_job()
    assert job is not None
    assert {path.name for path in job.paths} >= {"partition.metadata", "leader-epoch-checkpoint"}
    assert all(path.exists() for path in job.paths)
    assert values_from(log, 2)[-1] == b"new"
    assert not list(two[0].glob("orders-0"))
    assert len(list(two[0].glob("orders-0.*-delete"))) == 1
    manager.shutdown()
    again = manager_of(*two)
    assert again.logs[ORDERS].directory == two[1] / "orders-0"
    assert (again.logs[ORDERS].log_start_offset, again.logs[ORDERS].log_end_offset) == (2, 5)
    assert again.logs[ORDERS].leader_epochs.latest == 6
    assert set(again.logs[ORDERS].producers.entries) == {7, 8}
    again.abandon()


@pytest.mark.parametrize("clean", [True, False])
def test_a_future_log_is_found_by_the_next_start_and_goes_on(
    manager: LogManager, two: tuple[Path, Path], clean: bool
) -> None:
    future = create_future(manager, ORDERS, two[1], NOW_MS)
    copy(manager.logs[ORDERS], future)
    future.flush()
    write_checkpoints(manager.recovery_points())
    if clean:
        manager.shutdown()
    else:
        manager.abandon()
    again = manager_of(*two)
    assert again.logs[ORDERS].directory == two[0] / "orders-0"
    assert again.futures[ORDERS].directory == future.directory
    assert again.futures[ORDERS].log_end_offset == 4
    replace_current(again, ORDERS)
    assert again.logs[ORDERS].directory == two[1] / "orders-0"
    again.abandon()


@pytest.mark.parametrize("renamings", range(3))
def test_a_crash_at_any_point_leaves_one_log_with_all_records(
    manager: LogManager, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, renamings: int
) -> None:
    future = create_future(manager, ORDERS, two[1], NOW_MS)
    copy(manager.logs[ORDERS], future)
    future.flush()
    write_checkpoints(manager.log_start_offsets())
    rename = Path.rename
    done: list[Path] = []

    def crashing(path: Path, target: Path) -> Path:
        if len(done) == renamings:
            raise SystemExit
        done.append(path)
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", crashing)
        if renamings < 2:
            with pytest.raises(SystemExit):
                replace_current(manager, ORDERS)
        else:
            replace_current(manager, ORDERS)
    manager.abandon()
    again = manager_of(*two)
    assert set(again.logs) == {ORDERS}
    assert set(again.futures) == (set() if renamings else {ORDERS})
    assert values_from(again.logs[ORDERS], 2) == [b"two" * 40, b"three" * 40]
    again.abandon()


@pytest.mark.parametrize("failing", [0, 1])
def test_a_directory_that_cannot_be_renamed_fails_and_leaves_the_current_log(
    manager: LogManager, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    future = create_future(manager, ORDERS, two[1], NOW_MS)
    old = manager.logs[ORDERS]
    copy(old, future)
    rename = Path.rename

    def broken(path: Path, target: Path) -> Path:
        if path.parent == two[failing]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", broken)
        with pytest.raises(KafkaError) as refused:
            replace_current(manager, ORDERS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.failures.offline == {two[failing]}
    assert manager.logs[ORDERS] is old
    append(old, produced(value=b"on"), epoch=2)
    assert (two[0] / "orders-0").exists()


def test_a_lost_log_is_not_replaced_while_it_may_be_in_a_failed_directory(
    manager: LogManager, two: tuple[Path, Path]
) -> None:
    create_future(manager, ORDERS, two[1], NOW_MS)
    manager.shutdown()
    shutil.rmtree(two[0])
    two[0].write_text("not a directory")
    again = manager_of(*two)
    assert (set(again.logs), set(again.futures)) == (set(), {ORDERS})
    again.abandon()


def test_no_future_log_is_made_while_a_directory_is_offline(manager: LogManager, two: tuple[Path, Path]) -> None:
    manager.failures.failed(two[1], OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaError, match="are offline"):
        create_future(manager, ORDERS, two[0], NOW_MS)


def test_an_unfinished_future_log_does_not_become_the_log(manager: LogManager, two: tuple[Path, Path]) -> None:
    create_future(manager, ORDERS, two[1], NOW_MS)
    manager.shutdown()
    again = manager_of(two[1])
    assert (set(again.logs), set(again.futures)) == (set(), {ORDERS})
    again.abandon()


def test_a_deleted_future_log_gets_the_name_of_a_deleted_log(manager: LogManager, two: tuple[Path, Path]) -> None:
    future = create_future(manager, ORDERS, two[1], NOW_MS)
    renaming = delete_future(manager, ORDERS)
    assert renaming is not None
    assert (renaming.old, renaming.new.suffix.endswith("-delete")) == (future.directory, True)
    assert delete_future(manager, ORDERS) is None


def test_two_future_logs_of_a_partition_are_refused(manager: LogManager, two: tuple[Path, Path]) -> None:
    for directory in two:
        (directory / future_name(ORDERS)).mkdir()
    manager.abandon()
    with pytest.raises(DuplicateLogError, match="manually deleting one of the two"):
        manager_of(*two)


def test_a_topic_name_too_long_for_a_future_log_is_refused() -> None:
    longest = 255 - len("-0.-future") - 32
    assert len(future_name(TopicPartition("t" * longest, 0))) == 255
    with pytest.raises(KafkaError, match="too long"):
        future_name(TopicPartition("t" * (longest + 1), 0))
