"""The rules of appends in transactions: who may append, with which guard, and which markers are taken."""

from pathlib import Path

import pytest

from ottla.log.log import PartitionLog
from ottla.log.state.producer_entry import ProducerEntry
from ottla.log.state.producer_state import ProducerState
from ottla.log.state.verification import UNVERIFIED, AppendOrigin, TransactionalAppend, VerificationGuard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import ControlType, ProducedBatch
from tests.log.building import NOW_MS, append, marker, open_log, produced

pytestmark = pytest.mark.once

PRODUCER = 77


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path)


def start(
    log: PartitionLog, sequence: int = 0, *, epoch: int = 0, bumps: bool = False, now_ms: int = NOW_MS
) -> VerificationGuard | None:
    return log.producers.start_verification(PRODUCER, sequence, epoch, bumps, now_ms)


def batch(
    count: int = 1, sequence: int = 0, *, epoch: int = 0, transactional: bool = True, timestamp: int = NOW_MS
) -> ProducedBatch:
    return produced(
        count,
        producer_id=PRODUCER,
        epoch=epoch,
        sequence=sequence,
        transactional=transactional,
        timestamp=timestamp,
    )


def verified(guard: VerificationGuard | None) -> TransactionalAppend:
    return TransactionalAppend(guard=guard)


def committed(guard: VerificationGuard | None) -> TransactionalAppend:
    return TransactionalAppend(AppendOrigin.COORDINATOR, guard)


def begin(log: PartitionLog, count: int = 1, sequence: int = 0, *, epoch: int = 0) -> None:
    """Append the first batch of a transaction."""
    append(log, batch(count, sequence, epoch=epoch), how=verified(start(log, sequence, epoch=epoch)))


def end(
    log: PartitionLog,
    kind: ControlType = ControlType.COMMIT,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
    timestamp: int = NOW_MS,
) -> int:
    each = marker(PRODUCER, kind, epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=timestamp)
    return append(log, each, how=TransactionalAppend(transaction_version=version)).first_offset


def refusal(log: PartitionLog, each: ProducedBatch, how: TransactionalAppend | None) -> ErrorCode:
    """Return the error of an append, which leaves no trace."""
    before = log.log_end_offset, log.size, log.leader_epochs.latest
    with pytest.raises(KafkaError) as refused:
        append(log, each, how=how, epoch=9)
    assert (log.log_end_offset, log.size, log.leader_epochs.latest) == before
    return refused.value.code


def entry(log: PartitionLog) -> ProducerEntry:
    return log.producers.entries[PRODUCER]


# Verification


def test_the_first_append_of_a_transaction_needs_the_guard_of_its_verification(log: PartitionLog) -> None:
    assert refusal(log, batch(), verified(None)) is ErrorCode.INVALID_TXN_STATE
    guard = start(log)
    assert refusal(log, batch(), verified(None)) is ErrorCode.INVALID_TXN_STATE
    assert append(log, batch(2), how=verified(guard)).first_offset == 0
    assert entry(log).current_txn_first_offset == 0


def test_later_appends_of_an_open_transaction_need_no_guard(log: PartitionLog) -> None:
    begin(log)
    assert start(log, 1) is None
    assert append(log, batch(sequence=1), how=verified(None)).first_offset == 1


def test_batches_that_ask_at_the_same_time_have_the_same_guard(log: PartitionLog) -> None:
    first, second = start(log, 0), start(log, 1)
    assert first is second is not None
    append(log, batch(), how=verified(first))
    assert append(log, batch(sequence=1), how=verified(second)).first_offset == 1


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_between_the_question_and_the_append_removes_the_guard(log: PartitionLog, kind: ControlType) -> None:
    guard = start(log)
    end(log, kind)
    assert refusal(log, batch(), verified(guard)) is ErrorCode.INVALID_TXN_STATE
    again = start(log)
    assert again is not guard
    assert refusal(log, batch(), verified(guard)) is ErrorCode.INVALID_TXN_STATE
    append(log, batch(), how=verified(again))


