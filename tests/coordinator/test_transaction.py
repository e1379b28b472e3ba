"""The legal changes of a transactional id's state, all of them."""

from itertools import product

import pytest

from ottla.coordinator.effects import Decision
from ottla.coordinator.transaction import (
    IDLE,
    LEGAL_PREDECESSORS,
    PREPARED,
    Pending,
    State,
    Transaction,
    TransactionalId,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.internal.transaction_records import STATES

LEGAL = {
    ("Empty", "Empty"), ("CompleteCommit", "Empty"), ("CompleteAbort", "Empty"),
    ("Ongoing", "Ongoing"), ("Empty", "Ongoing"), ("CompleteCommit", "Ongoing"), ("CompleteAbort", "Ongoing"),
    ("Ongoing", "PrepareCommit"),
    ("Ongoing", "PrepareAbort"), ("PrepareEpochFence", "PrepareAbort"),
    ("Empty", "PrepareAbort"), ("CompleteCommit", "PrepareAbort"), ("CompleteAbort", "PrepareAbort"),
    ("PrepareCommit", "CompleteCommit"), ("PrepareAbort", "CompleteAbort"),
    ("Empty", "Dead"), ("CompleteCommit", "Dead"), ("CompleteAbort", "Dead"),
    ("Ongoing", "PrepareEpochFence"),
}  # fmt: skip


def ignore(_: Decision, __: ErrorCode) -> None:
    pass


def standing_in(state: State) -> TransactionalId:
    return TransactionalId("tx", Transaction(state, 1, 0, 1_000, 0))


def test_the_states_are_those_of_the_log() -> None:
    assert tuple(state.value for state in State) == STATES


@pytest.mark.parametrize(("before", "after"), list(product(State, State)))
def test_a_state_is_reached_from_its_legal_predecessors_only(before: State, after: State) -> None:
    known = standing_in(before)
    is_legal = (before.value, after.value) in LEGAL
    assert (before in LEGAL_PREDECESSORS[after]) is is_legal
    if is_legal:
        known.begin(after, ignore)
        assert known.is_busy
    else:
        with pytest.raises(RuntimeError, match=f"tx cannot go from {before.value} to {after.value}"):
            known.begin(after, ignore)
        assert known.pending is None


@pytest.mark.parametrize(("pending", "after"), list(product(State, State)))
def test_a_transition_that_is_under_way_lets_no_other_begin_but_the_abort_after_a_fence(
    pending: State, after: State
) -> None:
    known = standing_in(State.ONGOING)
    known.pending = Pending(pending, ignore)
    if (pending, after) == (State.PREPARE_EPOCH_FENCE, State.PREPARE_ABORT):
        assert known.begin(after, ignore) is known.pending
        assert known.pending.state is State.PREPARE_ABORT
    else:
        with pytest.raises(RuntimeError, match="tx "):
            known.begin(after, ignore)
        assert known.pending.state is pending


def test_a_transition_ends_in_the_state_that_it_began_for() -> None:
    known = standing_in(State.EMPTY)
    with pytest.raises(RuntimeError, match="tx is not on its way to Ongoing"):
        known.end(known.transaction.with_partitions([], 0, 1))
    known.begin(State.ONGOING, ignore)
    with pytest.raises(RuntimeError, match="tx is not on its way to Empty"):
        known.end(known.transaction)
    known.end(known.transaction.with_partitions([], 0, 1))
    assert known.transaction.state is State.ONGOING
    assert not known.is_busy


@pytest.mark.parametrize("state", State)
def test_a_transactional_id_is_busy_while_markers_are_due(state: State) -> None:
    assert standing_in(state).is_busy is (state in PREPARED)
    assert (state in PREPARED) is state.value.startswith(("PrepareC", "PrepareA"))
    assert (state in IDLE) is (state.value == "Empty" or state.value.startswith("Complete"))
