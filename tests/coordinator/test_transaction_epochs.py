"""The producer id and the epoch of a transactional id: who gets which, and what happens at the last epoch."""

import pytest

from ottla.coordinator.effects import Marker
from ottla.coordinator.transaction import State, Transaction
from ottla.wire.errors import ErrorCode
from tests.coordinator.transacting import FIRST_ID, ID, TIMEOUT_MS, A, B, Transacting, given

NONE, BUSY, FENCED = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED
OTHER_ID = ErrorCode.INVALID_PRODUCER_ID_MAPPING
OLD, LAST = 7, 32766
LEVELS = pytest.mark.parametrize("level", [0, 1, 2])


def at_epoch(epoch: int, state: State, level: int) -> Transacting:
    transacting = Transacting(level)
    partitions = frozenset({A}) if state is State.ONGOING else frozenset()
    start_ms = -1 if state is State.EMPTY else transacting.now_ms
    transacting.put(Transaction(state, OLD, epoch, TIMEOUT_MS, transacting.now_ms, partitions, start_ms))
    return transacting


# --------------------------------------------------------------------------------------------- InitProducerId


@LEVELS
def test_a_producer_that_begins_anew_gets_the_next_epoch(level: int) -> None:
    transacting = Transacting(level)
    for epoch in range(3):
        assert given(transacting.init(timeout_ms=1_000 + epoch)) == (NONE, FIRST_ID, epoch)
        assert transacting.transaction.timeout_ms == 1_000 + epoch


@LEVELS
def test_a_producer_that_goes_on_gets_the_next_epoch_and_the_same_when_it_repeats_itself(level: int) -> None:
    transacting = Transacting(level)
    transacting.init()
    for _ in range(3):
        assert given(transacting.init((FIRST_ID, 0))) == (NONE, FIRST_ID, 1)
    assert given(transacting.init((FIRST_ID, 1))) == (NONE, FIRST_ID, 2)
    assert given(transacting.init((FIRST_ID, 0))) == (FENCED, -1, -1)
    # Another one takes over: a repetition is fenced.
    assert given(transacting.init()) == (NONE, FIRST_ID, 3)
    assert given(transacting.init((FIRST_ID, 1))) == (FENCED, -1, -1)
    assert given(transacting.init((FIRST_ID, 2))) == (FENCED, -1, -1)


def test_after_a_load_a_repetition_is_fenced_because_the_last_epoch_is_not_in_the_log() -> None:
    transacting = Transacting(2)
    transacting.init()
    transacting.init((FIRST_ID, 0))
    transacting.load(transacting.log)
    assert transacting.init((FIRST_ID, 0)).error == FENCED
    assert given(transacting.init((FIRST_ID, 1))) == (NONE, FIRST_ID, 2)


def test_a_producer_that_goes_on_under_an_unknown_transactional_id_gets_a_new_producer_id() -> None:
    assert given(Transacting().init((5, 5))) == (NONE, FIRST_ID, 0)


@pytest.mark.parametrize("level", [0, 1])
def test_a_fence_takes_one_epoch_and_the_next_producer_another(level: int) -> None:
    transacting = Transacting(level)
    transacting.open(A)
    assert transacting.init().error == BUSY
    assert given(transacting.init()) == (NONE, FIRST_ID, 2)


@pytest.mark.parametrize(("level", "answer"), [(0, (FENCED, -1, -1)), (1, (FENCED, -1, -1)), (2, (NONE, FIRST_ID, 1))])
def test_after_its_timeout_a_producer_goes_on_at_level_2_only(level: int, answer: tuple[ErrorCode, int, int]) -> None:
    transacting = Transacting(level)
    transacting.open(A)
    transacting.now_ms += TIMEOUT_MS + 1
    transacting.decide(transacting.shard.abort_timed_out)
    assert given(transacting.init((FIRST_ID, 0))) == answer


def test_a_producer_whose_end_of_version_2_was_not_answered_goes_on_with_the_epoch_it_missed() -> None:
    transacting = Transacting(2)
    transacting.open(A, version=2)
    transacting.commit(version=2)
    assert given(transacting.init((FIRST_ID, 0))) == (NONE, FIRST_ID, 1)


