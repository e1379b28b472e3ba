"""Damaged flushed logs: reads return the written records, or the damage is found."""

import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.log.log import PartitionLog
from ottla.log.manager import LogManager
from ottla.log.state.checkpoint import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    write_clean_shutdown,
    write_offsets,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import CorruptBatch, Record, crc_is_valid, iter_batches, iter_records
from ottla.wire.types import TopicPartition
from tests.log.building import NOW_MS, append, checked, content, open_log, produced

BATCHES = 12
TOPIC_ID = bytes(range(16))
LENGTH, LEADER_EPOCH, CHECKSUM, COVERED = range(8, 12), range(12, 16), range(17, 21), 21
EVERYTHING = 1_000_000
"""More than there are bits: every bit is flipped, not a sample."""

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("unsynced")]

Served = list[tuple[int, bytes | None]]


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync, because thousands of logs are opened here."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


class Found:
    """The records of a whole log, for a consumer that ignores checksums and for one that checks them."""

    def __init__(self, log: PartitionLog) -> None:
        self.served: Served = []
        self.refused = 0
        offset, end = log.log_start_offset, log.log_end_offset
        while offset < end:
            try:
                data = content(log.read(offset, 1 << 20, end, min_one_message=True))
            except KafkaError as error:
                if error.code != ErrorCode.CORRUPT_MESSAGE:
                    raise
                self.refused += 1
                offset += 1
                continue
            offset = self._take(data, offset) if data else end

    def _take(self, data: bytes, offset: int) -> int:
        for header, batch in iter_batches(memoryview(data)):
            self.refused += not crc_is_valid(batch)
            self.served += [(record.offset, record.value) for record in _readable(batch) if record.offset >= offset]
            offset = max(offset + 1, header.next_offset)
        return offset


def _readable(batch: memoryview) -> Iterator[Record]:
    try:
        yield from iter_records(batch)
    except CorruptBatch:
        return


def _written(directory: Path, segment_bytes: int) -> tuple[int, Served]:
    """Write, flush and close a log of about 4 KiB; return its end and its records."""
    log = open_log(directory, index_interval_bytes=300, segment_bytes=segment_bytes)
    log.set_topic_id(TOPIC_ID)
    for number in range(BATCHES):
        value = b"%02d" % number + b"." * (100 if number % 3 else 110)
        append(log, produced(2, value=value, producer_id=3, sequence=2 * number, timestamp=NOW_MS + number))
    end, served = log.log_end_offset, Found(log).served
    log.close()
    assert sum(path.stat().st_size for path in directory.glob("*.log")) in range(3400, 4200)
    return end, served


