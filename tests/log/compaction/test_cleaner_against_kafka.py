"""Our cleaner against Kafka's, on copies of one directory: the same records stay, in the same batches."""

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.brokers import run_tool
from ottla.log.compaction.cleaned_transactions import aborted_transactions
from ottla.log.compaction.compaction import CleanerLimits
from ottla.log.log import PartitionLog
from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.wire.records.batch import (
    Compression,
    ControlType,
    NewRecord,
    Record,
    TimestampType,
    build_batch,
    build_control_batch,
    iter_batches,
    iter_records,
    parse_header,
    place,
)
from tests.log.building import TOPIC_PARTITION, append, open_log
from tests.log.compaction.compacting import clean_log, keyed
from tests.log.kafka_log import KafkaLog

pytestmark = [pytest.mark.once, pytest.mark.slow]

RETENTION_MS = 1000
CONFIG: dict[str, Any] = {
    "segment_bytes": 1 << 20,
    "segment_index_bytes": 4000,
    "index_interval_bytes": 300,
    "delete_retention_ms": RETENTION_MS,
}
KAFKA_CONFIG = (
    f"cleanup.policy=compact,internal.segment.bytes=1048576,segment.index.bytes=4000,index.interval.bytes=300,"
    f"delete.retention.ms={RETENTION_MS}"
)
KEYS = [None, b"", b"a", b"b", b"c", b"a long key of its own " * 3, b"a long key of another " * 3]
BATCHES = 60


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaLog]:
    with KafkaLog() as running:
        yield running


class History:
    """Random batches of several producers, with their offsets."""

    def __init__(self, choose: random.Random, producers: Sequence[int] = (-1, -1, 4, 5, 6, 7)) -> None:
        """Producers above 5 write in transactions; -1 means no producer."""
        self.choose = choose
        self.producers = producers
        self.now_ms = int(time.time() * 1000)  # Kafka expires older producers
        self.end = 0
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()

    def batch(self) -> bytes:
        choose = self.choose
        self.now_ms += choose.randrange(100)
        ends = self.open and choose.random() < 0.4
        batch = self.marker(choose.choice(sorted(self.open))) if ends else self.data()
        # A follower sees gaps after compaction on its leader.
        self.end += choose.choice([0, 0, 0, 2])
        place(batch, self.end, 0)
        self.end = parse_header(batch).next_offset
        return bytes(batch)

    def marker(self, producer_id: int) -> bytearray:
        self.open.discard(producer_id)
        kind = self.choose.choice([ControlType.COMMIT, ControlType.ABORT])
        return build_control_batch(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=self.now_ms
        )

    def data(self) -> bytearray:
        choose = self.choose
        producer_id = choose.choice(self.producers)
        count = choose.randrange(1, 6)
        records = [
            NewRecord(
                choose.choice(KEYS),
                choose.choice([None, b"", choose.randbytes(30)]),
                self.now_ms + choose.randrange(-20, 20),
                choose.choice([(), (("h", None), ("i", b"x"))]),
            )
            for _ in range(count)
        ]
        is_transactional = producer_id > 5
        if is_transactional:
            self.open.add(producer_id)
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + count
        known = producer_id >= 0
        return build_batch(
            records,
            compression=choose.choice(list(Compression)),
            timestamp_type=choose.choice([TimestampType.CREATE_TIME] * 3 + [TimestampType.LOG_APPEND_TIME]),
            producer_id=producer_id,
            producer_epoch=0 if known else -1,
            base_sequence=sequence if known else -1,
            transactional=is_transactional,
        )


def contents(directory: Path) -> list[tuple[Any, ...]]:
    """Return all fields of all batches by segment; of base timestamps only delete horizons."""
    found: list[tuple[Any, ...]] = []
    for path in sorted(directory.glob("*.log")):
        found.append((path.name,))
        for header, batch in iter_batches(memoryview(path.read_bytes())):
            records: list[Record] = list(iter_records(batch))
            fields = header._replace(batch_length=0, crc=0, base_timestamp=0)
            found.append((fields, header.base_timestamp if header.has_delete_horizon else None, records))
    return found


