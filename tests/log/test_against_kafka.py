"""Our log against Kafka's: the same appends leave the same files, and each can continue the log of the other."""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.brokers import run_tool
from ottla.log.log import PartitionLog
from ottla.log.state.producer_snapshot import decode_snapshot
from ottla.log.verify.verify import verify
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import ControlType, ProducedBatch, build_control_batch
from tests.log.building import NOW_MS, TOPIC_PARTITION, append, content, open_log, produced
from tests.log.kafka_log import KafkaLog, KafkaRefused

pytestmark = [pytest.mark.once, pytest.mark.slow]

CONFIG: dict[str, Any] = {
    "segment_bytes": 4000,
    "index_interval_bytes": 300,
    "segment_index_bytes": 120,
    "segment_ms": 50_000,
}
KAFKA_CONFIG = "internal.segment.bytes=4000,index.interval.bytes=300,segment.index.bytes=120,segment.ms=50000"
REFUSALS = {
    "OutOfOrderSequenceException": ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    "InvalidProducerEpochException": ErrorCode.INVALID_PRODUCER_EPOCH,
    "InvalidTxnStateException": ErrorCode.INVALID_TXN_STATE,
}
DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaLog]:
    with KafkaLog() as running:
        yield running


def _state(log: PartitionLog) -> str:
    bases = ",".join(str(segment.base_offset) for segment in log.segments)
    epochs = ",".join(f"{entry.epoch}:{entry.start_offset}" for entry in log.leader_epochs.entries)
    snapshots = (entry.to_snapshot() for _, entry in sorted(log.producers.entries.items()))
    producers = ",".join(
        f"{found.producer_id}:{found.producer_epoch}:{found.last_sequence}:{found.last_offset}:"
        f"{found.coordinator_epoch}:{found.current_txn_first_offset}"
        for found in snapshots
    )
    return f"{log.log_end_offset} {bases} [{epochs}] [{producers}]"


def _files(directory: Path) -> dict[str, object]:
    """Return the content of a directory, with sorted snapshots. Kafka does not always create an index at once."""
    return {
        path.name: sorted(decode_snapshot(path.read_bytes())) if path.suffix == ".snapshot" else path.read_bytes()
        for path in directory.iterdir()
        if path.suffix != ".deleted" and (path.stat().st_size or "index" not in path.suffix)
    }