def _flips(path: Path, seed: int, trials: int) -> list[tuple[int, int]]:
    """Return positions of bits in a file, each with the position of its byte in its batch."""
    data = memoryview(path.read_bytes())
    position, bits = 0, []
    for header, batch in iter_batches(data):
        bits += [((position + at) * 8 + bit, at) for at in range(header.size) for bit in range(8)]
        position += len(batch)
    outside = [each for each in bits if each[1] < COVERED]
    rng = random.Random(seed)
    return rng.sample(outside, min(len(outside), 2 * trials)) + rng.sample(bits, min(len(bits), trials))


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1400])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.trials(few=40, soak=EVERYTHING)
def test_no_flipped_bit_in_a_flushed_log_changes_a_record_or_an_offset(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool, segment_bytes: int, seed: int, trials: int
) -> None:
    caplog.set_level(logging.ERROR)
    sound = tmp_path / "sound"
    end, written = _written(sound, segment_bytes)
    for number, path in enumerate(sorted(sound.glob("*.log"))):
        for bit, at in _flips(path, seed + number, trials):
            directory = tmp_path / "flipped"
            shutil.copytree(sound, directory)
            data = bytearray(path.read_bytes())
            data[bit // 8] ^= 1 << bit % 8
            (directory / path.name).write_bytes(data)
            caplog.clear()
            log = open_log(directory, clean=clean, recovery_point=end, index_interval_bytes=300)
            found = Found(log)
            where = (path.name, bit // 8, bit % 8, at, found.served, found.refused, caplog.messages)
            told = bool(found.refused or caplog.records)
            if at in LEADER_EPOCH:
                assert found.served == written, where
            elif at < COVERED:
                assert told, where
                assert [each for each in found.served if each not in written] == [], where
            else:
                assert told, where
            log.release()
            shutil.rmtree(directory)


@pytest.mark.slow
@pytest.mark.trials(few=50, soak=EVERYTHING)
def test_a_log_cut_at_any_byte_of_its_last_three_batches_keeps_all_whole_batches(
    tmp_path: Path, seed: int, trials: int
) -> None:
    end, written = _written(tmp_path / "sound", 1 << 20)
    (path,) = (tmp_path / "sound").glob("*.log")
    data = path.read_bytes()
    sizes = [header.size for header, _ in iter_batches(memoryview(data))]
    cuts = range(1, sum(sizes[-3:]) + 1)
    for cut in random.Random(seed).sample(cuts, min(len(cuts), trials)):
        left = len(data) - cut
        whole = sum(sum(sizes[: slot + 1]) <= left for slot in range(BATCHES))
        for clean, recovery_point in ((True, end), (False, 0), (False, end)):
            shutil.copytree(tmp_path / "sound", tmp_path / "cut")
            (tmp_path / "cut" / path.name).write_bytes(data[:left])
            log = open_log(tmp_path / "cut", clean=clean, recovery_point=recovery_point, index_interval_bytes=300)
            assert (Found(log).served, log.log_end_offset) == (written[: 2 * whole], 2 * whole)
            append(log, produced(1, producer_id=3, sequence=2 * whole))
            log.close()
            shutil.rmtree(tmp_path / "cut")


def _truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _zeroed(data: bytes) -> bytes:
    return bytes(len(data))


def _halfway_zeroed(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes(len(data) - len(data) // 2)


def _noisy(data: bytes) -> bytes:
    return random.Random(len(data)).randbytes(len(data))


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("spoil", [None, _truncated, _zeroed, _halfway_zeroed, _noisy])
def test_any_other_file_may_be_cut_overwritten_or_lost_and_nothing_is_missing(
    tmp_path: Path, spoil: Callable[[bytes], bytes] | None, clean: bool
) -> None:
    """All files but segments, of the log and of its directory."""
    topic_partition = TopicPartition("orders", 0)
    data = tmp_path / "data"
    data.mkdir()
    end, written = _written(data / "orders-0", 1400)
    for name in (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE):
        write_offsets(data / name, {topic_partition: 0 if name == LOG_START_OFFSET_FILE else end})
    others = [path.relative_to(data) for path in data.rglob("*") if path.is_file() and path.suffix != ".log"]
    assert len(others) > 10
    for other in others:
        shutil.copytree(data, tmp_path / "spoiled")
        path = tmp_path / "spoiled" / other
        if spoil is None:
            path.unlink()
        else:
            path.write_bytes(spoil(path.read_bytes()))
        if clean:
            write_clean_shutdown(tmp_path / "spoiled")
        manager = LogManager([tmp_path / "spoiled"], broker_id=1, cluster_id="c")
        manager.load(NOW_MS)
        log = checked(manager.logs[topic_partition])
        assert (Found(log).served, log.log_end_offset) == (written, end), other
        assert log.producers.entries[3].last_sequence == 2 * BATCHES - 1, other
        assert log.leader_epochs.latest == 0, other
        log.set_topic_id(TOPIC_ID)  # as the controller does
        found = log.offset_for_timestamp(NOW_MS + BATCHES // 2)
        assert found is not None
        assert found.offset == BATCHES, other
        assert append(log, produced(2, producer_id=3, sequence=2 * BATCHES)).first_offset == end
        manager.shutdown()
        shutil.rmtree(tmp_path / "spoiled")
