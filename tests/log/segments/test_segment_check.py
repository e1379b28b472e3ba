"""The check of a segment found on the disk: its batches and its indexes."""

import logging
from pathlib import Path

import pytest

from ottla.log.segments.batch_order import certain_batches
from ottla.log.segments.segments import UncheckedSegmentError
from ottla.wire.records.batch import BatchHeader, NewRecord, build_batch, parse_header
from tests.log.building import NOW_MS, append, open_log, produced, records_from, values_from


def _headers(*extents: tuple[int, int]) -> list[tuple[int, BatchHeader]]:
    """Return headers with these first and last offsets."""
    found = []
    for position, (first, last) in enumerate(extents):
        records = [NewRecord(value=b"v", timestamp=NOW_MS)] * (last - first + 1)
        found.append((position, parse_header(build_batch(records, base_offset=first))))
    return found


@pytest.mark.parametrize(
    ("extents", "boundary", "certain"),
    [
        ([], None, 0),
        ([(10, 11), (12, 12), (13, 15)], None, 3),
        ([(9, 11)], None, 0),  # before its segment
        ([(10, 11), (11, 12)], None, 1),  # too low
        ([(10, 11), (13, 14), (14, 15)], None, 1),  # the second is too high, and reaches into the third
        ([(10, 11), (14, 15), (16, 17), (30, 31)], None, 4),  # gaps, as compaction leaves them
        ([(10, 11), (14, 15), (16, 100)], None, 2),  # behind the next segment
        ([(10, 11), (14, 15)], 14, 2),  # a batch ended at 14, and was truncated
        ([(10, 11), (14, 15)], 13, 1),  # a batch ended at 13
        ([(10, 11), (14, 15)], 16, 2),
        ([(10, 11), (14, 15)], 12, 2),
        ([(10, 11), (14, 15)], 15, 1),
        ([(10, 11), (14, 15)], 99, 2),
    ],
)
def test_a_batch_is_certain_if_the_next_batch_fits(
    extents: list[tuple[int, int]], boundary: int | None, certain: int
) -> None:
    batches = _headers(*extents)
    assert list(certain_batches(batches, 10, 99, boundary)) == batches[:certain]


def test_an_unchecked_segment_is_not_read(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    log.close()
    log = open_log(tmp_path)
    log.segments[0].is_checked = False
    for read in (
        lambda: log.read(0, 100, 1, min_one_message=True),
        lambda: log.offset_for_timestamp(0),
        lambda: log.offset_of_max_timestamp(),
    ):
        with pytest.raises(UncheckedSegmentError) as raised:
            read()
        assert raised.value.segment is log.segments[0]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("is_active", [True, False])
def test_an_index_with_wrong_entries_in_its_middle_is_rebuilt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str, is_active: bool
) -> None:
    log = open_log(tmp_path, index_interval_bytes=100)
    for number in range(60):
        append(log, produced(2, value=b"%d" % number, timestamp=NOW_MS + number))
    if not is_active:
        log.roll(NOW_MS)
    log.close()
    path = tmp_path / f"{0:020d}.{suffix}"
    sound = path.read_bytes()
    size = 8 if suffix == "index" else 12
    middle = len(sound) // size // 2 * size
    path.write_bytes(sound[: middle - size] + b"\x40" * (2 * size) + sound[middle + size :])
    log = open_log(tmp_path, index_interval_bytes=100)
    assert [each.levelno for each in caplog.records if "contradicts its segment" in each.message] == [logging.WARNING]
    for number in range(60, 90):
        append(log, produced(2, value=b"%d" % number, timestamp=NOW_MS + number))
    assert values_from(log) == [b"%d" % (number // 2) for number in range(180)]
    for number in range(90):
        assert records_from(log, 2 * number)[0].offset == 2 * number
        found = log.offset_for_timestamp(NOW_MS + number)
        assert found is not None
        assert found.offset == 2 * number
    log.close()
    caplog.clear()
    open_log(tmp_path, index_interval_bytes=100).close()
    assert not caplog.records
    if not is_active:
        assert path.read_bytes() == sound


def test_the_loss_of_flushed_records_is_logged_as_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        append(log)
    log.close()
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3 * 2])
    assert open_log(tmp_path, recovery_point=3).log_end_offset == 2
    (told,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "offsets 2 to 2 were flushed and cannot be read any more" in told.message


@pytest.mark.parametrize("swallowing", [1, 3])
def test_a_batch_whose_length_spans_the_next_batch_is_found(tmp_path: Path, swallowing: int) -> None:
    """One flipped bit of the length spans two batches of 128 bytes; at the end of a segment the next one tells."""
    log = open_log(tmp_path)
    for number in range(5):
        append(log, produced(1, value=b"%d" % number + bytes(55)))
    assert log.size == 5 * 128
    log.roll(NOW_MS)
    append(log, produced(1, value=b"next"))
    log.close()
    path = tmp_path / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[swallowing * 128 + 11] ^= 1 << 7
    path.write_bytes(data)
    log = open_log(tmp_path)
    damage = log.segments[0].damage
    assert damage is not None
    assert (damage.start, damage.start_offset, damage.end_offset) == (swallowing * 128, swallowing, 5)
    assert values_from(log, 0, swallowing) == [b"%d" % number + bytes(55) for number in range(swallowing)]
    assert values_from(log, 5) == [b"next"]