# ------------------------------------------------------------------------------------------- at the last epoch


@LEVELS
@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_at_the_last_epoch_a_producer_that_begins_anew_gets_a_new_id(state: State, level: int) -> None:
    transacting = at_epoch(LAST, state, level)
    assert given(transacting.init()) == (NONE, FIRST_ID, 0)
    # The old one is fenced.
    assert transacting.init((OLD, LAST)).error == FENCED
    assert transacting.add(A, producer=(OLD, LAST)).error == OTHER_ID
    assert transacting.end(True, producer=(OLD, LAST), version=2 if level else 0).error in (OTHER_ID, FENCED)


@LEVELS
def test_at_the_last_epoch_a_producer_that_goes_on_gets_a_new_id_and_the_same_when_it_repeats_itself(
    level: int,
) -> None:
    transacting = at_epoch(LAST, State.COMPLETE_COMMIT, level)
    assert given(transacting.init((OLD, LAST))) == (NONE, FIRST_ID, 0)
    assert given(transacting.init((OLD, LAST))) == (NONE, FIRST_ID, 0)
    assert transacting.init((OLD, LAST - 1)).error == FENCED
    assert given(transacting.init((FIRST_ID, 0))) == (NONE, FIRST_ID, 1)


def test_at_the_last_epoch_a_producer_that_missed_its_answer_gets_it() -> None:
    transacting = at_epoch(LAST - 1, State.EMPTY, 0)
    assert given(transacting.init((OLD, LAST - 1))) == (NONE, OLD, LAST)
    assert given(transacting.init((OLD, LAST - 1))) == (NONE, OLD, LAST)
    assert transacting.init((OLD, LAST - 2)).error == FENCED


@pytest.mark.parametrize("level", [0, 1])
def test_a_fence_at_the_last_epoch_takes_one_that_no_client_gets(level: int) -> None:
    transacting = at_epoch(LAST, State.ONGOING, level)
    assert transacting.init().error == BUSY
    assert transacting.markers == [Marker(ID, OLD, LAST + 1, False, (A,), 0)]
    assert (transacting.state, transacting.producer) == ("CompleteAbort", (OLD, LAST + 1))
    assert transacting.init((OLD, LAST)).error == FENCED
    assert given(transacting.init()) == (NONE, FIRST_ID, 0)


def test_a_fence_at_the_last_epoch_takes_a_new_id_at_level_2() -> None:
    transacting = at_epoch(LAST, State.ONGOING, 2)
    assert transacting.init().error == BUSY
    assert transacting.markers == [Marker(ID, OLD, LAST + 1, False, (A,), 2)]
    assert (transacting.state, transacting.producer) == ("CompleteAbort", (FIRST_ID, 0))
    assert given(transacting.init()) == (NONE, FIRST_ID, 1)


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_of_version_2_at_the_last_epoch_gives_a_new_id_also_when_it_is_repeated(is_commit: bool) -> None:
    transacting = at_epoch(LAST, State.ONGOING, 2)
    transacting.holding_markers = True
    assert given(transacting.end(is_commit, version=2)) == (NONE, FIRST_ID, 0)
    assert transacting.markers == [Marker(ID, OLD, LAST + 1, is_commit, (A,), 2)]
    assert transacting.producer == (OLD, LAST + 1)
    # Until the markers are written both ids wait, and neither is fenced.
    for producer in ((FIRST_ID, 0), (OLD, LAST)):
        assert transacting.add(B, producer=producer, version=2).error == BUSY
        assert transacting.end(is_commit, producer=producer, version=2).error == BUSY
    transacting.mark()
    assert transacting.producer == (FIRST_ID, 0)
    for _ in range(2):
        assert given(transacting.end(is_commit, producer=(OLD, LAST), version=2)) == (NONE, FIRST_ID, 0)
    other = transacting.end(not is_commit, producer=(OLD, LAST), version=2)
    assert other.error == ErrorCode.INVALID_TXN_STATE
    assert transacting.end(is_commit, producer=(OLD, LAST - 1), version=2).error == OTHER_ID
    assert transacting.add(B, producer=(FIRST_ID, 0), version=2).error == NONE
    assert transacting.end(is_commit, producer=(OLD, LAST), version=2).error == OTHER_ID


