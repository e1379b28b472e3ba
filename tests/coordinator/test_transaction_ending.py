"""The tables of EndTxn, in both transaction versions, and what each row does."""

import pytest

from ottla.coordinator.transaction import State, Transaction
from ottla.wire.errors import ErrorCode
from tests.coordinator.transacting import ID, A, Transacting, given

COMMIT, ABORT = True, False
NONE, ILLEGAL, FENCED = ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED
BUSY, OTHER_ID = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_PRODUCER_ID_MAPPING
PRODUCER_ID, EPOCH = 5, 7


def standing_in(state: State, level: int) -> Transacting:
    transacting = Transacting(level)
    start_ms = -1 if state is State.EMPTY else 1
    transacting.holding_markers = True
    partitions = frozenset({A}) if state.value.startswith(("O", "P")) else frozenset()
    transacting.put(Transaction(state, PRODUCER_ID, EPOCH, 1_000, 1, partitions, start_ms))
    return transacting


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    ("state", "is_commit", "error"),
    [
        (State.EMPTY, COMMIT, ILLEGAL),
        (State.EMPTY, ABORT, ILLEGAL),
        (State.COMPLETE_COMMIT, COMMIT, NONE),
        (State.COMPLETE_COMMIT, ABORT, ILLEGAL),
        (State.COMPLETE_ABORT, COMMIT, ILLEGAL),
        (State.COMPLETE_ABORT, ABORT, NONE),
        (State.PREPARE_COMMIT, COMMIT, BUSY),
        (State.PREPARE_COMMIT, ABORT, BUSY),
        (State.PREPARE_ABORT, COMMIT, BUSY),
        (State.PREPARE_ABORT, ABORT, BUSY),
    ],
)
def test_before_version_2_an_end_without_a_transaction(
    state: State, is_commit: bool, error: ErrorCode, level: int
) -> None:
    transacting = standing_in(state, level)
    before = transacting.transaction
    assert given(transacting.end(is_commit)) == (error, -1, -1)
    assert transacting.transaction == before
    assert transacting.log == []


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1, -1])
@pytest.mark.parametrize("state", [State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.COMPLETE_COMMIT])
def test_before_version_2_the_epoch_must_be_the_same(state: State, epoch: int) -> None:
    transacting = standing_in(state, 0)
    assert transacting.end(COMMIT, producer=(PRODUCER_ID, epoch)).error == FENCED
    assert transacting.end(COMMIT, producer=(PRODUCER_ID + 1, EPOCH)).error == OTHER_ID
    assert transacting.log == []


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(
    ("state", "is_commit", "epoch", "error"),
    [
        (State.EMPTY, ABORT, EPOCH - 1, FENCED),
        (State.EMPTY, ABORT, EPOCH, None),
        (State.EMPTY, COMMIT, EPOCH - 1, FENCED),
        (State.EMPTY, COMMIT, EPOCH, ILLEGAL),
        (State.COMPLETE_ABORT, ABORT, EPOCH - 1, NONE),
        (State.COMPLETE_ABORT, ABORT, EPOCH, None),
        (State.COMPLETE_ABORT, COMMIT, EPOCH - 1, ILLEGAL),
        (State.COMPLETE_ABORT, COMMIT, EPOCH, ILLEGAL),
        (State.COMPLETE_COMMIT, ABORT, EPOCH - 1, ILLEGAL),
        (State.COMPLETE_COMMIT, ABORT, EPOCH, None),
        (State.COMPLETE_COMMIT, COMMIT, EPOCH - 1, NONE),
        (State.COMPLETE_COMMIT, COMMIT, EPOCH, ILLEGAL),
        *((state, result, epoch, FENCED)
          for state in (State.EMPTY, State.COMPLETE_ABORT, State.COMPLETE_COMMIT, State.ONGOING)
          for result in (COMMIT, ABORT)
          for epoch in (EPOCH - 2, EPOCH + 1, -1)),
        (State.ONGOING, COMMIT, EPOCH - 1, FENCED),
        (State.ONGOING, ABORT, EPOCH - 1, FENCED),
        (State.ONGOING, COMMIT, EPOCH, None),
        (State.ONGOING, ABORT, EPOCH, None),
        *((state, result, epoch, BUSY)
          for state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)
          for result in (COMMIT, ABORT)
          for epoch in (EPOCH - 1, EPOCH)),
    ],
)  # fmt: skip
def test_from_version_2_on_an_end_bumps_the_epoch_or_is_answered(
    state: State, is_commit: bool, epoch: int, error: ErrorCode | None, level: int
) -> None:
    transacting = standing_in(state, level)
    before = transacting.transaction
    answer = transacting.end(is_commit, producer=(PRODUCER_ID, epoch), version=2)
    if error is None:
        assert given(answer) == (NONE, PRODUCER_ID, EPOCH + 1)
        assert transacting.producer == (PRODUCER_ID, EPOCH + 1)
        transacting.mark()
        assert transacting.state == ("CompleteCommit" if is_commit else "CompleteAbort")
        assert len(transacting.markers) == (state is State.ONGOING)
        # Without a transaction it begins when it ends.
        assert transacting.transaction.start_ms == (1 if state is State.ONGOING else transacting.now_ms)
    else:
        assert given(answer) == ((NONE, PRODUCER_ID, EPOCH) if error is NONE else (error, -1, -1))
        assert transacting.transaction == before
        assert transacting.log == []


@pytest.mark.parametrize("state", [State.EMPTY, State.ONGOING, State.COMPLETE_COMMIT])
@pytest.mark.parametrize("producer", [(PRODUCER_ID + 1, EPOCH), (PRODUCER_ID + 1, EPOCH - 1), (-1, EPOCH)])
def test_from_version_2_on_the_producer_id_must_be_the_same(state: State, producer: tuple[int, int]) -> None:
    transacting = standing_in(state, 2)
    assert transacting.end(COMMIT, producer=producer, version=2).error == OTHER_ID


@pytest.mark.parametrize("state", [State.ONGOING, State.EMPTY, State.COMPLETE_ABORT])
def test_at_level_0_an_end_of_version_2_is_not_supported_and_changes_nothing(state: State) -> None:
    transacting = standing_in(state, 0)
    before = transacting.transaction
    assert given(transacting.end(ABORT, version=2)) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
    assert (transacting.transaction, transacting.known.pending) == (before, None)
    assert transacting.init().error == (BUSY if state is State.ONGOING else NONE)


@pytest.mark.parametrize("version", [0, 2])
def test_an_unknown_transactional_id_has_no_producer(version: int) -> None:
    answer = Transacting(2).end(COMMIT, producer=(5, 0), version=version, name=ID)
    assert given(answer) == (OTHER_ID, -1, -1)
