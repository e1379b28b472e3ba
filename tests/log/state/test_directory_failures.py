import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.log.new_log import make_logs
from ottla.log.state.directory_failures import DirectoryFailures, NoLogDirectoryError
from ottla.log.state.meta_properties import LOCK_FILE, META_PROPERTIES_FILE, DirectoryLocks
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS, append, produced

ORDERS = [TopicPartition("orders", index) for index in range(4)]
EIO = OSError(errno.EIO, os.strerror(errno.EIO))


def manager_of(*directories: Path) -> LogManager:
    manager = LogManager(directories, broker_id=1, cluster_id="c")
    manager.load(NOW_MS)
    return manager


def create(manager: LogManager, index: int, *, is_new: bool = True) -> Path:
    log = manager.get_or_create(ORDERS[index], None, LogConfig(), NOW_MS, is_new=is_new)
    assert make_logs(manager.take_unmade()) == [None]
    log.made()
    return log.directory.parent


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a", tmp_path / "b"


def test_the_listener_is_called_once_and_not_for_a_lack_of_descriptors(two: tuple[Path, Path]) -> None:
    told: list[Path] = []
    failures = DirectoryFailures()
    failures.listener = told.append
    for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        failures.failed(two[0], OSError(number, os.strerror(number)))
    assert told == []
    for number in (errno.EIO, errno.ENOSPC, errno.EROFS):
        failures.failed(two[0], OSError(number, os.strerror(number)))
    failures.failed(two[1], EIO)
    assert told == [*two]
    assert failures.offline == set(two)


def a_file(directory: Path) -> None:
    directory.write_text("in the way")


def no_lock(directory: Path) -> None:
    (directory / LOCK_FILE).mkdir(parents=True)


def unreadable_properties(directory: Path) -> None:
    (directory / META_PROPERTIES_FILE).mkdir(parents=True)


def broken_properties(text: str) -> Callable[[Path], None]:
    def break_them(directory: Path) -> None:
        directory.mkdir()
        (directory / META_PROPERTIES_FILE).write_text(text)

    return break_them


BROKEN = {
    "a file": (a_file, "File exists|Not a directory"),
    "a lock that cannot be taken": (no_lock, "Is a directory"),
    "properties that cannot be read": (unreadable_properties, "Is a directory"),
    "a version from elsewhere": (broken_properties("version=7\n"), "Unknown meta.properties version number 7"),
    "a version that is none": (broken_properties("version=new\n"), "Invalid meta.properties version string 'new'"),
    "a broker id that is none": (broken_properties("broker.id=x\n"), "Unable to read broker.id as a base-10 number"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_an_unusable_directory_is_offline_and_the_others_serve(
    two: tuple[Path, Path], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    break_it, fault = BROKEN[how]
    break_it(two[0])
    manager = manager_of(*two)
    (error,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert str(two[0]) in error.getMessage()
    assert any(part in error.getMessage() for part in fault.split("|"))
    assert manager.online == [two[1]]
    assert create(manager, 0) == create(manager, 1) == two[1]
    manager.shutdown()
    with pytest.raises(NoLogDirectoryError, match="none of the specified log dirs"):
        DirectoryLocks([two[0]])


def test_a_directory_whose_logs_cannot_be_loaded_is_offline(two: tuple[Path, Path]) -> None:
    manager = manager_of(*two)
    assert [create(manager, index) for index in (0, 1)] == [*two]
    manager.shutdown()
    in_the_way = two[0] / "orders-0" / "00000000000000000000.log"
    in_the_way.unlink()
    in_the_way.mkdir()
    manager = manager_of(*two)
    assert manager.failures.offline == {two[0]}
    assert list(manager.logs) == [ORDERS[1]]
    DirectoryLocks([two[0]]).release()  # held no more
    manager.shutdown()


def test_no_log_is_created_while_it_may_exist_in_a_failed_directory(two: tuple[Path, Path]) -> None:
    manager = manager_of(*two)
    assert create(manager, 0, is_new=False) == two[0]
    manager.failures.failed(two[0], EIO)
    manager.close_failed(two[0])
    assert manager.get(ORDERS[0]) is None
    for index in (0, 1):
        with pytest.raises(KafkaError, match="are offline") as refused:
            create(manager, index, is_new=False)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert create(manager, 1) == create(manager, 2) == two[1]
    manager.shutdown()


def test_a_failed_directory_gets_neither_checkpoints_nor_a_marker(two: tuple[Path, Path]) -> None:
    manager = manager_of(*two)
    for index in range(2):
        create(manager, index)
    manager.failures.failed(two[0], EIO)
    manager.close_failed(two[0])
    manager.shutdown(dict.fromkeys(ORDERS, 0))
    assert {path.name for path in two[0].iterdir()} == {LOCK_FILE, META_PROPERTIES_FILE, "orders-0"}
    assert (two[1] / ".kafka_cleanshutdown").exists()


def test_a_broker_ends_without_its_last_or_its_vital_directory(two: tuple[Path, Path]) -> None:
    manager = manager_of(*two)
    for directory in two:
        manager.failures.failed(directory, EIO)
    with pytest.raises(NoLogDirectoryError, match=f"Shutdown broker because all log dirs in {two[0]}, {two[1]} have"):
        manager.close_failed(two[0])
    manager.abandon()
    manager = manager_of(*two)
    manager.failures.vital = two[1]
    manager.failures.failed(two[0], EIO)
    manager.close_failed(two[0])
    manager.failures.failed(two[1], EIO)
    with pytest.raises(NoLogDirectoryError, match=f"the metadata log dir {two[1]} has failed"):
        manager.close_failed(two[1])
    manager.abandon()


@pytest.mark.parametrize("call", ["pwrite", "pread", "ftruncate", "fdatasync", "fsync", "open"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_any_error_of_the_disk_takes_its_directory_offline(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    manager = manager_of(*two)
    for index in range(2):
        create(manager, index)
    well, ill = (manager.logs[each] for each in ORDERS[:2])
    for log in (well, ill):
        append(log, produced())

    def broken(*args: object, **options: object) -> int:
        raise OSError(number, os.strerror(number))

    deeds: dict[str, Callable[[], object]] = {
        "pwrite": lambda: append(ill, produced()),
        "pread": lambda: ill.offset_for_timestamp(0),
        "ftruncate": lambda: ill.truncate_to(0),
        "fdatasync": ill.flush,
        "fsync": ill.flush,
        "open": lambda: ill.read(0, 1 << 20, 1, True, may_copy=False),
    }
    for segment in ill.segments:
        segment.release()  # its files are opened anew
    with monkeypatch.context() as patch:
        patch.setattr(os, call, broken)
        with pytest.raises(KafkaError) as refused:
            deeds[call]()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.failures.offline == {two[1]}
    manager.close_failed(two[1])
    append(well, produced())
    manager.shutdown()