class Both:
    """One log twice: ours and Kafka's."""

    def __init__(self, ours: Path, theirs: Path, kafka: KafkaLog, choose: random.Random) -> None:
        self.ours = ours / str(TOPIC_PARTITION)
        self.theirs = theirs / str(TOPIC_PARTITION)
        self.kafka = kafka
        self.choose = choose
        self.epoch = 0
        self.sequences: dict[int, tuple[int, int]] = {}
        self.clock = self.start_ms = int(time.time() * 1000) - 3_600_000  # Kafka expires older producers
        for directory in (self.ours, self.theirs):
            directory.mkdir(parents=True, exist_ok=True)

    def open(self, *, clean: bool = True, recovery_point: int = 0) -> None:
        state = self.kafka.ask("open", self.theirs, "clean" if clean else "crashed", recovery_point, KAFKA_CONFIG)
        self.log = open_log(self.ours, clean=clean, recovery_point=recovery_point, **CONFIG)
        assert _state(self.log) == state

    def recover(self, recovery_point: int) -> bool:
        """An offset beyond the range of its segment, which no checksum covers, stops Kafka's start but not ours."""
        try:
            self.open(clean=False, recovery_point=recovery_point)
        except KafkaRefused as refused:
            if "splitOverflowedSegment" not in str(refused):
                raise
            self.log = open_log(self.ours, clean=False, recovery_point=recovery_point, **CONFIG)
            return False
        return True

    def batch(self) -> ProducedBatch:
        choose = self.choose
        self.clock += choose.choice([0, 1, 50, -30, 5000])
        count = choose.randrange(1, 6)
        times = [self.clock + choose.randrange(-20, 20) for _ in range(count)]
        value = choose.randbytes(choose.choice([0, 10, 300, 600]))
        producer = choose.choice([-1, -1, 4, 5, 6])
        if producer < 0:
            return produced(value=value, timestamps=times)
        epoch, sequence = self.sequences.get(producer, (0, choose.choice([0, 7, 2**31 - 3])))
        whim = choose.random()
        if whim < 0.05:
            sequence += choose.choice([-1, 1, 3])
        elif whim < 0.1:
            epoch, sequence = epoch + 1, choose.choice([0, 0, 5])
        elif whim < 0.13:
            epoch = max(epoch - 1, 0)
        batch = produced(
            value=value, timestamps=times, producer_id=producer, epoch=epoch, sequence=sequence & (2**31 - 1),
            transactional=producer == 6,
        )  # fmt: skip
        self.again = batch
        return batch

    def append(self) -> None:
        batch = self.batch()
        if self.choose.random() < 0.05 and batch.header.producer_id < 0:
            self.epoch += 1
        sent = bytes(batch.data).hex()
        try:
            theirs: object = self.kafka.ask("lead", self.epoch, sent)
        except KafkaRefused as refused:
            theirs = REFUSALS[str(refused).split()[1]]
        try:
            info = append(self.log, batch, epoch=self.epoch)
            ours: object = f"{info.first_offset} {info.last_offset}"
            if batch.header.producer_id >= 0 and not info.is_duplicate:
                following = (batch.header.last_sequence + 1) & (2**31 - 1)
                self.sequences[batch.header.producer_id] = (batch.header.producer_epoch, following)
        except KafkaError as refused:
            ours = refused.code
        assert ours == theirs
        if _state(self.log) != self.kafka.ask("state"):
            # Kafka assigns the epoch and rolls before it checks sequences; our log does so only for appended batches.
            assert ours != f"{self.log.log_end_offset - batch.header.record_count} {self.log.log_end_offset - 1}"
            self.log.assign_epoch(self.epoch)
            if _state(self.log) != self.kafka.ask("state"):
                self.log.roll(NOW_MS)
            assert _state(self.log) == self.kafka.ask("state")

    def truncate(self) -> None:
        end = self.log.log_end_offset
        offset = self.choose.randrange(max(0, end - 12), end + 2)
        self.kafka.ask("time", -3)  # Kafka searches the largest remaining timestamp only if it knew the one before
        state = self.kafka.ask("truncate", offset)
        self.log.truncate_to(offset)
        assert _state(self.log) == state
        self._learn_sequences()

    def _learn_sequences(self) -> None:
        self.sequences = {
            pid: (entry.producer_epoch, (entry.last_sequence + 1) & (2**31 - 1))
            for pid, entry in self.log.producers.entries.items()
        }

    def look(self) -> None:
        end = self.log.log_end_offset
        offset, limit, whole = (
            self.choose.randrange(end + 1),
            self.choose.choice([1, 100, 1000, 10**6]),
            self.choose.random() < 0.5,
        )
        read = content(self.log.read(offset, limit, end, whole))
        assert (read.hex() or "empty") == self.kafka.ask("read", offset, limit, "whole" if whole else "cut")
        timestamp = self.choose.randrange(self.start_ms - 100, self.clock + 100)
        found = self.log.offset_for_timestamp(timestamp)
        assert (" ".join(map(str, found)) if found else "none") == self.kafka.ask("time", timestamp)
        newest = self.log.offset_of_max_timestamp()
        assert (" ".join(map(str, newest)) if newest else "none") == self.kafka.ask("time", -3)

    def work(self, steps: int) -> None:
        for _ in range(steps):
            whim = self.choose.random()
            if whim < 0.03:
                self.truncate()
            elif whim < 0.25:
                self.look()
            else:
                self.append()
        assert _state(self.log) == self.kafka.ask("state")

    def close(self) -> None:
        self.kafka.ask("close")
        self.log.close()
        assert _files(self.ours) == _files(self.theirs)
        assert verify([self.ours, self.theirs], pytest.fail).is_sound

    def crash(self) -> None:
        self.kafka.ask("crash")
        self.log.release()


@pytest.mark.trials(few=10, soak=50)
def test_the_same_appends_leave_the_same_files(tmp_path: Path, kafka: KafkaLog, trials: int, seed: int) -> None:
    for trial in range(trials):
        both = Both(tmp_path / f"{trial}-ours", tmp_path / f"{trial}-kafka", kafka, random.Random(f"{seed} {trial}"))
        both.open()
        for _ in range(3):
            both.work(60)
            both.close()
            both.open()
        both.close()


