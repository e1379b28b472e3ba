"""Transactions in a leader's log: markers, the transaction index, the last stable offset, and what a restart finds."""

import random
from pathlib import Path
from typing import Any, Final

import pytest
from crc32c import crc32c

from ottla.log.append import Append, SegmentWrite
from ottla.log.log import PartitionLog
from ottla.log.segments.transaction_index import AbortedTransaction
from ottla.log.state.producer_snapshot import SnapshotEntry
from ottla.log.state.verification import AppendOrigin, TransactionalAppend, VerificationGuard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import ControlType, ProducedBatch, end_transaction_marker, iter_batches
from tests.log.building import NOW_MS, append, content, marker, open_log, produced

pytestmark = pytest.mark.once

SMALL: Final[dict[str, Any]] = {"segment_bytes": 400, "index_interval_bytes": 100}
MARKER: Final = TransactionalAppend(transaction_version=0)


def start(log: PartitionLog, producer_id: int, sequence: int, epoch: int = 0) -> VerificationGuard | None:
    return log.producers.start_verification(producer_id, sequence, epoch, False, NOW_MS)


def write(log: PartitionLog, producer_id: int, sequence: int = 0, count: int = 1, *, epoch: int = 0) -> int:
    """Append a batch of a transaction; return its offset."""
    how = TransactionalAppend(guard=start(log, producer_id, sequence, epoch))
    each = produced(count, producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=True)
    return append(log, each, how=how).first_offset


def end(log: PartitionLog, producer_id: int, kind: ControlType, **given: int) -> int:
    """Append a marker; return its offset."""
    return append(log, marker(producer_id, kind, **given), how=MARKER).first_offset


def aborted(log: PartitionLog) -> list[AbortedTransaction]:
    return [entry for segment in log.segments for entry in segment.transactions.entries]


def snapshot(log: PartitionLog) -> dict[int, SnapshotEntry]:
    return {pid: entry.to_snapshot() for pid, entry in log.producers.entries.items()}


def test_an_abort_marker_enters_the_transaction_index(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1, count=2)
    write(log, 2)
    append(log, produced(3))
    assert end(log, 1, ControlType.ABORT) == 6
    assert aborted(log) == [AbortedTransaction(1, 0, 6, 2)]
    end(log, 2, ControlType.COMMIT)
    assert aborted(log) == [AbortedTransaction(1, 0, 6, 2)]
    (path,) = tmp_path.glob("*.txnindex")
    assert path.read_bytes() == b"\0\0" + b"".join(each.to_bytes(8, "big") for each in (1, 0, 6, 2))


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_has_its_offset_and_epoch_and_ends_the_transaction_once_it_is_replicated(
    tmp_path: Path, kind: ControlType
) -> None:
    log = open_log(tmp_path)
    append(log, produced(2))
    write(log, 1)
    assert log.producers.first_unstable_offset(3) == 2
    append(log, marker(1, kind, coordinator_epoch=9), epoch=5, how=MARKER)
    ((header, data),) = iter_batches(memoryview(content(log.read(3, 1000, 4, True))))
    assert (header.base_offset, header.partition_leader_epoch, header.is_control) == (3, 5, True)
    assert end_transaction_marker(data) == (kind, 9)
    assert log.producers.entries[1].current_txn_first_offset == -1
    assert log.producers.first_unstable_offset(3) == 2
    assert log.producers.first_unstable_offset(4) is None


