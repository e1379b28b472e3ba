"""The findings and repairs of `ottla verify`."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.log.state.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
    write_offsets,
)
from ottla.log.state.meta_properties import DirectoryInUse, DirectoryLocks
from ottla.log.verify.verify import NotALogDirectoryError, Summary, size_of, verify
from ottla.wire.records.batch import NewRecord, build_batch, iter_batches
from tests.log.building import NOW_MS, TOPIC_PARTITION, append, open_log, produced, values_from

FIRST, MIDDLE, LAST = (f"{offset:020d}" for offset in (0, 40, 80))
END = 120
EVERY_BIT = 1_000_000
"""More than there are bits."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory with one log of three segments, flushed and closed."""
    path = tmp_path / "data"
    path.mkdir()
    log = open_log(path / str(TOPIC_PARTITION), index_interval_bytes=300)
    log.set_topic_id(bytes(range(16)))
    for number in range(60):
        if number in (20, 40):
            log.roll(NOW_MS)
        batch = produced(2, value=b"%d" % number, producer_id=3, sequence=2 * number, timestamp=NOW_MS + number)
        append(log, batch, epoch=number // 25)
    log.close()
    for name in (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE):
        write_offsets(path / name, {TOPIC_PARTITION: END})
    (path / CLEAN_SHUTDOWN_FILE).write_text("")
    assert verify([path], lambda line: pytest.fail(line)) == Summary(1, 60, 0, 0)
    return path


def _said(directory: Path, *, repair: bool = False) -> list[str]:
    lines: list[str] = []
    summary = verify([directory], lines.append, repair=repair)
    assert summary.findings == len(lines)
    return [line.replace(f"{directory}/", "") for line in lines]


def _edit(name: str, change: Callable[[bytearray], object]) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        path = directory / name
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)

    return damage


def _file(name: str) -> str:
    return f"{TOPIC_PARTITION}/{name}"