def expect_the_same(ours: Path, theirs: Path) -> None:
    """Compare batch by batch, so that a failure shows the first difference."""
    for mine, kafkas in zip_longest(contents(ours), contents(theirs)):
        assert mine == kafkas


def aborted(directory: Path) -> list[AbortedTransaction]:
    return aborted_transactions(directory, 0, 1 << 60)


def write(directory: Path, kafka: KafkaLog, history: History) -> None:
    """Write a log with Kafka."""
    directory.mkdir(parents=True)
    kafka.ask("open", directory, "clean", 0, KAFKA_CONFIG)
    for _ in range(BATCHES):
        kafka.ask("follow", 0, history.batch().hex())
        if history.choose.random() < 0.15:
            kafka.ask("roll")
    kafka.ask("roll")
    kafka.ask("close")


def clean_both(log: PartitionLog, kafka: KafkaLog, first_dirty_offset: int, now_ms: int, max_keys: int) -> int:
    theirs = int(kafka.ask("clean", first_dirty_offset, now_ms, max_keys))
    limits = CleanerLimits(max_keys, 1 << 18)
    assert clean_log(log, first_dirty_offset, limits=limits, now_ms=now_ms).end_offset == theirs
    return theirs


@pytest.mark.trials(few=10, soak=50)
def test_ours_and_kafkas_cleaner_keep_the_same_records(tmp_path: Path, kafka: KafkaLog, trials: int, seed: int) -> None:
    for trial in range(trials):
        choose = random.Random(f"{seed} {trial}")
        theirs = tmp_path / f"{trial}-kafka" / str(TOPIC_PARTITION)
        ours = tmp_path / f"{trial}-ours" / str(TOPIC_PARTITION)
        history = History(choose)
        write(theirs, kafka, history)
        shutil.copytree(theirs, ours)
        log = open_log(ours, **CONFIG)
        kafka.ask("open", theirs, "clean", 0, KAFKA_CONFIG)
        clean_to, now_ms = 0, history.now_ms
        for _ in range(6):
            now_ms += choose.choice([0, RETENTION_MS // 2, RETENTION_MS])
            # A log without dirt is never cleaned.
            begin = clean_to if choose.random() < 0.8 and clean_to < history.end else 0
            clean_to = clean_both(log, kafka, begin, now_ms, choose.choice([2, 4, 100]))
            expect_the_same(ours, theirs)
            assert aborted(ours) == aborted(theirs)
        kafka.ask("close")
        log.close()
        state = kafka.ask("open", ours, "crashed", 0, KAFKA_CONFIG)
        assert state.startswith(f"{history.end} ")
        expect_the_same(ours, theirs)
        kafka.ask("close")


def test_kafkas_dump_finds_nothing_wrong_with_a_cleaned_log(tmp_path: Path, kafka: KafkaLog, seed: int) -> None:
    directory = tmp_path / str(TOPIC_PARTITION)
    # For a batch without records the tool reports a missing timestamp, in Kafka's own logs too.
    history = History(random.Random(seed), producers=[-1])
    write(directory, kafka, history)
    log = open_log(directory, **CONFIG)
    append(log, keyed((b"a", b"the last batch keeps its record"), timestamp=history.now_ms))
    log.roll(history.now_ms)
    clean_log(log, now_ms=history.now_ms)
    log.close()
    logs = ",".join(map(str, sorted(directory.glob("*.log"))))
    dumped = run_tool("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", logs)
    kept = [record for _, _, records in filter(lambda each: len(each) > 1, contents(directory)) for record in records]
    assert dumped.count("| offset: ") == len(kept)
    assert "isvalid: false" not in dumped
    for suffix in ("index", "timeindex"):
        files = ",".join(str(path) for path in sorted(directory.glob(f"*.{suffix}")) if path.stat().st_size)
        said = run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", files)
        assert "Mismatches" not in said
        assert "Found" not in said
