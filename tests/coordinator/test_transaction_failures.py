"""One shard of transactions when appends fail, time passes, and the partition moves."""

import logging

import pytest

from ottla.coordinator.effects import Marker
from ottla.coordinator.transaction import State, Transaction
from ottla.coordinator.transaction_config import TransactionConfig
from ottla.coordinator.transaction_records import transaction_key
from ottla.coordinator.transaction_shard import COMPLETION_RETRY_MS
from ottla.wire.errors import DecodeError, ErrorCode
from tests.coordinator.transacting import FIRST_ID, ID, START_MS, TIMEOUT_MS, A, B, C, Transacting, busy_with, given

NONE, BUSY, FENCED = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED
LEVELS = pytest.mark.parametrize("level", [0, 1, 2])

# ---------------------------------------------------------------------------------------------- failing appends

ERRORS = [
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
    (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
]


@pytest.mark.parametrize(("error", "answered"), ERRORS)
@pytest.mark.parametrize("version", [0, 2])
def test_a_failed_append_changes_nothing_and_has_the_error_of_a_coordinator(
    error: ErrorCode, answered: ErrorCode, version: int
) -> None:
    transacting = Transacting(level=version)
    transacting.open(A, version=version)
    before = transacting.transaction
    transacting.failing = error
    assert transacting.add(B, version=version).error == answered
    assert given(transacting.commit(version)) == (answered, -1, -1)
    assert given(transacting.abort(version)) == (answered, -1, -1)
    assert transacting.transaction == before
    assert not transacting.known.is_busy
    assert transacting.markers == []
    transacting.failing = NONE
    assert transacting.commit(version).error == NONE
    assert transacting.state == "CompleteCommit"


def test_a_first_producer_id_whose_append_fails_is_kept_without_an_epoch() -> None:
    transacting = Transacting()
    transacting.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert given(transacting.init()) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
    assert transacting.producer == (FIRST_ID, -1)
    for producer in ((FIRST_ID, -1), (FIRST_ID, 0)):
        assert transacting.add(A, producer=producer).error == FENCED
        assert transacting.end(False, producer=producer).error == FENCED
        assert transacting.end(False, producer=producer, version=2).error == FENCED
        assert transacting.verify(A, producer=producer) == [FENCED]
    transacting.failing = NONE
    # Any client may have it, because none ever had.
    assert given(transacting.init((7, 7))) == (NONE, FIRST_ID, 0)


@pytest.mark.parametrize("error", [error for error, _ in ERRORS])
def test_a_complete_state_is_appended_until_it_is_in_the_log(error: ErrorCode) -> None:
    transacting = Transacting()
    transacting.open(A)
    transacting.holding_markers = True
    transacting.commit()
    transacting.failing = error
    transacting.mark()
    for _ in range(50):
        timers = {ID: transacting.elapsed_ms + COMPLETION_RETRY_MS}
        assert (transacting.state, transacting.timers) == ("PrepareCommit", timers)
        assert transacting.init().error == BUSY
        transacting.pass_time(COMPLETION_RETRY_MS)
    transacting.failing = NONE
    transacting.pass_time(COMPLETION_RETRY_MS)
    assert (transacting.state, transacting.timers) == ("CompleteCommit", {})
    assert transacting.states()[-2:] == ["PrepareCommit", "CompleteCommit"]
    assert len(transacting.markers) == 1


@pytest.mark.parametrize("level", [0, 1])
def test_a_fence_that_fails_bumps_the_epoch_in_memory_and_not_once_more(level: int) -> None:
    transacting = Transacting(level)
    transacting.open(A)
    transacting.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert transacting.init().error == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (transacting.state, transacting.producer) == ("Ongoing", (FIRST_ID, 1))
    # Its client cannot go on, because the record is perhaps in the log after all.
    assert transacting.end(True, producer=(FIRST_ID, 0)).error == FENCED
    transacting.failing = NONE
    assert transacting.init().error == BUSY
    assert (transacting.state, transacting.producer) == ("CompleteAbort", (FIRST_ID, 1))
    # The next fence bumps the epoch again.
    assert given(transacting.init()) == (NONE, FIRST_ID, 2)
    transacting.add(A)
    assert transacting.init().error == BUSY
    assert transacting.producer == (FIRST_ID, 3)


def test_at_level_2_a_fence_that_fails_changes_nothing() -> None:
    transacting = Transacting(2)
    transacting.open(A)
    before = transacting.transaction
    transacting.failing = ErrorCode.REQUEST_TIMED_OUT
    for _ in range(3):
        assert transacting.init().error == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert transacting.transaction == before
    transacting.failing = NONE
    assert transacting.init().error == BUSY
    assert transacting.producer == (FIRST_ID, 1)
    assert given(transacting.init()) == (NONE, FIRST_ID, 2)


def test_a_fence_that_failed_is_forgotten_when_a_fence_of_level_2_succeeds() -> None:
    transacting = Transacting(0)
    transacting.open(A)
    transacting.failing = ErrorCode.REQUEST_TIMED_OUT
    transacting.init()
    transacting.failing, transacting.level = NONE, 2
    assert transacting.init().error == BUSY
    assert transacting.producer == (FIRST_ID, 2)
    assert not transacting.known.has_failed_epoch_fence


# --------------------------------------------------------------------------------------------- timeouts, expiry


@LEVELS
def test_a_transaction_is_aborted_after_its_timeout(level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    transacting = Transacting(level)
    transacting.open(A)
    # It runs from the first partition on.
    transacting.now_ms += 1_000
    transacting.add(B)
    transacting.now_ms = START_MS + TIMEOUT_MS
    transacting.decide(transacting.shard.abort_timed_out)
    assert transacting.state == "Ongoing"
    transacting.now_ms += 1
    transacting.decide(transacting.shard.abort_timed_out)
    assert (transacting.state, transacting.producer) == ("CompleteAbort", (FIRST_ID, 1))
    assert transacting.markers == [Marker(ID, FIRST_ID, 1, False, (A, B), 2 if level == 2 else 0)]
    assert transacting.add(A, producer=(FIRST_ID, 0)).error == FENCED
    assert caplog.messages == ["The transaction of tx was open for longer than 60000 ms and is aborted"]
    transacting.now_ms += 10 * TIMEOUT_MS
    transacting.decide(transacting.shard.abort_timed_out)
    assert len(transacting.markers) == 1


def test_a_transaction_that_cannot_be_aborted_after_its_timeout_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transacting = Transacting()
    transacting.open(A)
    transacting.now_ms += TIMEOUT_MS + 1
    transacting.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    transacting.decide(transacting.shard.abort_timed_out)
    assert caplog.messages == [
        "The transaction of tx is open for longer than 60000 ms. Its abort failed with COORDINATOR_NOT_AVAILABLE; "
        "a later check tries again"
    ]
    transacting.failing = NONE
    transacting.decide(transacting.shard.abort_timed_out)
    assert (transacting.state, transacting.producer) == ("CompleteAbort", (FIRST_ID, 1))


def test_a_loaded_transaction_is_aborted_after_its_timeout() -> None:
    transacting = Transacting()
    transacting.open(A)
    transacting.load(transacting.log)
    transacting.now_ms += TIMEOUT_MS + 1
    transacting.decide(transacting.shard.abort_timed_out)
    assert transacting.state == "CompleteAbort"


def test_a_clock_that_goes_back_neither_aborts_nor_expires_nor_stops_anything() -> None:
    transacting = Transacting()
    transacting.open(A)
    transacting.now_ms -= 30 * 24 * 3_600_000
    transacting.decide(transacting.shard.abort_timed_out)
    assert transacting.state == "Ongoing"
    assert transacting.add(B).error == NONE
    assert transacting.commit().error == NONE
    assert transacting.state == "CompleteCommit"
    assert transacting.init().error == NONE
    assert transacting.add(A).error == NONE
    assert transacting.transaction.start_ms == transacting.now_ms
    assert transacting.abort().error == NONE
    transacting.decide(transacting.shard.expire)
    assert transacting.state == "CompleteAbort"


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort", "never used"])
def test_a_transactional_id_expires_when_it_was_not_used_for_long(state: str) -> None:
    transacting = Transacting(config=TransactionConfig(transactional_id_expiration_ms=10_000))
    if state == "never used":
        transacting.failing = ErrorCode.NOT_ENOUGH_REPLICAS
        transacting.init()
        transacting.failing = NONE
    elif state == "Empty":
        transacting.init()
    else:
        transacting.open(A)
        transacting.end(state == "CompleteCommit")
    transacting.now_ms += 9_999
    transacting.decide(transacting.shard.expire)
    assert ID in transacting.shard.ids
    transacting.now_ms += 1
    transacting.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    transacting.decide(transacting.shard.expire)
    assert not transacting.known.is_busy
    transacting.failing = NONE
    transacting.decide(transacting.shard.expire)
    assert transacting.shard.ids == {}
    assert transacting.log[-1] == (transaction_key(ID), None)
    # A client that begins anew gets another producer id.
    assert given(transacting.init((FIRST_ID, 0))) == (NONE, FIRST_ID + 1, 0)


def test_no_transactional_id_expires_with_an_open_transaction_or_with_markers_that_are_due() -> None:
    transacting = Transacting()
    transacting.open(A)
    transacting.now_ms += 10 * transacting.config.transactional_id_expiration_ms
    transacting.decide(transacting.shard.expire)
    assert transacting.state == "Ongoing"
    transacting.holding_markers = True
    transacting.commit()
    transacting.now_ms += 10 * transacting.config.transactional_id_expiration_ms
    transacting.decide(transacting.shard.expire)
    assert transacting.state == "PrepareCommit"


# ----------------------------------------------------------------------------------------- loading, unloading


def test_the_state_that_was_left_is_loaded_and_markers_of_decided_transactions_are_sent_to_all_partitions() -> None:
    transacting = Transacting(2)
    transacting.open(A, B, C, version=2)
    transacting.holding_markers = True
    transacting.commit(version=2)
    transacting.mark(A)
    transacting.load(transacting.log)
    assert transacting.markers == [Marker(ID, FIRST_ID, 1, True, (A, B, C), 2)] * 2
    del transacting.unmarked[0]
    transacting.mark()
    assert (transacting.state, transacting.producer) == ("CompleteCommit", (FIRST_ID, 1))
    transacting.load(transacting.log)
    assert (transacting.state, len(transacting.markers)) == ("CompleteCommit", 2)


def test_a_decided_transaction_without_partitions_is_complete_after_a_load() -> None:
    transacting = Transacting(2)
    transacting.put(Transaction(State.PREPARE_ABORT, 5, 1, 1_000, 1, start_ms=1, client_version=2))
    assert transacting.state == "CompleteAbort"
    assert transacting.markers == []


def test_a_tombstone_deletes_and_a_later_record_brings_back() -> None:
    transacting = Transacting()
    transacting.open(A)
    empty, ongoing = transacting.log
    transacting.load([empty, ongoing, (transaction_key(ID), None)])
    assert transacting.shard.ids == {}
    transacting.load([(transaction_key(ID), None), ongoing, (transaction_key("other"), None), empty])
    assert transacting.state == "Empty"


@pytest.mark.parametrize(("key", "value"), [(b"\0\1\0\1x", b""), (transaction_key(ID), b"\0\0"), (b"", None)])
def test_a_record_that_cannot_be_read_is_not_passed_over(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        Transacting().shard.replay(key, value, START_MS, 0)


@pytest.mark.parametrize("what", ["first", "init", "add", "commit", "abort", "fence", "time out", "expire"])
@pytest.mark.parametrize("error", [NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_unloading_answers_parked_requests_and_late_appends_change_nothing(what: str, error: ErrorCode) -> None:
    transacting = Transacting()
    parked = busy_with(transacting, what)
    shard = transacting.shard
    transacting.decide(shard.unload)
    if parked is not None:
        assert parked.error == ErrorCode.NOT_COORDINATOR
    assert shard.ids == {}
    transacting.release(error)
    assert shard.ids == {}
    assert transacting.markers == []
    assert transacting.timers == {}
    if parked is not None:
        assert len(parked.responses) == 1


def test_markers_and_producer_ids_that_come_after_the_unloading_change_nothing() -> None:
    transacting = Transacting()
    transacting.open(A)
    transacting.holding_markers = transacting.holding_ids = True
    transacting.commit()
    first = transacting.init(name="other")
    log = list(transacting.log)
    transacting.decide(transacting.shard.unload)
    assert first.error == ErrorCode.NOT_COORDINATOR
    transacting.give_ids()
    transacting.mark()
    assert transacting.shard.ids == {}
    assert transacting.log == log
    assert len(first.responses) == 1


def test_markers_of_an_earlier_transaction_and_repeated_ones_do_not_complete_the_next() -> None:
    transacting = Transacting()
    transacting.open(A)
    transacting.holding_markers = True
    transacting.commit()
    (earlier,) = transacting.unmarked
    transacting.holding = True
    transacting.decide(earlier.marked, A)
    transacting.decide(earlier.marked, A)
    transacting.release()
    transacting.decide(earlier.marked, A)
    assert transacting.states()[-2:] == ["PrepareCommit", "CompleteCommit"]
    transacting.add(A)
    transacting.abort()
    transacting.decide(earlier.marked, A)
    assert transacting.state == "PrepareAbort"
    transacting.mark(C)
    assert transacting.state == "PrepareAbort"


def test_requests_of_one_transactional_id_wait_for_its_first_producer_id() -> None:
    transacting = Transacting()
    transacting.holding_ids = True
    first = transacting.init()
    assert transacting.init().error == BUSY
    assert first.parked
    transacting.give_ids()
    assert given(first) == (NONE, FIRST_ID, 0)
