"""Whether and how the replicas of a partition may change, and when they have.

PURE. Owns the rules, their order and their errors. Must not know what is written or told meanwhile.
Counterparts in Kafka: validateReplicas, maybeBuildReassignment and isReassignmentComplete of KafkaController.

Deviations: replicas none of which is in sync are refused, as in KRaft mode; Kafka with ZooKeeper would delete the last
one that has all records. And a reassignment is complete only when one of its replicas can lead.
"""

from collections.abc import Sequence
from typing import Final

from ottla.broker.controller.context import ControllerContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import PartitionState, ReplicaAssignment

_MAX_BROKER_ID: Final = 2**31 - 1
# More than any partition has; a list of more is looked at no closer.
_MAX_REPLICAS: Final = 1000


def plan(
    context: ControllerContext, partition: TopicPartition, wanted: Sequence[int] | None, *, may_wait: bool = False
) -> ReplicaAssignment:
    """Return the assignment by which a partition comes to other replicas, or, for None, back to those it had.

    `may_wait`: for brokers that are not there.
    """
    current = context.assignment(partition)
    if wanted is not None:
        _check(context, current, wanted, may_wait)
    elif not current.is_changing:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    if context.is_queued_for_deletion(partition.topic) or not current.replicas:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    planned = current.reassigned_to(current.origin if wanted is None else wanted)
    state = context.leadership.get(partition)
    if state is not None and not set(state.isr).intersection(planned.replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"None of the replicas that {partition} would be left with is in sync: {_listed(planned.replicas)}.",
        )
    return planned


def _check(context: ControllerContext, current: ReplicaAssignment, wanted: Sequence[int], may_wait: bool) -> None:
    fault = None
    if not wanted:
        fault = "Empty replica list specified in partition reassignment."
    elif len(wanted) > _MAX_REPLICAS:
        fault = f"There are no {len(wanted)} brokers: {_listed(wanted[:_MAX_REPLICAS])} and so on"
    elif len(set(wanted)) < len(wanted):
        fault = f"Duplicate replica ids in partition reassignment replica list: {_listed(wanted)}"
    elif min(wanted) < 0 or max(wanted) > _MAX_BROKER_ID:
        fault = f"Invalid broker id in replica list: {_listed(wanted)}"
    elif not may_wait:
        adding = current.reassigned_to(wanted).adding
        if not all(context.is_live(each) for each in adding):
            live = [each.broker_id for each in context.live_brokers()]
            fault = (
                f"Replica assignment has brokers that are not alive. Replica list: {_listed(adding)}, "
                f"live broker list: {_listed(live)}"
            )
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)


def _listed(broker_ids: Sequence[int]) -> str:
    return ", ".join(map(str, broker_ids))


def is_complete(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment, state: PartitionState | None
) -> bool:
    """Whether all replicas that a partition is to have are in sync, so that it needs the others no more."""
    if not assignment.is_changing:
        return True
    if state is None or not set(state.isr).issuperset(assignment.target):
        return False
    return any(context.is_online(each, partition) for each in assignment.target)


def with_next_epoch(context: ControllerContext, state: PartitionState) -> PartitionState:
    """Return a state that differs in its epoch alone, so that brokers take in anew what they are told with it."""
    return state._replace(leader_epoch=state.leader_epoch + 1, controller_epoch=context.epoch)
