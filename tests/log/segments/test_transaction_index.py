"""Readers of committed records see exactly the committed records, even after damage to the files."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from ottla.log.log import PartitionLog
from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.wire.records.batch import (
    ControlType,
    NewRecord,
    build_batch,
    build_control_batch,
    end_transaction_marker,
    iter_batches,
    iter_records,
)
from tests.log.building import NOW_MS, content, open_log

pytestmark = pytest.mark.once

CONFIG: Final[dict[str, Any]] = {"segment_bytes": 1500, "index_interval_bytes": 200}
PRODUCERS: Final = range(4)


class Written(NamedTuple):
    """The expected log: committed values by offset, and the producers with an open transaction."""

    committed: dict[int, bytes]
    open_since: dict[int, int]


def batches(choose: random.Random, count: int) -> Iterator[tuple[int, bytes, int, ControlType | None]]:
    """Yield producer, batch, offset and kind of a random history of overlapping transactions."""
    sequences = dict.fromkeys(PRODUCERS, 0)
    is_open: set[int] = set()
    offset = 0
    for _ in range(count):
        producer = choose.choice(PRODUCERS)
        if producer in is_open and choose.random() < 0.4:
            kind = choose.choice([ControlType.ABORT, ControlType.COMMIT])
            is_open.discard(producer)
            marker = build_control_batch(
                kind, producer_id=producer, producer_epoch=0, coordinator_epoch=1, timestamp=NOW_MS, base_offset=offset
            )
            yield producer, bytes(marker), offset, kind
            offset += 1
        else:
            values = [
                NewRecord(value=b"%d" % (offset + each), timestamp=NOW_MS) for each in range(choose.randint(1, 3))
            ]
            batch = build_batch(
                values,
                base_offset=offset,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequences[producer],
                transactional=True,
            )
            is_open.add(producer)
            sequences[producer] += len(values)
            yield producer, bytes(batch), offset, None
            offset += len(values)


def written(log: PartitionLog, choose: random.Random, count: int) -> Written:
    """Fill a log as a follower does, and note the expected records."""
    committed: dict[int, bytes] = {}
    pending: dict[int, dict[int, bytes]] = {each: {} for each in PRODUCERS}
    open_since: dict[int, int] = {}
    for producer, batch, offset, kind in batches(choose, count):
        log.append_as_follower(memoryview(batch), NOW_MS)
        if kind is None:
            open_since.setdefault(producer, offset)
            pending[producer] |= {each.offset: each.value or b"" for each in iter_records(batch)}
        else:
            open_since.pop(producer)
            if kind is ControlType.COMMIT:
                committed |= pending[producer]
            pending[producer] = {}
    return Written(committed, open_since)


def read_committed(log: PartitionLog, offset: int, max_bytes: int) -> dict[int, bytes]:
    """Return all committed records from an offset on, filtered as a consumer does."""
    unstable = log.producers.first_unstable_offset(log.log_end_offset)
    end = log.log_end_offset if unstable is None else unstable
    found: dict[int, bytes] = {}
    while offset < end:
        data = content(log.read(offset, max_bytes, end, min_one_message=True))
        aborted = sorted(
            log.segments.aborted_transactions(offset, len(data), log.log_end_offset), key=lambda each: each[1]
        )
        skipped: set[int] = set()
        for header, batch in iter_batches(memoryview(data)):
            while aborted and aborted[0].first_offset <= header.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if header.is_control:
                if end_transaction_marker(batch).control_type is ControlType.ABORT:
                    skipped.discard(header.producer_id)
            elif header.producer_id not in skipped:
                found |= {each.offset: each.value or b"" for each in iter_records(batch) if each.offset >= offset}
            following = header.next_offset
        offset = following
    return found


def check(log: PartitionLog, expected: Written, choose: random.Random) -> None:
    end = min(expected.open_since.values(), default=log.log_end_offset)
    assert log.producers.first_unstable_offset(log.log_end_offset) == min(expected.open_since.values(), default=None)
    for offset in (0, choose.randrange(log.log_end_offset)):
        wanted = {each: value for each, value in expected.committed.items() if offset <= each < end}
        assert read_committed(log, offset, choose.choice([1, 300, 10**6])) == wanted


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.txnindex") if path.stat().st_size}


@pytest.mark.trials(few=10, soak=50)
def test_readers_of_committed_records_see_all_of_them_and_no_others(tmp_path: Path, trials: int, seed: int) -> None:
    for trial in range(trials):
        choose = random.Random(f"{seed} {trial}")
        directory = tmp_path / str(trial)
        log = open_log(directory, **CONFIG)
        expected = written(log, choose, 120)
        assert len(log.segments) > 3
        check(log, expected, choose)
        log.close()
        indexes = files(directory)
        assert indexes
        log = open_log(directory, **CONFIG)
        check(log, expected, choose)
        log.release()
        for path in directory.glob("*.txnindex"):
            entry = bytes(2) + 4 * (1 << 40).to_bytes(8, "big")
            path.write_bytes(choose.choice([b"", b"?" * 34, path.read_bytes(), path.read_bytes() + entry]))
        log = open_log(directory, clean=False, **CONFIG)
        check(log, expected, choose)
        log.release()
        assert files(directory) == indexes


def test_a_damaged_transaction_index_is_rebuilt(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    log = open_log(tmp_path, **CONFIG)
    expected = written(log, choose, 120)
    log.close()
    indexes = files(tmp_path)
    for name, damage in ((next(iter(indexes)), b"short"), (list(indexes)[-1], b"\xff" * 34)):
        (tmp_path / name).write_bytes(damage)
        log = open_log(tmp_path, **CONFIG)
        check(log, expected, choose)
        log.close()
        assert files(tmp_path) == indexes


@pytest.mark.trials(few=10, soak=50)
def test_truncating_the_marker_reopens_the_transaction(tmp_path: Path, trials: int, seed: int) -> None:
    for trial in range(trials):
        choose = random.Random(f"{seed} {trial}")
        whole, part = (open_log(tmp_path / f"{trial}-{name}", **CONFIG) for name in ("whole", "part"))
        history = list(batches(choose, 120))
        kept = choose.randrange(10, 120)
        for number, (_, batch, _, _) in enumerate(history):
            whole.append_as_follower(memoryview(batch), NOW_MS)
            if number < kept:
                part.append_as_follower(memoryview(batch), NOW_MS)
        whole.truncate_to(part.log_end_offset)
        # A segment that begins at the truncation point stays, empty.
        assert [each.transactions.entries for each in whole.segments if each.size] == [
            each.transactions.entries for each in part.segments
        ]
        whole.close()
        part.close()
        assert files(whole.directory) == files(part.directory)


def test_an_entry_is_as_kafka_writes_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first, second = (
        build_batch(
            [NewRecord()], base_offset=each, producer_id=each, producer_epoch=0, base_sequence=0, transactional=True
        )
        for each in (0, 1)
    )
    ends = (
        build_control_batch(
            ControlType.ABORT,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=2 + slot,
        )
        for slot, producer in enumerate((1, 0))
    )
    for batch in (first, second, *ends):
        log.append_as_follower(memoryview(batch), NOW_MS)
    assert log.segments.active.transactions.entries == [AbortedTransaction(1, 1, 2, 0), AbortedTransaction(0, 0, 3, 4)]
    (data,) = files(tmp_path).values()
    assert data[:34] == bytes(2) + b"".join(each.to_bytes(8, "big") for each in (1, 1, 2, 0))
    log.segments.active.delete()
    assert not list(tmp_path.glob("*.txnindex"))


@pytest.mark.parametrize(("high_watermark", "stable"), [(2, 0), (3, 3)])
def test_a_marker_above_the_high_watermark_closes_no_transaction(
    tmp_path: Path, high_watermark: int, stable: int
) -> None:
    log = open_log(tmp_path)
    for offset in (0, 1):
        log.append_as_follower(
            memoryview(
                build_batch(
                    [NewRecord()],
                    base_offset=offset,
                    producer_id=1,
                    producer_epoch=0,
                    base_sequence=offset,
                    transactional=True,
                )
            ),
            NOW_MS,
        )
    marker = build_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=2
    )
    log.append_as_follower(memoryview(marker), NOW_MS)
    unstable = log.producers.first_unstable_offset(high_watermark)
    assert (high_watermark if unstable is None else unstable) == stable