@pytest.mark.parametrize("later", [0, 2])
def test_the_next_producer_id_survives_a_load_and_a_level_that_goes_down(later: int) -> None:
    transacting = at_epoch(LAST, State.ONGOING, 2)
    transacting.holding_markers = transacting.holding_ids = True
    ending = transacting.commit(version=2)
    transacting.level = later
    transacting.give_ids()
    assert given(ending) == (NONE, FIRST_ID, 0)
    transacting.load(transacting.log)
    del transacting.unmarked[0]
    transacting.mark()
    assert (transacting.state, transacting.producer) == ("CompleteCommit", (FIRST_ID, 0))
    transacting.load(transacting.log)
    assert transacting.producer == (FIRST_ID, 0)
    # Only value 1 says which id it was before.
    repeated = transacting.end(True, producer=(OLD, LAST), version=2)
    assert given(repeated) == ((NONE, FIRST_ID, 0) if later else (OTHER_ID, -1, -1))


def test_the_markers_of_an_epoch_that_cannot_be_bumped_follow_the_old_rules() -> None:
    transacting = at_epoch(LAST + 1, State.ONGOING, 2)
    transacting.now_ms += TIMEOUT_MS + 1
    transacting.decide(transacting.shard.abort_timed_out)
    assert transacting.markers == [Marker(ID, OLD, LAST + 1, False, (A,), 0)]
    assert transacting.producer == (FIRST_ID, 0)
    transacting = at_epoch(LAST + 1, State.ONGOING, 0)
    assert transacting.init().error == BUSY
    assert transacting.markers == [Marker(ID, OLD, LAST + 1, False, (A,), 0)]
    assert given(transacting.init()) == (NONE, FIRST_ID, 0)


def test_a_new_id_that_is_taken_while_the_shard_is_unloaded_is_not_used() -> None:
    for act in ("init", "commit", "fence"):
        transacting = at_epoch(LAST, State.COMPLETE_COMMIT if act == "init" else State.ONGOING, 2)
        transacting.holding_ids = True
        answer = transacting.commit(version=2) if act == "commit" else transacting.init()
        assert answer.parked
        transacting.decide(transacting.shard.unload)
        transacting.give_ids()
        assert answer.error == ErrorCode.NOT_COORDINATOR
        assert transacting.log == []


def test_only_the_last_epoch_of_another_producer_id_is_a_repetition() -> None:
    transacting = Transacting(2)
    transacting.open(A)
    transacting.commit()
    assert transacting.producer == (FIRST_ID, 0)
    assert transacting.transaction.previous_producer_id == FIRST_ID
    assert transacting.end(True, producer=(FIRST_ID, LAST), version=2).error == FENCED


# ------------------------------------------------------------------------------------- when the level goes down


@pytest.mark.parametrize("state", ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"])
def test_a_transactional_id_of_version_2_goes_on_at_level_0(state: str) -> None:
    transacting = Transacting(2)
    transacting.init()
    transacting.add(A, version=2)
    transacting.holding_markers = True
    if state != "Ongoing":
        transacting.commit(version=2)
    if state in ("Empty", "CompleteCommit"):
        transacting.mark()
    if state == "Empty":
        transacting.init()
    assert transacting.state == state
    transacting.level = 0
    transacting.holding_markers = False
    if state == "Ongoing":
        assert transacting.commit(version=2).error == ErrorCode.UNSUPPORTED_VERSION
        transacting.now_ms += TIMEOUT_MS + 1
        transacting.decide(transacting.shard.abort_timed_out)
        assert transacting.state == "CompleteAbort"
    transacting.mark()
    epoch = transacting.producer[1]
    assert given(transacting.init()) == (NONE, FIRST_ID, epoch + 1)
    assert transacting.add(B).error == NONE
    assert transacting.commit().error == NONE
    assert transacting.state == "CompleteCommit"
    assert [value[:2] for _, value in transacting.log[-4:] if value] == [b"\0\0"] * 4