def _flip(position: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[position] ^= 1

    return change


def _remove(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).unlink()


def _put(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda directory: (directory / name).write_bytes(data)


SIZE = 95
"""The size of each of the first batches."""

REPAIRED = [
    (_remove(_file(f"{FIRST}.index")), f"{FIRST}.index: is missing; rebuilt from the segment"),
    (_remove(_file(f"{LAST}.timeindex")), f"{LAST}.timeindex: is missing; rebuilt"),
    (_edit(_file(f"{FIRST}.index"), _flip(7)), f"{FIRST}.index:0: contradicts its segment; rebuilt"),
    (_edit(_file(f"{MIDDLE}.index"), _flip(2)), f"{MIDDLE}.index:8: contradicts its segment; rebuilt"),
    (_edit(_file(f"{MIDDLE}.timeindex"), _flip(20)), f"{MIDDLE}.timeindex:12: contradicts its segment; rebuilt"),
    (_edit(_file(f"{MIDDLE}.index"), lambda data: data.extend(bytes(8))), "contradicts its segment; rebuilt"),
    (_edit(_file(f"{MIDDLE}.index"), lambda data: data.pop()), "ends within an entry; rebuilt"),
    (_edit(_file(f"{MIDDLE}.timeindex"), lambda data: data.clear()), "timeindex:0: contradicts its segment; rebuilt"),
    (_edit(_file(f"{LAST}.snapshot"), _flip(20)), f"{LAST}.snapshot: its CRC is no longer valid; rebuilt"),
    (_edit(_file(f"{LAST}.snapshot"), lambda data: data.clear()), f"{LAST}.snapshot: 0 bytes; rebuilt"),
    (_put(_file(LEADER_EPOCH_FILE), b"nonsense\n1\n"), "expected 0; rebuilt from the batches"),
    (_put(_file(LEADER_EPOCH_FILE), b""), "has no leader epochs, the batches have some; rebuilt"),
    (_put(_file(LEADER_EPOCH_FILE), b"0\n2\n1 0\n0 50\n"), "follows"),
    (_put(_file(f"{1:020d}.index"), b""), "is an index without a segment; removed"),
    (_put(RECOVERY_POINT_FILE, b"0\n2\norders 3 120\nx\n"), "Malformed line"),
    (_put(HIGH_WATERMARK_FILE, b"0\n1\norders 3 777\n"), "goes beyond the end"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "said"), REPAIRED)
def test_a_file_that_the_batches_define_is_rebuilt(
    directory: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(directory)
    (line,) = _said(directory)
    assert said.split(";")[0] in line
    (line,) = _said(directory, repair=True)
    assert said in line
    assert _said(directory) == []
    log = open_log(directory / str(TOPIC_PARTITION), recovery_point=END, index_interval_bytes=300)
    assert len(values_from(log)) == END
    assert len(log.leader_epochs.entries) == 3
    assert log.producers.entries[3].last_sequence == END - 1


def _set(position: int, form: str, value: int) -> Callable[[bytearray], None]:
    return lambda data: struct.pack_into(form, data, position, value)


LEFT = [
    (_edit(_file(f"{MIDDLE}.log"), _flip(70)), f"{MIDDLE}.log:0: its checksum is not that of the batch"),
    (_edit(_file(f"{LAST}.log"), _flip(-1)), ": its checksum is not that of the batch"),
    (_edit(_file(f"{MIDDLE}.log"), _flip(16)), f"{MIDDLE}.log:0: no batch in"),
    (_edit(_file(f"{MIDDLE}.log"), _set(0, ">q", 39)), "begins with offset 39, which is less than 40"),
    (_edit(_file(f"{MIDDLE}.log"), _set(0, ">q", 41)), "begins with offset 42, which is less than 43"),
    (_edit(_file(f"{MIDDLE}.log"), _set(12, ">i", 5)), f"{MIDDLE}.log:0: has leader epoch 5, leader-epoch-"),
    (_put(_file(PARTITION_METADATA_FILE), b"version: 1"), "Cannot read"),
    (_put(_file("stranger"), b""), "is no file of a log"),
    (_put(_file(f"{FIRST}.txnindex"), bytes(40)), "ends within an entry"),
    (_put("meta.properties", b"version=0\n"), "has no broker id or no cluster id"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "said"), LEFT)
def test_a_fault_that_the_batches_cannot_repair_is_reported_and_left(
    directory: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(directory)
    before = {path: path.read_bytes() for path in directory.rglob("*.log")}
    assert said in _said(directory)[0]
    assert _said(directory, repair=True)[0].endswith("; left as it is")
    assert {path: path.read_bytes() for path in directory.rglob("*.log")} == before
    assert _said(directory)


def test_a_damaged_tail_that_was_never_flushed_is_cut(directory: Path) -> None:
    (directory / CLEAN_SHUTDOWN_FILE).unlink()
    write_offsets(directory / RECOVERY_POINT_FILE, {TOPIC_PARTITION: END - 2})
    path = directory / _file(f"{LAST}.log")
    whole = path.read_bytes()
    last = list(iter_batches(memoryview(whole)))[-1][0].size
    path.write_bytes(whole[:-1])
    (line,) = [line for line in _said(directory, repair=True) if "cut" in line]
    assert f".log:{len(whole) - last}: no batch in {last - 1} bytes" in line
    assert path.read_bytes() == whole[:-last]
    _said(directory, repair=True)
    assert _said(directory) == []


def test_a_flushed_tail_is_not_cut(directory: Path) -> None:
    path = directory / _file(f"{LAST}.log")
    path.write_bytes(path.read_bytes()[:-1])
    assert "left as it is" in _said(directory, repair=True)[0]


def test_gaps_in_the_sequence_of_a_producer_are_reported(directory: Path) -> None:
    path = directory / _file(f"{LAST}.log")
    record = NewRecord(value=b"x", timestamp=NOW_MS)
    batch = build_batch([record], base_offset=END, producer_id=3, producer_epoch=0, base_sequence=7, leader_epoch=2)
    path.write_bytes(path.read_bytes() + batch)
    assert any("producer 3 has sequence 7 where 120 is expected" in line for line in _said(directory))


@pytest.mark.trials(few=50, soak=EVERY_BIT)
def test_every_flipped_bit_is_found(directory: Path, seed: int, trials: int) -> None:
    """A segment has no unused bits; the other files have a few."""
    path = directory / _file(f"{MIDDLE}.log")
    data = path.read_bytes()
    bits = range(len(data) * 8)
    for bit in random.Random(seed).sample(bits, min(len(bits), trials)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert _said(directory), (bit // 8, bit % 8)
    path.write_bytes(data)
    assert _said(directory) == []


def test_a_segment_without_a_batch_needs_no_index(directory: Path) -> None:
    (directory / str(TOPIC_PARTITION) / f"{END:020d}.log").touch()
    assert _said(directory) == []


def test_one_partition_can_be_checked_alone(directory: Path) -> None:
    shutil.copytree(directory / str(TOPIC_PARTITION), directory / "other-0")
    (directory / "other-0" / f"{MIDDLE}.log").write_bytes(b"nonsense")
    lines: list[str] = []
    assert verify([directory / str(TOPIC_PARTITION)], lines.append).is_sound
    assert not verify([directory / "other-0"], lines.append).is_sound
    assert not verify([directory], lines.append).is_sound


def test_a_directory_that_a_broker_has_open_is_refused(directory: Path) -> None:
    locks = DirectoryLocks([directory])
    for path in (directory, directory / str(TOPIC_PARTITION)):
        with pytest.raises(DirectoryInUse):
            verify([path], print)
    locks.release()
    assert verify([directory], print).is_sound


def test_a_path_that_is_no_log_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(NotALogDirectoryError):
        verify([tmp_path / "photos"], print)


def test_without_repair_nothing_changes(directory: Path) -> None:
    _edit(_file(f"{MIDDLE}.index"), _flip(3))(directory)
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    _said(directory)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before
    assert not (directory / ".lock").exists()


def test_progress_is_called_for_all_bytes(directory: Path) -> None:
    told: list[int] = []
    verify([directory], print, progress=told.append)
    assert sum(told) == size_of([directory]) == sum(path.stat().st_size for path in directory.rglob("*.log"))


def test_repaired_checkpoints_keep_all_readable_offsets(directory: Path) -> None:
    (directory / RECOVERY_POINT_FILE).write_text("0\n2\norders 3 120\nx\n")
    _said(directory, repair=True)
    assert read_offsets(directory / RECOVERY_POINT_FILE) == {TOPIC_PARTITION: 120}
