"""Recovery of logs that were not closed, for every byte and bit of their last batch."""

import zlib
from pathlib import Path

import pytest

from ottla.log.recovery.recovery import OldMessageFormatError
from ottla.log.state.checkpoint import EpochEntry
from ottla.wire.records.batch import ControlType, NewRecord, build_batch, build_control_batch
from tests.log.building import NOW_MS, append, open_log, produced, records_from, values_from

pytestmark = pytest.mark.once


def _log_file(directory: Path, base_offset: int = 0) -> Path:
    return directory / f"{base_offset:020d}.log"


def _crashed(directory: Path, batches: int = 4) -> bytes:
    """Write a log without closing it; return its bytes. Each batch is of producer 3 and has two records."""
    log = open_log(directory, index_interval_bytes=100)
    for number in range(batches):
        append(log, produced(2, value=b"%d" % number, producer_id=3, sequence=2 * number), epoch=number // 2)
    log.release()
    return _log_file(directory).read_bytes()


def _expect(directory: Path, batches: int) -> None:
    """Expect exactly `batches` batches of `_crashed` after recovery, and a log that takes appends."""
    log = open_log(directory, clean=False, index_interval_bytes=100)
    assert log.log_end_offset == 2 * batches
    assert values_from(log) == [b"%d" % (number // 2) for number in range(2 * batches)]
    assert {pid: entry.last_sequence for pid, entry in log.producers.entries.items()} == (
        {3: 2 * batches - 1} if batches else {}
    )
    assert log.leader_epochs.entries == tuple(EpochEntry(epoch, 4 * epoch) for epoch in range((batches + 1) // 2))
    info = append(log, produced(2, producer_id=3, sequence=2 * batches), epoch=9)
    assert (info.first_offset, info.is_duplicate) == (2 * batches, False)
    log.release()


def test_a_file_cut_at_any_byte_of_its_last_batch_loses_only_that_batch(tmp_path: Path) -> None:
    data = _crashed(tmp_path)
    size = len(data) // 4
    for cut in range(size + 1):
        _log_file(tmp_path).write_bytes(data[: len(data) - cut])
        _expect(tmp_path, 4 if cut == 0 else 3)


def test_any_bit_flipped_in_the_last_batch_is_found(tmp_path: Path) -> None:
    data = _crashed(tmp_path, 2)
    size = len(data) // 2
    unprotected = {*range(8), *range(12, 16)}  # base offset and leader epoch lie outside the checksum
    for bit in range(size * 8):
        flipped = bytearray(data)
        flipped[size + bit // 8] ^= 1 << bit % 8
        _log_file(tmp_path).write_bytes(flipped)
        if bit // 8 in unprotected:
            log = open_log(tmp_path, clean=False)
            assert values_from(log)[:2] == [b"0", b"0"]
            log.release()
        else:
            _expect(tmp_path, 1)


@pytest.mark.parametrize(
    "noise", [bytes(1), bytes(61), bytes(5000), b"\xff" * 61, b"\xff" * 5000, bytes(range(256)) * 9]
)
def test_noise_behind_the_last_batch_is_cut_off(tmp_path: Path, noise: bytes) -> None:
    data = _crashed(tmp_path)
    _log_file(tmp_path).write_bytes(data + noise)
    _expect(tmp_path, 4)


def test_a_batch_whose_length_spans_the_rest_of_the_file_is_cut_off(tmp_path: Path) -> None:
    data = _crashed(tmp_path, 2)
    size = len(data) // 2
    claimed = bytearray(data[size:])
    claimed[8:12] = (3 << 20).to_bytes(4, "big")
    _log_file(tmp_path).write_bytes(data[:size] + claimed + bytes(4 << 20))
    _expect(tmp_path, 1)


def test_a_batch_larger_than_the_read_buffer_is_checked_too(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(1, value=bytes(3 << 20)))
    append(log, produced(1, value=b"small"))
    log.release()
    log = open_log(tmp_path, clean=False)
    assert log.log_end_offset == 2
    log.release()
    data = bytearray(_log_file(tmp_path).read_bytes())
    data[2 << 20] ^= 1
    _log_file(tmp_path).write_bytes(data)
    assert open_log(tmp_path, clean=False).log_end_offset == 0


def test_segments_behind_a_corrupt_batch_are_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=200)
    for number in range(8):
        append(log, produced(1, value=b"%d" % number, producer_id=3, sequence=number))
    bases = [segment.base_offset for segment in log.segments]
    assert bases == [0, 2, 4, 6]
    log.release()
    path = _log_file(tmp_path, 2)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    log = open_log(tmp_path, clean=False, segment_bytes=200)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert values_from(log) == [b"0", b"1", b"2"]
    assert log.producers.entries[3].last_sequence == 2
    assert max(log.producers.snapshot_offsets) == 3
    assert sorted(path.name for path in tmp_path.glob("*index")) == [
        f"{base:020d}.{suffix}" for base in (0, 2) for suffix in ("index", "timeindex")
    ]


@pytest.mark.parametrize(("policy", "end"), [(("delete",), 1), (("compact",), 4)])
def test_segments_behind_a_segment_that_never_reached_the_disk_are_deleted(
    tmp_path: Path, policy: tuple[str, ...], end: int
) -> None:
    """A power cut may leave an empty file; compaction, too, may leave an empty segment."""
    log = open_log(tmp_path, segment_bytes=80)
    for number in range(4):
        append(log, produced(value=b"%d" % number))
    log.release()
    _log_file(tmp_path, 1).write_bytes(b"")
    log = open_log(tmp_path, clean=False, cleanup_policy=policy)
    assert log.log_end_offset == end
    assert values_from(log) == ([b"0"] if end == 1 else [b"0", b"2", b"3"])
    log.release()


def test_segments_before_the_recovery_point_are_not_scanned(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=200)
    for number in range(8):
        append(log, produced(1, value=b"%d" % number))
    log.flush(log.segments.active.base_offset)
    log.release()
    path = _log_file(tmp_path, 2)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    log = open_log(tmp_path, clean=False, recovery_point=6, segment_bytes=200)
    assert log.log_end_offset == 8
    log.release()
    assert open_log(tmp_path, clean=False, recovery_point=3, segment_bytes=200).log_end_offset == 3


def test_recovery_does_not_move_the_recovery_point(tmp_path: Path) -> None:
    _crashed(tmp_path)
    assert open_log(tmp_path, clean=False, recovery_point=2).recovery_point == 2
    assert open_log(tmp_path, clean=False, recovery_point=99).recovery_point == 8


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", [None, b"", b"\1" * 7, bytes(240), b"\xff" * 24])
def test_a_wrong_index_is_rebuilt_at_a_clean_start(tmp_path: Path, suffix: str, damage: bytes | None) -> None:
    log = open_log(tmp_path, segment_bytes=2000, index_interval_bytes=100)
    for number in range(60):
        append(log, produced(2, timestamp=NOW_MS + number))
    log.close()
    path = tmp_path / f"{0:020d}.{suffix}"
    expected = path.read_bytes()
    assert len(expected) > 48
    for damaged in (path, max(tmp_path.glob(f"*.{suffix}"))):
        if damage is None:
            damaged.unlink()
        else:
            damaged.write_bytes(damage)
    log = open_log(tmp_path, segment_bytes=2000, index_interval_bytes=100)
    assert len(records_from(log)) == 120
    for number in range(60):
        found = log.offset_for_timestamp(NOW_MS + number)
        assert found is not None
        assert found.offset == 2 * number
    log.close()
    assert path.read_bytes() == (b"" if damage == b"" and suffix == "index" else expected)


def test_an_index_without_a_log_is_deleted(tmp_path: Path) -> None:
    (tmp_path / f"{77:020d}.index").write_bytes(bytes(8))
    (tmp_path / f"{77:020d}.timeindex").write_bytes(bytes(12))
    log = open_log(tmp_path)
    assert log.log_end_offset == 0
    assert not list(tmp_path.glob("*77.*"))


def test_a_torn_log_is_recovered_even_after_a_clean_shutdown(tmp_path: Path) -> None:
    data = _crashed(tmp_path)
    open_log(tmp_path, clean=False, index_interval_bytes=100).close()
    _log_file(tmp_path).write_bytes(data[:-5])
    log = open_log(tmp_path, index_interval_bytes=100)
    assert log.log_end_offset == 6
    assert log.producers.entries[3].last_sequence == 5


def test_a_lost_leader_epoch_file_is_rebuilt_from_the_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=200)
    for number in range(8):
        append(log, produced(1), epoch=number // 3)
    log.release()
    for text in (None, "", "nonsense\n1\n"):
        path = tmp_path / "leader-epoch-checkpoint"
        path.unlink()
        if text is not None:
            path.write_text(text)
        log = open_log(tmp_path, clean=False, recovery_point=8, segment_bytes=200)
        assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (1, 3), (2, 6)]
        log.release()


def test_an_epoch_without_a_record_is_dropped(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(3), epoch=1)
    log.assign_epoch(2)
    log.close()
    assert open_log(tmp_path).leader_epochs.latest == 1


def test_a_log_that_ends_below_its_log_start_restarts_there(tmp_path: Path) -> None:
    _crashed(tmp_path)
    log = open_log(tmp_path, clean=False, start=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert dict(log.producers.entries) == {}
    assert log.leader_epochs.latest == -1
    assert [path.name for path in tmp_path.glob("*.log")] == [f"{100:020d}.log"]
    assert append(log).first_offset == 100


def test_the_log_start_comes_from_the_checkpoint_or_the_first_segment(tmp_path: Path) -> None:
    _crashed(tmp_path)
    assert open_log(tmp_path, clean=False, start=3).log_start_offset == 3
    assert open_log(tmp_path, clean=False).log_start_offset == 0


def test_messages_of_an_old_format_are_refused_and_not_cut_off(tmp_path: Path) -> None:
    body = b"\1\0" + NOW_MS.to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\0\0\3old"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    entry = bytes(8) + len(message).to_bytes(4, "big") + message + bytes(61)
    _log_file(tmp_path).write_bytes(entry)
    with pytest.raises(OldMessageFormatError):
        open_log(tmp_path, clean=False)
    assert _log_file(tmp_path).read_bytes() == entry


def test_markers_in_the_log_end_transactions_when_replayed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    record = NewRecord(value=b"v", timestamp=NOW_MS)
    data = b"".join(
        [
            build_batch([record], base_offset=0, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
            build_batch([record], base_offset=1, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True),
            build_control_batch(
                ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=6, timestamp=NOW_MS, base_offset=2
            ),
        ]
    )
    log.append_as_follower(memoryview(data), NOW_MS)
    assert log.producers.first_unstable_offset(3) == 1
    log.release()
    log = open_log(tmp_path, clean=False)
    assert log.producers.first_unstable_offset(3) == 1
    assert log.producers.entries[1].coordinator_epoch == 6
    assert log.producers.entries[2].current_txn_first_offset == 1


def test_an_interrupted_compaction_is_completed(tmp_path: Path) -> None:
    """Segments 0 and 2 were compacted into a .swap file, and one of the two is deleted already."""
    log = open_log(tmp_path, segment_bytes=200)
    for number in range(6):
        append(log, produced(1, value=b"%d" % number))
    log.close()
    compacted = build_batch([NewRecord(value=b"3", timestamp=NOW_MS)], base_offset=3)
    (tmp_path / f"{0:020d}.log.swap").write_bytes(compacted)
    (tmp_path / f"{0:020d}.index.swap").write_bytes(b"")
    (tmp_path / f"{0:020d}.timeindex.swap").write_bytes(b"")
    (tmp_path / f"{9:020d}.log.cleaned").write_bytes(b"half")
    (tmp_path / f"{9:020d}.log.deleted").write_bytes(b"gone")
    _log_file(tmp_path, 2).unlink()
    log = open_log(tmp_path, clean=False, segment_bytes=200)
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    assert values_from(log) == [b"3", b"4", b"5"]
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".swap", ".cleaned", ".deleted")]


def test_an_incomplete_swap_is_undone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(3))
    log.close()
    (tmp_path / f"{0:020d}.log.swap").write_bytes(b"")
    (tmp_path / f"{0:020d}.log.cleaned").write_bytes(b"")
    assert len(records_from(open_log(tmp_path, clean=False))) == 3
