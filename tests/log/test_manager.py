import subprocess
import sys
from pathlib import Path

import pytest

from ottla.log.config import LogConfig
from ottla.log.manager import (
    DuplicateLogError,
    LogManager,
    parse_directory_name,
    remove_directories,
    rename_directories,
)
from ottla.log.new_log import make_logs
from ottla.log.state.checkpoint import HIGH_WATERMARK_FILE, write_checkpoints, write_offsets
from ottla.log.state.meta_properties import (
    DirectoryInUse,
    DirectoryLocks,
    InconsistentMetaPropertiesError,
    is_locked,
    read_meta_properties,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS, append, content, produced, values_from

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))


def _manager(*directories: Path, load: bool = True, broker_id: int = 1, cluster_id: str = "c") -> LogManager:
    manager = LogManager(directories, broker_id=broker_id, cluster_id=cluster_id)
    if load:
        manager.load(NOW_MS)
    return manager


def _create(manager: LogManager, topic_partition: TopicPartition = ORDERS) -> None:
    log = manager.get_or_create(topic_partition, TOPIC_ID, LogConfig(), NOW_MS)
    assert make_logs(manager.take_unmade()) == [None]
    log.made()


def _delete(manager: LogManager, topic_partition: TopicPartition) -> None:
    renaming = manager.delete(topic_partition)
    assert renaming is not None
    assert rename_directories([renaming]) == [None]
    manager.renamed(renaming)


def test_a_directory_in_use_is_refused_in_this_process_and_in_another(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    with pytest.raises(DirectoryInUse, match=str(tmp_path)):
        _manager(tmp_path)
    imports = "import sys; from pathlib import Path; from ottla.log.state.meta_properties import DirectoryLocks"
    code = f"{imports}; DirectoryLocks([Path(sys.argv[1])])"
    other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert "DirectoryInUse" in other.stderr
    manager.shutdown()
    DirectoryLocks([tmp_path]).release()


def test_the_lock_excludes_kafkas_lock(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", code, str(tmp_path / ".lock")]
    assert "BlockingIOError" in subprocess.run(command, capture_output=True, text=True).stderr
    manager.abandon()
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_is_locked_takes_no_lock(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    assert list(tmp_path.iterdir()) == []
    manager = _manager(tmp_path)
    assert is_locked(tmp_path)
    manager.abandon()
    assert not is_locked(tmp_path)
    code = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as as_kafka_does:
        assert as_kafka_does.stdout is not None
        as_kafka_does.stdout.readline()
        assert is_locked(tmp_path)
        as_kafka_does.communicate("\n")


def test_a_refused_directory_leaves_no_lock_on_the_others(tmp_path: Path) -> None:
    holder = DirectoryLocks([tmp_path / "b"])
    with pytest.raises(DirectoryInUse):
        DirectoryLocks([tmp_path / "a", tmp_path / "b"])
    DirectoryLocks([tmp_path / "a"]).release()
    holder.release()


def test_meta_properties_have_kafkas_form_of_zookeeper_mode(tmp_path: Path) -> None:
    _manager(tmp_path, broker_id=7, cluster_id="Some-Cluster_id22charsX").shutdown()
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "version=0", "broker.id=7", "cluster.id=Some-Cluster_id22charsX",
    ]  # fmt: skip
    assert read_meta_properties(tmp_path) == {
        "version": "0", "broker.id": "7", "cluster.id": "Some-Cluster_id22charsX",
    }  # fmt: skip
    assert read_meta_properties(tmp_path / "elsewhere") is None


def test_meta_properties_of_kafka_are_read_and_kept(tmp_path: Path) -> None:
    text = "#\n#Tue Nov 18 13:00:00 UTC 2025\ncluster.id=a\\:b\ndirectory.id=u_xyz\nversion=0\nbroker.id=1\n"
    (tmp_path / "meta.properties").write_text(text)
    _manager(tmp_path, cluster_id="a:b").shutdown()
    assert (tmp_path / "meta.properties").read_text() == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "version=0\nbroker.id=2\ncluster.id=c\n",
            "Stored node id 2 doesn't match previous node id 1 in {file}. If you moved your data, make sure your "
            "configured node id matches. If you intend to create a new node, you should remove all data in your data "
            "directories.",
        ),
        ("version=0\nbroker.id=1\ncluster.id=d\n", "Invalid cluster.id in: {file}. Expected c, but read d"),
        (
            "version=1\nnode.id=1\ncluster.id=c\n",
            "Found unexpected version in {file}. ZK-based brokers that are not migrating only support version 0 (which "
            "is implicit when the `version` field is missing).",
        ),
    ],
)
def test_a_directory_of_another_broker_is_refused_in_kafkas_words_and_no_directory_changes(
    tmp_path: Path, text: str, fault: str
) -> None:
    new, strange = tmp_path / "new", tmp_path / "strange"
    strange.mkdir()
    (strange / "meta.properties").write_text(text)
    with pytest.raises(InconsistentMetaPropertiesError) as caught:
        _manager(new, strange)
    assert str(caught.value) == fault.format(file=strange / "meta.properties")
    assert (strange / "meta.properties").read_text() == text
    assert not (new / "meta.properties").exists()
    DirectoryLocks([new, strange]).release()