@pytest.mark.trials(few=10, soak=50)
def test_after_a_crash_ours_and_kafkas_log_keep_the_same(
    tmp_path: Path, kafka: KafkaLog, trials: int, seed: int
) -> None:
    """Tear or damage the last file of one log; both recover from a copy."""
    for trial in range(trials):
        choose = random.Random(f"{seed} {trial}")
        both = Both(tmp_path / f"{trial}-ours", tmp_path / f"{trial}-kafka", kafka, choose)
        both.open()
        for survivor in ("ours", "kafka"):
            both.work(60)
            both.crash()
            kept, lost = (both.ours, both.theirs) if survivor == "ours" else (both.theirs, both.ours)
            _damage(max(kept.glob("*.log")), choose)
            shutil.rmtree(lost)
            shutil.copytree(kept, lost)
            if not both.recover(choose.choice([0, both.log.log_end_offset // 2])):
                break
            both._learn_sequences()
            both.epoch = max(both.epoch, both.log.leader_epochs.latest)
        else:
            both.close()


def _damage(path: Path, choose: random.Random) -> None:
    """Tear the last batch, or flip a bit under its checksum; then maybe append noise.

    Fields without a checksum, as the base offset, stay, because the two logs treat them differently.
    """
    data = bytearray(path.read_bytes())
    if data and choose.random() < 0.5:
        data = data[: len(data) - choose.randrange(1, min(len(data), 500) + 1)]
    elif data and choose.random() < 0.5:
        data[-choose.randrange(1, 30)] ^= 1 << choose.randrange(8)
    path.write_bytes(data + choose.choice([b"", b"", bytes(choose.randrange(100)), choose.randbytes(100)]))


@pytest.mark.trials(few=10, soak=50)
def test_ours_and_kafkas_log_go_on_in_each_others_directory(
    tmp_path: Path, kafka: KafkaLog, trials: int, seed: int
) -> None:
    for trial in range(trials):
        both = Both(tmp_path / str(trial), tmp_path / str(trial), kafka, random.Random(f"{seed} {trial}"))
        state = "0 0 [] []"
        for _ in range(4):
            assert kafka.ask("open", both.theirs, "clean", 0, KAFKA_CONFIG) == state
            for _ in range(both.choose.randrange(20)):
                batch = both.batch()
                answer = kafka.ask("lead", 1, bytes(batch.data).hex()) if batch.header.producer_id < 0 else ""
                assert len(answer.split()) in (0, 2)
            state = kafka.ask("state")
            kafka.ask("close")
            log = open_log(both.ours, **CONFIG)
            assert _state(log) == state
            for _ in range(both.choose.randrange(20)):
                batch = both.batch()
                if batch.header.producer_id < 0:
                    append(log, batch, epoch=1)
            state = _state(log)
            log.close()


def _dump(*arguments: str) -> str:
    return run_tool(DUMP, *arguments)


def _complaints(printed: str) -> list[str]:
    """Return the complaints of the tool, without the one about a file that does not start at offset 0."""
    shown = ("baseOffset:", "| offset:", "Dumping ", "Log starting offset:", "producerId:", "offset:", "timestamp:")
    lines = [line for line in printed.splitlines() if line and not line.startswith(shown)]
    return [line for line in lines if not line.startswith(("Non-consecutive offsets in", "  -1 is followed by"))]


def test_kafkas_dump_tool_finds_nothing_wrong(tmp_path: Path) -> None:
    choose = random.Random(1)
    directory = tmp_path / str(TOPIC_PARTITION)
    log = open_log(directory, segment_bytes=30_000, index_interval_bytes=500)
    sequence = 0
    for number in range(200):
        count = choose.randrange(1, 9)
        timestamp = NOW_MS + number
        append(log, produced(count, value=b"v" * 100, producer_id=3, sequence=sequence, timestamp=timestamp))
        sequence += count
    log.close()
    logs = sorted(str(path) for path in directory.glob("*.log"))
    indexes = sorted(str(path) for path in directory.glob("*index"))
    snapshots = sorted(str(path) for path in directory.glob("*.snapshot"))
    assert len(logs) > 3
    printed = _dump("--deep-iteration", "--print-data-log", "--files", ",".join(logs))
    assert printed.count("| offset:") == log.log_end_offset
    assert printed.count("isvalid: true") == 200
    assert "isvalid: false" not in printed
    assert _complaints(printed) == []
    checked = _dump("--index-sanity-check", "--files", ",".join(indexes))
    assert checked.count("passed sanity check") == len(indexes)
    assert len(_complaints(checked)) == len(indexes)
    assert _complaints(_dump("--verify-index-only", "--files", ",".join(indexes))) == []
    shown = _dump("--files", ",".join(snapshots))
    assert shown.count("producerId: 3 producerEpoch: 0") == len(snapshots)
    assert _complaints(shown) == []
    _spoil(Path(indexes[0]))
    assert _complaints(_dump("--verify-index-only", "--files", indexes[0])) != []


def test_kafkas_dump_tool_reads_which_transactions_were_aborted(tmp_path: Path) -> None:
    log = open_log(tmp_path / str(TOPIC_PARTITION))
    append(log, produced(2, producer_id=7, transactional=True))
    marker = build_control_batch(
        ControlType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp=NOW_MS, base_offset=2
    )
    log.append_as_follower(memoryview(marker), NOW_MS)
    log.close()
    (index,) = log.directory.glob("*.txnindex")
    printed = _dump("--files", str(index))
    assert "version: 0 producerId: 7 firstOffset: 0 lastOffset: 2 lastStableOffset: 3" in printed


def _spoil(index: Path) -> None:
    """Move the first entry by one offset."""
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)