@pytest.mark.parametrize("bumps", [False, True])
def test_an_append_removes_the_guard(log: PartitionLog, bumps: bool) -> None:
    guard = start(log, bumps=bumps)
    append(log, batch(), how=verified(guard))
    assert refusal(log, batch(epoch=1), verified(guard)) is ErrorCode.INVALID_TXN_STATE
    assert start(log, epoch=1, bumps=bumps) not in (None, guard)


def test_a_replicated_append_removes_the_guard(log: PartitionLog) -> None:
    guard = start(log)
    log.append_as_follower(batch().data, NOW_MS)
    end(log)
    assert refusal(log, batch(sequence=1), verified(guard)) is ErrorCode.INVALID_TXN_STATE


def test_a_plain_batch_needs_no_guard_and_leaves_it(log: PartitionLog) -> None:
    guard = start(log, 2)
    append(log, batch(transactional=False))
    append(log, batch(sequence=1, transactional=False), how=verified(None))
    append(log, batch(sequence=2), how=verified(guard))


def test_a_refused_append_leaves_the_guard(log: PartitionLog) -> None:
    append(log, batch(transactional=False))
    guard = start(log, 1)
    assert refusal(log, batch(sequence=2), verified(guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(sequence=1), how=verified(guard))


def test_the_guard_of_another_producer_does_not_count(log: PartitionLog) -> None:
    other = log.producers.start_verification(5, 0, 0, False, NOW_MS)
    start(log)
    assert refusal(log, batch(), verified(other)) is ErrorCode.INVALID_TXN_STATE


def test_without_verification_no_guard_is_needed(log: PartitionLog) -> None:
    append(log, batch(), how=verified(UNVERIFIED))
    end(log)
    append(log, batch(sequence=1), how=verified(UNVERIFIED))
    end(log)
    append(log, batch(sequence=2))
    end(log)
    append(log, batch(), how=committed(UNVERIFIED))


def test_a_guard_expires_like_a_producer(log: PartitionLog) -> None:
    log.producers.expiration_ms = 1000
    guard = start(log)
    log.producers.remove_expired(NOW_MS + 999)
    assert start(log, now_ms=NOW_MS + 999) is guard
    log.producers.remove_expired(NOW_MS + 1000)
    assert refusal(log, batch(), verified(guard)) is ErrorCode.INVALID_TXN_STATE
    assert start(log) is not guard


def test_guards_pass_to_the_log_that_replaces_this_one(log: PartitionLog, tmp_path: Path) -> None:
    guard = start(log)
    moved = ProducerState(tmp_path)
    moved.take_over(log.producers)
    assert moved.check(batch().header, how=verified(guard)) is None
    assert moved.start_verification(PRODUCER, 0, 0, False, NOW_MS) is guard


# The lowest sequence number


def test_a_batch_waits_for_one_with_a_lower_sequence_that_asked_too(log: PartitionLog) -> None:
    guard = start(log, 3)
    start(log, 2)
    start(log, 4)
    for sequence in (3, 4):
        assert refusal(log, batch(sequence=sequence), verified(guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(sequence=2), how=verified(guard))
    append(log, batch(sequence=3), how=verified(guard))


def test_a_plain_batch_waits_too_for_one_with_a_lower_sequence_that_asked(log: PartitionLog) -> None:
    start(log, 2)
    assert refusal(log, batch(sequence=3, transactional=False), None) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(sequence=2, transactional=False))
    # The guard is still there.
    assert refusal(log, batch(sequence=3, transactional=False), None) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, produced(1, producer_id=PRODUCER + 1, epoch=0, sequence=3))


def test_a_batch_in_an_open_transaction_waits_too_for_one_of_the_next_epoch_that_asked(log: PartitionLog) -> None:
    begin(log)
    start(log, epoch=1)
    assert refusal(log, batch(sequence=1), None) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_has_a_lowest_sequence_of_its_own(log: PartitionLog) -> None:
    guard = start(log, 0)
    start(log, 7, epoch=1)
    start(log, 5, epoch=0)
    append(log, batch(sequence=7, epoch=1), how=verified(guard))