def test_logs_are_loaded_after_a_clean_shutdown(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    _create(manager)
    append(manager.logs[ORDERS], produced(3), epoch=2)
    manager.shutdown()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 3\n"
    manager = _manager(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log = manager.get(ORDERS)
    assert log is not None
    assert (log.log_end_offset, log.recovery_point, log.topic_id) == (3, 3, TOPIC_ID)
    assert manager.get(TopicPartition("orders", 1)) is None
    manager.shutdown()


def test_without_the_marker_logs_are_recovered_from_their_recovery_points(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    _create(manager)
    log = manager.logs[ORDERS]
    append(log, produced(3))
    log.flush()
    write_checkpoints(manager.recovery_points())
    append(log, produced(2))
    manager.abandon()
    with open(tmp_path / "orders-0" / f"{0:020d}.log", "ab") as file:
        file.write(b"torn")
    manager = _manager(tmp_path)
    assert (manager.logs[ORDERS].log_end_offset, manager.logs[ORDERS].recovery_point) == (5, 3)
    manager.shutdown()


@pytest.mark.parametrize(("is_noted", "end"), [(True, 4), (False, 1)])
def test_a_compacted_log_keeps_all_segments_behind_an_empty_one(tmp_path: Path, is_noted: bool, end: int) -> None:
    manager = _manager(tmp_path)
    log = manager.get_or_create(ORDERS, TOPIC_ID, LogConfig(segment_bytes=80), NOW_MS)
    for number in range(4):
        append(log, produced(value=b"%d" % number))
    manager.abandon()
    (tmp_path / "orders-0" / f"{1:020d}.log").write_bytes(b"")
    if is_noted:
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    manager = _manager(tmp_path)
    assert manager.logs[ORDERS].log_end_offset == end
    manager.abandon()


def test_a_new_log_goes_into_the_directory_with_the_fewest_logs(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in "abc"]
    manager = _manager(*directories)
    for partition in range(6):
        _create(manager, TopicPartition("t", partition))
    assert [sum(path.is_dir() for path in directory.iterdir()) for directory in directories] == [2, 2, 2]
    _delete(manager, TopicPartition("t", 1))
    _create(manager, TopicPartition("u", 0))
    assert (tmp_path / "b" / "u-0").exists()
    manager.shutdown()
    manager = _manager(*directories)
    assert len(manager.logs) == 6
    manager.shutdown()


def test_make_logs_and_a_first_append_create_the_same_files(tmp_path: Path) -> None:
    other = TopicPartition("orders", 1)
    manager = _manager(tmp_path)
    for partition in (ORDERS, other):
        manager.get_or_create(partition, TOPIC_ID, LogConfig(), leader_epoch=3)
    first, second = manager.take_unmade()
    assert manager.take_unmade() == []
    assert (first.topic_partition, second.topic_partition) == (ORDERS, other)
    assert make_logs([second]) == [None]
    manager.logs[other].made()
    epochs = tmp_path / "orders-1" / "leader-epoch-checkpoint"
    assert epochs.read_bytes() == b"0\n1\n3 0\n"
    written = epochs.stat().st_ino
    for log in manager.logs.values():
        log.assign_epoch(3)
        append(log, produced(1), epoch=3)
    assert epochs.stat().st_ino == written
    before, by_itself = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("orders-1", "orders-0")
    )
    assert before == by_itself
    assert len(before) == 5
    manager.shutdown()


def test_a_new_log_without_records_is_found_by_the_next_start(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    manager.get_or_create(ORDERS, TOPIC_ID, LogConfig())
    assert not (tmp_path / "orders-0").exists()
    manager.shutdown()
    manager = _manager(tmp_path)
    assert manager.logs[ORDERS].topic_id == TOPIC_ID
    manager.shutdown()


def test_a_log_refuses_appends_until_its_files_can_be_made(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    log = manager.get_or_create(ORDERS, TOPIC_ID, LogConfig())
    (tmp_path / "orders-0").write_text("in the way")
    (error,) = make_logs(manager.take_unmade())
    assert isinstance(error, NotADirectoryError)
    with pytest.raises(KafkaError) as refused:
        append(log, produced(1))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    (tmp_path / "orders-0").unlink()
    append(log, produced(1))
    assert log.log_end_offset == 1
    manager.shutdown()


def test_an_existing_log_is_returned_and_another_topic_id_refused(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    _create(manager)
    assert manager.get_or_create(ORDERS, TOPIC_ID, LogConfig()) is manager.logs[ORDERS]
    assert manager.get_or_create(ORDERS, None, LogConfig()) is manager.logs[ORDERS]
    with pytest.raises(KafkaError) as refused:
        manager.get_or_create(ORDERS, bytes(16), LogConfig())
    assert refused.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    manager.shutdown()


def test_a_deleted_log_is_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    name = TopicPartition("x" * 249, 12)
    for topic_partition in (ORDERS, name):
        _create(manager, topic_partition)
    append(manager.logs[ORDERS])
    region = manager.logs[ORDERS].read(0, 1000, 1, True)
    for topic_partition in (ORDERS, name):
        _delete(manager, topic_partition)
    assert manager.delete(ORDERS) is None
    assert manager.logs == {}
    _create(manager)
    assert manager.logs[ORDERS].log_end_offset == 0
    assert len(content(region)) > 61
    deleted = manager.take_deleted()
    assert len(deleted) == 2
    assert all(path.name.endswith("-delete") and len(path.name) <= 255 for path in deleted)
    assert deleted[0].name.startswith("orders-0.")
    assert manager.take_deleted() == []
    manager.shutdown()
    manager = _manager(tmp_path)
    assert sorted(manager.take_deleted()) == sorted(deleted)
    assert list(manager.logs) == [ORDERS]
    remove_directories(deleted)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["orders-0"]
    manager.shutdown()


def test_directories_that_are_no_logs_are_left_alone(tmp_path: Path) -> None:
    for name in ("lost+found", "a-b", "t-0.0123-future", "t-0.0123-stray", "-1", "t-", "t-٣"):
        (tmp_path / name).mkdir()
    manager = _manager(tmp_path)
    assert manager.logs == {}
    manager.shutdown()


@pytest.mark.parametrize(
    ("name", "topic", "partition"), [("a-0", "a", 0), ("a-b-12", "a-b", 12), ("__x.y_z-5", "__x.y_z", 5)]
)
def test_a_directory_is_named_after_its_partition(name: str, topic: str, partition: int) -> None:
    assert parse_directory_name(name) == TopicPartition(topic, partition)
    assert str(TopicPartition(topic, partition)) == name


def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name / "t-0").mkdir(parents=True)
    manager = _manager(tmp_path / "a", tmp_path / "b", load=False)
    with pytest.raises(DuplicateLogError):
        manager.load(NOW_MS)
    manager.abandon()


def test_high_watermarks_are_kept_beside_their_logs(tmp_path: Path) -> None:
    manager = _manager(tmp_path / "a", tmp_path / "b")
    for partition in range(3):
        _create(manager, TopicPartition("t", partition))
    marks = {TopicPartition("t", partition): 10 * partition for partition in range(3)}
    write_checkpoints(manager.high_watermarks(marks | {TopicPartition("gone", 0): 4}))
    assert manager.read_high_watermarks() == marks
    assert (tmp_path / "b" / "replication-offset-checkpoint").read_text() == "0\n1\nt 1 10\n"
    manager.shutdown()
    assert (tmp_path / "b" / "replication-offset-checkpoint").exists()


def test_a_high_watermark_in_the_directory_of_an_old_log_is_not_read(tmp_path: Path) -> None:
    manager = _manager(tmp_path / "a", tmp_path / "b")
    _create(manager)
    write_checkpoints(manager.high_watermarks({ORDERS: 3}))
    write_offsets(tmp_path / "b" / HIGH_WATERMARK_FILE, {ORDERS: 7})
    assert manager.read_high_watermarks() == {ORDERS: 3}
    manager.shutdown()


def test_only_log_start_offsets_above_the_first_segment_are_kept(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    for partition in range(2):
        _create(manager, TopicPartition("t", partition))
        append(manager.logs[TopicPartition("t", partition)], produced(5))
    manager.logs[TopicPartition("t", 1)].increment_log_start_offset(3)
    manager.shutdown()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 1 3\n"
    manager = _manager(tmp_path)
    assert manager.logs[TopicPartition("t", 1)].log_start_offset == 3
    manager.shutdown()


def test_damaged_checkpoints_are_taken_as_empty(tmp_path: Path) -> None:
    manager = _manager(tmp_path)
    _create(manager)
    append(manager.logs[ORDERS], produced(3))
    manager.abandon()
    for name in ("recovery-point", "log-start", "replication"):
        (tmp_path / f"{name}-offset-checkpoint").write_text("rubbish\nrubbish\n")
    manager = _manager(tmp_path)
    assert manager.logs[ORDERS].recovery_point == 0
    assert manager.read_high_watermarks() == {}
    assert values_from(manager.logs[ORDERS]) == [b"value"] * 3
    manager.shutdown()


def test_a_log_that_cannot_be_closed_leaves_its_directory_without_the_marker(tmp_path: Path) -> None:
    manager = _manager(tmp_path / "a", tmp_path / "b")
    for partition in range(2):
        _create(manager, TopicPartition("t", partition))
        append(manager.logs[TopicPartition("t", partition)])
    manager.logs[TopicPartition("t", 0)].release()
    manager.logs[TopicPartition("t", 0)]._is_closed = False
    (tmp_path / "a" / "t-0" / f"{0:020d}.index").unlink()
    manager.shutdown()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


def test_a_name_too_long_for_a_directory_is_refused_and_no_directory_fails(tmp_path: Path) -> None:
    manager = _manager(tmp_path / "logs")
    for partition, is_taken in ((0, True), (99_999, True), (100_000, False), (2**31 - 1, False)):
        wanted = TopicPartition("t" * 249, partition)
        if is_taken:
            manager.get_or_create(wanted, TOPIC_ID, LogConfig(), NOW_MS)
        else:
            with pytest.raises(KafkaError) as caught:
                manager.get_or_create(wanted, TOPIC_ID, LogConfig(), NOW_MS)
            assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not manager.failures.offline
    assert len(manager.logs) == 2
    manager.shutdown()


@pytest.mark.parametrize("topic", ["", "/tmp/x", "../x", "a/b", "a\0b", "ä", "a b"])
def test_a_name_that_could_lead_out_of_the_directory_is_refused(topic: str, tmp_path: Path) -> None:
    manager = _manager(tmp_path / "logs")
    with pytest.raises(KafkaError) as caught:
        manager.get_or_create(TopicPartition(topic, 0), TOPIC_ID, LogConfig(), NOW_MS)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(KafkaError):
        manager.get_or_create(TopicPartition("t", -1), TOPIC_ID, LogConfig(), NOW_MS)
    assert manager.logs == {}
    assert manager.take_unmade() == []
    manager.shutdown()
