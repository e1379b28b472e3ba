"""Decisions of one shard of transactions: requests, illegal acts, pending states, descriptions."""

import pytest

from ottla.coordinator.effects import Marker
from ottla.coordinator.transaction import State
from ottla.wire.errors import ErrorCode
from tests.coordinator.transacting import FIRST_ID, ID, START_MS, TIMEOUT_MS, A, B, C, Transacting, busy_with, given

NONE, BUSY, FENCED = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED
OTHER_ID, ABORTABLE = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTION_ABORTABLE
LEVELS = pytest.mark.parametrize("level", [0, 1, 2])


# ------------------------------------------------------------------------------------------- one transaction


@LEVELS
def test_a_transaction_goes_through_its_states(level: int) -> None:
    transacting = Transacting(level)
    assert given(transacting.init()) == (NONE, FIRST_ID, 0)
    assert transacting.add(A, C).error == NONE
    assert transacting.add(B).error == NONE
    transacting.holding_markers = True
    assert given(transacting.commit()) == (NONE, -1, -1)
    assert transacting.states() == ["Empty", "Ongoing", "Ongoing", "PrepareCommit"]
    assert transacting.markers == [Marker(ID, FIRST_ID, 0, True, (A, B, C), 0)]
    transacting.mark(B)
    transacting.mark(A)
    assert transacting.state == "PrepareCommit"
    transacting.mark(C)
    assert (transacting.state, transacting.producer) == ("CompleteCommit", (FIRST_ID, 0))
    assert transacting.add(A).error == NONE
    assert transacting.abort().error == NONE
    assert transacting.markers[1] == Marker(ID, FIRST_ID, 0, False, (A,), 0)
    transacting.mark()
    assert transacting.states()[4:] == ["CompleteCommit", "Ongoing", "PrepareAbort", "CompleteAbort"]
    assert transacting.transaction.start_ms == START_MS
    assert given(transacting.init()) == (NONE, FIRST_ID, 1)
    # As in Kafka, until the log is loaded.
    assert transacting.transaction.start_ms == START_MS


@pytest.mark.parametrize("level", [1, 2])
def test_from_version_2_on_each_end_bumps_the_epoch_which_the_markers_have(level: int) -> None:
    transacting = Transacting(level)
    transacting.open(A, version=2)
    assert given(transacting.commit(version=2)) == (NONE, FIRST_ID, 1)
    assert transacting.markers == [Marker(ID, FIRST_ID, 1, True, (A,), 2)]
    assert (transacting.state, transacting.producer) == ("CompleteCommit", (FIRST_ID, 1))
    assert transacting.verify(A, producer=(FIRST_ID, 0)) == [FENCED]


def test_an_old_client_bumps_nothing_at_level_2() -> None:
    transacting = Transacting(2)
    transacting.open(A)
    assert transacting.commit().error == NONE
    assert transacting.markers == [Marker(ID, FIRST_ID, 0, True, (A,), 0)]
    assert transacting.producer == (FIRST_ID, 0)


def test_partitions_are_answered_when_their_record_is_committed_and_at_once_if_they_are_there() -> None:
    transacting = Transacting()
    transacting.open(A, B)
    transacting.holding = True
    assert transacting.add(B, A).error == NONE
    assert transacting.held == []
    adding = transacting.add(B, C)
    assert adding.parked
    assert transacting.verify(A, C) == [NONE, ABORTABLE]
    transacting.release()
    assert adding.error == NONE
    assert transacting.verify(A, C) == [NONE, NONE]


def test_the_answer_to_an_end_leaves_before_its_markers() -> None:
    transacting = Transacting()
    transacting.open(A)
    effects = transacting.effects
    effects.clear()
    transacting.commit()
    assert effects == ["Append", "Reply", "SendMarkers", "Append"]


@LEVELS
def test_partitions_are_verified_while_a_transaction_is_open(level: int) -> None:
    transacting = Transacting(level)
    assert transacting.verify(A, producer=(FIRST_ID, 0)) == [OTHER_ID]
    transacting.init()
    assert transacting.verify(A, B) == [ABORTABLE, ABORTABLE]
    transacting.add(A)
    assert transacting.verify(A, B) == [NONE, ABORTABLE]
    assert transacting.verify(A, B, producer=(FIRST_ID + 1, 0)) == [OTHER_ID, OTHER_ID]
    assert transacting.verify(A, producer=(FIRST_ID, 1)) == [FENCED]
    assert transacting.verify(A, producer=(FIRST_ID, -1)) == [FENCED]
    # The append that is verified is checked once more.
    transacting.holding = True
    transacting.commit()
    assert transacting.verify(A, B) == [NONE, ABORTABLE]
    transacting.holding_markers = True
    transacting.release()
    assert transacting.verify(A, B) == [BUSY, BUSY]
    transacting.mark()
    assert transacting.verify(A) == [ABORTABLE]