def test_without_verification_a_lower_sequence_that_asked_counts_too(log: PartitionLog) -> None:
    start(log, 0)
    assert refusal(log, batch(sequence=1), verified(UNVERIFIED)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("sequence", [1, 40])
def test_with_epoch_bumps_an_unknown_producer_begins_at_zero(log: PartitionLog, sequence: int) -> None:
    guard = start(log, sequence, bumps=True)
    assert refusal(log, batch(sequence=sequence), verified(guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(), how=verified(guard))


def test_with_epoch_bumps_a_producer_begins_at_zero_behind_a_marker(log: PartitionLog) -> None:
    end(log, epoch=4, version=2)
    guard = start(log, 3, epoch=4, bumps=True)
    assert refusal(log, batch(sequence=3, epoch=4), verified(guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(epoch=4), how=verified(guard))


def test_with_epoch_bumps_a_producer_with_batches_goes_on_at_its_sequence(log: PartitionLog) -> None:
    append(log, batch(2, transactional=False))
    guard = start(log, 2, bumps=True)
    append(log, batch(sequence=2), how=verified(guard))


def test_without_epoch_bumps_a_producer_goes_on_at_its_sequence(log: PartitionLog) -> None:
    begin(log, sequence=40)
    end(log)
    guard = start(log, 42)
    assert refusal(log, batch(sequence=42), verified(guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(sequence=41), how=verified(guard))


# Epochs


def test_an_older_epoch_does_not_ask_and_does_not_append(log: PartitionLog) -> None:
    guard = start(log)
    append(log, batch(epoch=3), how=verified(UNVERIFIED))
    with pytest.raises(KafkaError) as refused:
        start(log, 0, epoch=2)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    for how in (None, verified(guard), verified(None), verified(UNVERIFIED), committed(None), committed(UNVERIFIED)):
        assert refusal(log, batch(epoch=2), how) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_transaction_of_an_older_epoch_is_not_the_one_that_a_new_epoch_appends_to(log: PartitionLog) -> None:
    begin(log, 2)
    assert refusal(log, batch(epoch=1), verified(None)) is ErrorCode.INVALID_TXN_STATE
    guard = start(log, epoch=1)
    assert guard is not None
    append(log, batch(epoch=1), how=verified(guard))
    assert (entry(log).producer_epoch, entry(log).current_txn_first_offset) == (1, 0)
    assert start(log, 1, epoch=1) is None


def test_a_batch_that_was_appended_is_a_duplicate_with_any_guard(log: PartitionLog) -> None:
    begin(log, 2)
    end(log)
    for how in (None, verified(None), verified(start(log)), verified(UNVERIFIED)):
        again = append(log, batch(2), how=how)
        assert (again.is_duplicate, again.first_offset) == (True, 0)


def test_a_plain_batch_in_an_open_transaction_is_refused(log: PartitionLog) -> None:
    begin(log)
    for how in (None, verified(None), verified(UNVERIFIED)):
        assert refusal(log, batch(sequence=1, transactional=False), how) is ErrorCode.INVALID_TXN_STATE
    end(log)
    append(log, batch(sequence=1, transactional=False))


# Offsets that a coordinator commits


def test_offsets_committed_in_a_transaction_have_no_sequence(log: PartitionLog) -> None:
    append(log, batch(2), how=committed(start(log, -1)))
    for _ in range(3):
        again = append(log, batch(2), how=committed(None))
        assert not again.is_duplicate
    assert again.first_offset == 6
    end(log)
    append(log, batch(3), how=committed(start(log, -1)))
    assert entry(log).current_txn_first_offset == 9


def test_offsets_committed_in_a_transaction_need_a_guard_and_the_current_epoch(log: PartitionLog) -> None:
    assert refusal(log, batch(), committed(None)) is ErrorCode.INVALID_TXN_STATE
    append(log, batch(epoch=2), how=committed(start(log, -1, epoch=2)))
    assert refusal(log, batch(epoch=1), committed(None)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(log, batch(epoch=3), committed(None)) is ErrorCode.INVALID_TXN_STATE
    append(log, batch(epoch=3), how=committed(start(log, -1, epoch=3, bumps=True)))


# Markers


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_marker_of_an_unknown_producer_is_appended(log: PartitionLog, version: int) -> None:
    assert end(log, epoch=4, coordinator_epoch=6, version=version) == 0
    found = entry(log)
    assert (found.producer_epoch, found.coordinator_epoch, found.current_txn_first_offset) == (4, 6, -1)
    assert log.producers.first_unstable_offset(1) is None
    assert log.segments.active.transactions.entries == []


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("epoch", [5, 6])
def test_before_version_2_a_marker_has_the_epoch_of_the_producer_or_a_later_one(
    log: PartitionLog, version: int, epoch: int
) -> None:
    begin(log, epoch=5)
    how = TransactionalAppend(transaction_version=version)
    assert refusal(log, marker(PRODUCER, epoch=4), how) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, epoch=epoch, version=version) == 1
    assert end(log, epoch=epoch, version=version) == 2
    assert entry(log).producer_epoch == epoch


def test_from_version_2_on_a_marker_has_a_later_epoch_than_an_open_transaction(log: PartitionLog) -> None:
    begin(log, epoch=5)
    how = TransactionalAppend(transaction_version=2)
    for epoch in (4, 5):
        assert refusal(log, marker(PRODUCER, epoch=epoch), how) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(log, epoch=6, version=2) == 1
    assert entry(log).current_txn_first_offset == -1


def test_from_version_2_on_a_repeated_marker_is_appended_while_no_transaction_is_open(log: PartitionLog) -> None:
    begin(log, epoch=5)
    end(log, epoch=6, version=2)
    assert end(log, epoch=6, version=2) == 2
    how = TransactionalAppend(transaction_version=2)
    assert refusal(log, marker(PRODUCER, epoch=5), how) is ErrorCode.INVALID_PRODUCER_EPOCH
    begin(log, epoch=6)
    assert refusal(log, marker(PRODUCER, epoch=6), how) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert entry(log).current_txn_first_offset == 3


@pytest.mark.parametrize("version", [0, 2])
def test_a_marker_of_an_older_coordinator_is_fenced(log: PartitionLog, version: int) -> None:
    begin(log)
    end(log, epoch=1, coordinator_epoch=8, version=version)
    begin(log, epoch=1)
    how = TransactionalAppend(transaction_version=version)
    old = marker(PRODUCER, epoch=2, coordinator_epoch=7)
    assert refusal(log, old, how) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    older_in_both = marker(PRODUCER, epoch=0, coordinator_epoch=7)
    assert refusal(log, older_in_both, how) is ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, epoch=2, coordinator_epoch=8, version=version)
    end(log, epoch=3, coordinator_epoch=9, version=version)
    assert entry(log).coordinator_epoch == 9


def test_an_old_coordinator_is_fenced_by_the_markers_of_the_same_producer_only(log: PartitionLog) -> None:
    end(log, coordinator_epoch=8)
    append(log, marker(5, coordinator_epoch=1))


def test_behind_a_marker_of_the_next_epoch_the_old_epoch_is_fenced(log: PartitionLog) -> None:
    begin(log)
    end(log, ControlType.ABORT, epoch=1)
    assert refusal(log, batch(sequence=1), verified(UNVERIFIED)) is ErrorCode.INVALID_PRODUCER_EPOCH
    begin(log, epoch=1)


@pytest.mark.parametrize(("bumps", "epoch", "stays"), [(True, 1, True), (True, 0, False), (False, 1, False)])
def test_with_epoch_bumps_a_marker_leaves_the_guard_of_the_next_transaction(
    log: PartitionLog, bumps: bool, epoch: int, stays: bool
) -> None:
    """A marker that ends the transaction of epoch 0 has epoch 1, and so has the next transaction."""
    guard = start(log, epoch=epoch, bumps=bumps)
    end(log, epoch=1, version=2)
    if stays:
        append(log, batch(epoch=1), how=verified(guard))
    else:
        assert refusal(log, batch(epoch=1), verified(guard)) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_renews_the_time_of_its_producer(log: PartitionLog) -> None:
    log.producers.expiration_ms = 1000
    begin(log)
    log.producers.remove_expired(NOW_MS + 5000)
    assert entry(log).current_txn_first_offset == 0
    end(log, timestamp=NOW_MS + 5000)
    log.producers.remove_expired(NOW_MS + 5999)
    assert entry(log).last_sequence == 0
    log.producers.remove_expired(NOW_MS + 6000)
    assert PRODUCER not in log.producers.entries
