"""Transactions in compacted logs: aborted records and spent markers are removed."""

from pathlib import Path
from typing import Any

from ottla.log.compaction.cleaned_transactions import aborted_transactions
from ottla.log.log import PartitionLog
from ottla.log.segments.open_files import OpenFiles
from ottla.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from ottla.wire.records.batch import (
    ControlType,
    NewRecord,
    ProducedBatch,
    build_batch,
    build_control_batch,
    iter_batches,
    parse_header,
)
from tests.log.building import NOW_MS, append, open_log
from tests.log.compaction.compacting import clean_log

LATER_MS = NOW_MS + 10_000
CONFIG: dict[str, Any] = {"delete_retention_ms": 1000}


def _produced(data: bytearray) -> ProducedBatch:
    view = memoryview(data)
    header = parse_header(view)
    return ProducedBatch(header, view, header.max_timestamp)


def write(log: PartitionLog, producer_id: int, sequence: int, key: bytes) -> None:
    record = NewRecord(key, b"of %d" % producer_id, NOW_MS)
    append(
        log,
        _produced(
            build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
        ),
    )


def end(log: PartitionLog, producer_id: int, kind: ControlType) -> None:
    marker = build_control_batch(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS)
    append(log, _produced(marker))


def contents(log: PartitionLog) -> list[tuple[int, int, bool]]:
    """Return offset, number of records and whether a delete horizon is set, of each batch."""
    found = []
    for segment in log.segments:
        data = memoryview(Path(segment.file.path).read_bytes())
        found += [(each.base_offset, each.record_count, each.has_delete_horizon) for each, _ in iter_batches(data)]
    return found


def test_aborted_records_are_removed_at_once_and_markers_after_delete_retention_ms(tmp_path: Path) -> None:
    log = open_log(tmp_path, **CONFIG)
    write(log, 1, 0, b"a")  # 0, committed
    write(log, 2, 0, b"a")  # 1, aborted: it does not supersede the one before
    end(log, 1, ControlType.COMMIT)  # 2
    write(log, 2, 1, b"b")  # 3, aborted; the last batch of its producer
    end(log, 2, ControlType.ABORT)  # 4
    (aborted,) = log.segments[0].transactions.entries
    log.roll(NOW_MS)
    clean_log(log, now_ms=LATER_MS)
    assert contents(log) == [(0, 1, False), (2, 1, False), (3, 0, False), (4, 1, False)]
    assert aborted_transactions(tmp_path, 0, 9) == [aborted]
    # The last batch of the producer stays, and keeps the marker as long as it stays.
    log.producers.remove_expired(NOW_MS + 2 * 86_400_000)
    clean_log(log, 5, now_ms=LATER_MS)
    assert contents(log) == [(0, 1, False), (2, 1, False), (4, 1, False)]
    clean_log(log, 5, now_ms=LATER_MS)
    assert contents(log) == [(0, 1, False), (2, 1, False), (4, 1, True)]
    assert aborted_transactions(tmp_path, 0, 9) == []
    assert not list(tmp_path.glob("*.txnindex"))
    clean_log(log, 5, now_ms=LATER_MS + 999)
    assert contents(log)[-1] == (4, 1, True)
    clean_log(log, 5, now_ms=LATER_MS + 1000)
    # The last batch of the log stays, without records.
    assert contents(log) == [(0, 1, False), (2, 1, False), (4, 0, False)]
    log.close()


def test_the_marker_of_a_committed_transaction_is_removed_after_its_records(tmp_path: Path) -> None:
    log = open_log(tmp_path, **CONFIG)
    write(log, 1, 0, b"a")
    end(log, 1, ControlType.COMMIT)
    write(log, 3, 0, b"a")
    end(log, 3, ControlType.COMMIT)
    log.roll(NOW_MS)
    log.producers.remove_expired(NOW_MS + 2 * 86_400_000)
    clean_log(log, now_ms=LATER_MS)
    assert contents(log) == [(1, 1, False), (2, 1, False), (3, 1, False)]
    clean_log(log, 4, now_ms=LATER_MS)
    assert contents(log) == [(1, 1, True), (2, 1, False), (3, 1, False)]
    clean_log(log, 4, now_ms=LATER_MS + 1000)
    assert contents(log) == [(2, 1, False), (3, 1, False)]
    log.close()


def test_aborted_transactions_are_found_by_the_offsets_they_span(tmp_path: Path) -> None:
    first, second = AbortedTransaction(1, 5, 20, 21), AbortedTransaction(2, 2, 9, 10)
    for name, entries in (("a", [first]), ("b", [second, first])):
        index = TransactionIndex(OpenFiles(), str(tmp_path / f"{name}.txnindex"))
        for entry in entries:
            index.append(entry)
        index.release()
    assert aborted_transactions(tmp_path, 0, 100) == [second, first]
    assert aborted_transactions(tmp_path, 10, 100) == [first]
    assert aborted_transactions(tmp_path, 0, 5) == [second]
    assert aborted_transactions(tmp_path, 21, 100) == []