def test_partitions_of_version_2_are_not_supported_at_level_0() -> None:
    transacting = Transacting(level=2)
    transacting.open(A, version=2)
    transacting.level = 0
    assert transacting.add(A, version=2).error == NONE
    assert transacting.add(B, version=2).error == ErrorCode.UNSUPPORTED_VERSION
    assert transacting.add(B).error == NONE
    assert transacting.abort().error == NONE
    assert transacting.state == "CompleteAbort"


# ------------------------------------------------------------------------------------------------ illegal acts


def test_requests_of_an_unknown_transactional_id_or_of_another_producer_are_refused() -> None:
    transacting = Transacting()
    unknown = FIRST_ID, 0
    assert transacting.add(A, producer=unknown).error == OTHER_ID
    transacting.open(A)
    assert transacting.add(B, producer=(FIRST_ID + 1, 0)).error == OTHER_ID
    for epoch in (-1, 1, 32767):
        assert transacting.add(B, producer=(FIRST_ID, epoch)).error == FENCED
    assert transacting.verify(A, B) == [NONE, ABORTABLE]


@LEVELS
def test_an_open_transaction_is_aborted_when_its_producer_begins_anew(level: int) -> None:
    transacting = Transacting(level)
    transacting.open(A)
    transacting.holding_markers = True
    assert given(transacting.init()) == (BUSY, -1, -1)
    assert transacting.markers == [Marker(ID, FIRST_ID, 1, False, (A,), 2 if level == 2 else 0)]
    assert transacting.init().error == BUSY
    transacting.mark()
    assert transacting.state == "CompleteAbort"
    assert transacting.add(A, producer=(FIRST_ID, 0)).error == FENCED
    assert transacting.end(True, producer=(FIRST_ID, 0)).error == FENCED
    assert given(transacting.init()) == (NONE, FIRST_ID, 2)


def test_a_client_with_an_old_epoch_or_another_producer_id_does_not_begin_anew() -> None:
    transacting = Transacting()
    transacting.init()
    transacting.init()
    assert given(transacting.init((FIRST_ID, 0))) == (FENCED, -1, -1)
    assert transacting.init((FIRST_ID, 2)).error == FENCED
    assert transacting.init((FIRST_ID + 1, 1)).error == FENCED
    assert transacting.producer == (FIRST_ID, 1)


# ---------------------------------------------------------------------------------------------- pending states


@LEVELS
@pytest.mark.parametrize(
    ("what", "pending"),
    [
        ("first", State.EMPTY),
        ("init", State.EMPTY),
        ("add", State.ONGOING),
        ("commit", State.PREPARE_COMMIT),
        ("abort", State.PREPARE_ABORT),
        ("fence", State.PREPARE_ABORT),
        ("time out", State.PREPARE_ABORT),
        ("expire", State.DEAD),
        ("markers", None),
    ],
)
def test_a_busy_transactional_id_makes_all_others_wait(what: str, pending: State | None, level: int) -> None:
    transacting = Transacting(level)
    under_way = busy_with(transacting, what)
    producer = transacting.producer
    assert (transacting.known.pending and transacting.known.pending.state) == pending
    held, log = len(transacting.held), len(transacting.log)
    others = [
        transacting.init(),
        transacting.init((producer[0] + 7, 0)),
        transacting.add(C),
        transacting.add(C, producer=(producer[0] + 7, 0)),
        transacting.end(True, version=2),
        transacting.end(False, producer=(producer[0] + 7, 0), version=2),
    ]
    assert [answer.error for answer in others] == [BUSY] * 6
    if what != "first":
        assert transacting.end(True).error == BUSY
        assert transacting.end(False, producer=(producer[0], producer[1] + 1)).error == FENCED
    for periodic in (transacting.shard.abort_timed_out, transacting.shard.expire):
        transacting.now_ms += transacting.config.transactional_id_expiration_ms + 1
        transacting.decide(periodic)
    assert (len(transacting.held), len(transacting.log)) == (held, log)
    transacting.release()
    transacting.mark()
    if under_way is not None:
        assert under_way.error == (BUSY if what == "fence" else NONE)
    if what == "expire":
        assert ID not in transacting.shard.ids
    else:
        assert not transacting.known.is_busy


# ---------------------------------------------------------------------------------------------------- describing


def test_a_description_names_the_partitions_without_a_marker() -> None:
    transacting = Transacting()
    assert transacting.shard.describe(ID).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    transacting.open(C, B, A)
    transacting.now_ms += 5
    transacting.holding_markers = True
    transacting.commit()
    transacting.mark(A)
    described = transacting.shard.describe(ID)
    assert (described.error_code, described.transactional_id, described.transaction_state) == (
        NONE, ID, "PrepareCommit",
    )  # fmt: skip
    assert (described.producer_id, described.producer_epoch) == (FIRST_ID, 0)
    assert (described.transaction_timeout_ms, described.transaction_start_time_ms) == (TIMEOUT_MS, START_MS)
    assert [(each.topic, list(each.partitions)) for each in described.topics] == [("a", [1]), ("b", [0])]
    transacting.mark()
    assert transacting.shard.describe(ID).topics == []