def test_a_marker_that_begins_a_segment_is_indexed_there(tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    write(log, 1)
    while len(log.segments) == 1:
        append(log, produced(value=bytes(100)))
    log.roll(NOW_MS)
    assert log.producers.first_unstable_offset(log.log_end_offset) == 0
    offset = end(log, 1, ControlType.ABORT)
    assert log.segments.active.base_offset == offset
    assert log.segments.active.transactions.entries == [AbortedTransaction(1, 0, offset, offset + 1)]
    # The snapshot at the roll has the open transaction.
    log.truncate_to(offset)
    assert log.producers.entries[1].current_txn_first_offset == 0


def test_a_repeated_marker_changes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    end(log, 1, ControlType.ABORT)
    found = aborted(log)
    end(log, 1, ControlType.ABORT)
    assert aborted(log) == found == [AbortedTransaction(1, 0, 1, 2)]
    assert (log.log_end_offset, log.producers.first_unstable_offset(3)) == (3, None)


@pytest.mark.parametrize("clean", [True, False])
def test_open_transactions_and_coordinator_epochs_outlive_a_restart(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path, **SMALL)
    write(log, 1, 5, 2)
    write(log, 2, 0)
    write(log, 3, 0)
    end(log, 1, ControlType.ABORT, coordinator_epoch=7)
    end(log, 2, ControlType.COMMIT, epoch=3, coordinator_epoch=8)
    write(log, 1, 7)
    before, index = snapshot(log), aborted(log)
    assert len(log.segments) > 1
    if clean:
        log.close()
    else:
        log.release()
    log = open_log(tmp_path, clean=clean, **SMALL)
    assert snapshot(log) == before
    assert aborted(log) == index
    assert [log.producers.entries[each].current_txn_first_offset for each in (1, 2, 3)] == [6, -1, 3]
    assert log.producers.first_unstable_offset(log.log_end_offset) == 3
    with pytest.raises(KafkaError) as refused:
        end(log, 1, ControlType.COMMIT, coordinator_epoch=6)
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert start(log, 3, 1) is None
    write(log, 3, 1)
    assert end(log, 3, ControlType.ABORT) == 8
    assert aborted(log)[-1] == AbortedTransaction(3, 3, 8, 6)


def test_after_a_restart_a_guard_from_before_does_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    guard = start(log, 1, 0)
    log.close()
    log = open_log(tmp_path)
    with pytest.raises(KafkaError) as refused:
        append(log, produced(producer_id=1, transactional=True), how=TransactionalAppend(guard=guard))
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


def test_truncating_a_marker_opens_its_transaction_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    end(log, 1, ControlType.ABORT, coordinator_epoch=4)
    log.truncate_to(1)
    assert aborted(log) == []
    found = log.producers.entries[1]
    assert (found.current_txn_first_offset, found.coordinator_epoch, found.last_sequence) == (0, -1, 0)
    assert log.producers.first_unstable_offset(1) == 0
    write(log, 1, 1)
    assert end(log, 1, ControlType.ABORT, coordinator_epoch=3) == 2
    assert aborted(log) == [AbortedTransaction(1, 0, 2, 3)]


def test_an_emptied_marker_is_passed_over_when_it_is_replayed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Compaction leaves the batch, without its record, while the producer has no later one."""
    log = open_log(tmp_path)
    data = bytearray(marker(1).data[:61])
    data[8:12], data[57:61] = (61 - 12).to_bytes(4, "big"), bytes(4)
    log.append_as_follower(_sealed(data), NOW_MS)
    log.release()
    log = open_log(tmp_path, clean=False)
    assert (log.log_end_offset, dict(log.producers.entries)) == (1, {})
    assert "marker" not in caplog.text


def _sealed(data: bytearray) -> memoryview:
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    return memoryview(data)


# The halves of an append


def begin(log: PartitionLog, each: ProducedBatch, how: TransactionalAppend) -> tuple[Append, SegmentWrite]:
    begun = log.begin_as_leader(each, 0, NOW_MS, how)
    return begun, log.begin_write(begun)


def test_a_guard_counts_until_its_append_is_written(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    guard = start(log, 1, 0)
    how = TransactionalAppend(guard=guard)
    begun, write_of_it = begin(log, produced(producer_id=1, transactional=True), how)
    # The producer's next batch asks before the first one counts.
    assert start(log, 1, 1) is guard
    assert log.producers.first_unstable_offset(0) is None
    write_of_it.run()
    log.end_append(begun, write_of_it)
    assert log.producers.first_unstable_offset(1) == 0
    assert append(log, produced(producer_id=1, sequence=1, transactional=True), how=how).first_offset == 1
    end(log, 1, ControlType.COMMIT)
    with pytest.raises(KafkaError) as refused:
        append(log, produced(producer_id=1, sequence=2, transactional=True), how=how)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_marker_ends_its_transaction_when_it_is_written(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    guard = start(log, 2, 0)
    begun, write_of_it = begin(log, marker(1, ControlType.ABORT), MARKER)
    assert log.producers.entries[1].current_txn_first_offset == 0
    assert aborted(log) == []
    write_of_it.run()
    log.end_append(begun, write_of_it)
    assert log.producers.entries[1].current_txn_first_offset == -1
    assert aborted(log) == [AbortedTransaction(1, 0, 1, 2)]
    append(log, produced(producer_id=2, transactional=True), how=TransactionalAppend(guard=guard))


def test_a_write_that_fails_leaves_transaction_and_guard(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    guard = start(log, 2, 0)
    for each, how in (
        (marker(1, ControlType.ABORT), MARKER),
        (produced(producer_id=2, transactional=True), TransactionalAppend(guard=guard)),
    ):
        begun, write_of_it = begin(log, each, how)
        write_of_it.error = OSError(5, "the disk fails")
        with pytest.raises(KafkaError) as failed:
            log.end_append(begun, write_of_it)
        assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.producers.entries[1].current_txn_first_offset == 0
    assert aborted(log) == []
    assert start(log, 2, 0) is guard


# Leaders and followers


@pytest.mark.trials(few=10, soak=300)
def test_a_follower_knows_what_its_leader_knows(tmp_path: Path, trials: int, seed: int) -> None:
    for trial in range(trials):
        choose = random.Random(f"{seed} {trial}")
        leader, follower = (open_log(tmp_path / f"{trial}-{name}", **SMALL) for name in ("leader", "follower"))
        for _ in range(80):
            _append_anything(leader, choose)
        position = 0
        while position < leader.log_end_offset:
            data = content(leader.read(position, choose.randrange(1, 600), leader.log_end_offset, True))
            follower.append_as_follower(memoryview(bytearray(data)), NOW_MS)
            position = follower.log_end_offset
        assert snapshot(follower) == snapshot(leader)
        assert aborted(follower) == aborted(leader)
        for high_watermark in range(leader.log_end_offset + 1):
            found = [log.producers.first_unstable_offset(high_watermark) for log in (leader, follower)]
            assert found[0] == found[1]
        leader.release()
        again = open_log(leader.directory, clean=False, recovery_point=choose.randrange(leader.log_end_offset), **SMALL)
        assert snapshot(again) == snapshot(follower)
        assert aborted(again) == aborted(follower)


def _append_anything(log: PartitionLog, choose: random.Random) -> None:
    """Append a batch or a marker of one of three producers, of which one's offsets its group's coordinator commits."""
    producer_id = choose.randrange(3)
    entry = log.producers.entries.get(producer_id)
    epoch = 0 if entry is None else entry.producer_epoch
    if choose.random() < 0.3:
        version = choose.choice((0, 2))
        epoch += version == 2
        each = marker(producer_id, choose.choice((ControlType.COMMIT, ControlType.ABORT)), epoch=epoch)
        append(log, each, how=TransactionalAppend(transaction_version=version))
        return
    origin = AppendOrigin.COORDINATOR if producer_id == 2 else AppendOrigin.CLIENT
    sequence = 0 if entry is None or producer_id == 2 else entry.last_sequence + 1
    guard = start(log, producer_id, sequence, epoch)
    each = produced(choose.randint(1, 3), producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=True)
    append(log, each, how=TransactionalAppend(origin, guard))
