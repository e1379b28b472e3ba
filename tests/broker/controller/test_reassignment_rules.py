from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.controller.context import ControllerContext
from ottla.broker.controller.reassignment_rules import is_complete, plan, with_next_epoch
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import PartitionState, ReplicaAssignment
from tests.broker.controller.contexts import P, context_of, lead

UNKNOWN = TopicPartition("nobody", 0)
brokers = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(tuple)


def moving(context: ControllerContext) -> None:
    """Reassign the partition from 1, 2 to 2, 3."""
    context.set_assignment(P, ReplicaAssignment((1, 2)).reassigned_to((2, 3)))


def led(*isr: int) -> ControllerContext:
    context = context_of((1, 2, 3, 4), (1, 2))
    lead(context, P, isr[0], *isr)
    return context


@given(origin=brokers, target=brokers, other=brokers)
def test_adding_and_removing_replicas_are_distinct_and_can_be_reverted(
    origin: tuple[int, ...], target: tuple[int, ...], other: tuple[int, ...]
) -> None:
    moved = ReplicaAssignment(origin).reassigned_to(target)
    assert moved.target == target
    assert set(moved.origin) == set(origin)
    assert set(moved.adding) == set(target) - set(origin)
    assert set(moved.removing) == set(origin) - set(target)
    again = moved.reassigned_to(other)
    assert again.target == other
    assert set(again.origin) == set(origin)
    back = moved.reassigned_to(moved.origin)
    assert not back.is_changing
    assert set(back.replicas) == set(origin)


def test_target_replicas_come_first() -> None:
    assert ReplicaAssignment((1, 2, 3)).reassigned_to((3, 4, 2)) == ReplicaAssignment((3, 4, 2, 1), (4,), (1,))


def test_a_reassignment_is_planned_replaced_and_cancelled() -> None:
    context = led(1, 2)
    assert plan(context, P, (2, 3)) == ReplicaAssignment((2, 3, 1), (3,), (1,))
    moving(context)
    assert plan(context, P, (4,)) == ReplicaAssignment((4, 2, 1), (4,), (2, 1))
    assert plan(context, P, None) == ReplicaAssignment((2, 1))


def test_existing_replicas_may_be_offline() -> None:
    context = led(1)
    del context.brokers[2]
    assert plan(context, P, (2, 3)) == ReplicaAssignment((2, 3, 1), (3,), (1,))


@pytest.mark.parametrize(
    ("partition", "wanted", "expected"),
    [
        (P, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (UNKNOWN, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (P, (1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (P, (1, -1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (P, (1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (P, range(1_000_000), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (P, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (UNKNOWN, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (UNKNOWN, (1,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("t", 7), (1,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("t", -1), (1,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_invalid_reassignment_is_refused(
    partition: TopicPartition, wanted: Sequence[int] | None, expected: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refused:
        plan(led(1, 2), partition, wanted)
    assert refused.value.code is expected
    assert 0 < len(refused.value.detail) < 10_000


def test_a_reassignment_to_an_offline_broker_may_wait() -> None:
    context = led(1, 2)
    assert plan(context, P, (1, 9), may_wait=True) == ReplicaAssignment((1, 9, 2), (9,), (2,))
    for wanted in ((), (1, 1), (-1,), (2**31,)):
        with pytest.raises(KafkaError):
            plan(context, P, wanted, may_wait=True)


def test_a_broker_that_shuts_down_gets_no_replicas() -> None:
    context = led(1, 2)
    context.shutting_down.add(3)
    with pytest.raises(KafkaError, match="not alive"):
        plan(context, P, (1, 3))


@pytest.mark.parametrize("wanted", [(1, 3), None])
def test_a_topic_that_is_being_deleted_is_not_reassigned(wanted: Sequence[int] | None) -> None:
    context = led(1, 2)
    moving(context)
    context.topics_to_delete.add("t")
    with pytest.raises(KafkaError) as refused:
        plan(context, P, wanted)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_reassignment_without_any_in_sync_replica_is_refused() -> None:
    context = led(3)
    moving(context)
    for wanted in (None, (1, 4)):
        with pytest.raises(KafkaError, match="in sync") as refused:
            plan(context, P, wanted)
        assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert plan(context, P, (3,)).target == (3,)


def state(*isr: int) -> PartitionState:
    return PartitionState(1, 5, isr, 2, version=9)


def test_a_reassignment_is_complete_when_all_target_replicas_are_in_sync_and_one_can_lead() -> None:
    context = context_of((1, 2, 3), (1, 2))
    moved = ReplicaAssignment((1, 2)).reassigned_to((2, 3))
    assert not is_complete(context, P, moved, None)
    assert not is_complete(context, P, moved, state(1, 2))
    assert not is_complete(context, P, moved, state(1, 3))
    assert is_complete(context, P, moved, state(1, 3, 2))
    assert is_complete(context, P, moved, state(2, 3))
    del context.brokers[2]
    assert is_complete(context, P, moved, state(2, 3))
    del context.brokers[3]
    assert not is_complete(context, P, moved, state(2, 3))
    assert is_complete(context, P, ReplicaAssignment((2, 3)), state(1))


def test_the_next_epoch_is_the_only_change_of_the_state() -> None:
    context = context_of((1,), (1,))
    assert with_next_epoch(context, state(1, 2)) == state(1, 2)._replace(leader_epoch=6, controller_epoch=context.epoch)
