"""The rules of reassignments: whether the replicas of a partition may change, and when the change is complete.

PURE. Owns the rules, their order and their errors. Must not know what is written or sent meanwhile.
Counterparts in Kafka: validateReplicas, maybeBuildReassignment and isReassignmentComplete of KafkaController.

Deviations: target replicas none of which is in sync are refused, as in KRaft mode; Kafka with ZooKeeper would delete
the last replica with all records. And a reassignment is complete only when one of its target replicas can lead.
"""

from collections.abc import Sequence
from typing import Final

from ottla.broker.controller.context import ControllerContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import PartitionState, ReplicaAssignment

_MAX_BROKER_ID: Final = 2**31 - 1
# More than any partition has; a longer list is refused without further checks.
_MAX_REPLICAS: Final = 1000


def plan(
    context: ControllerContext, partition: TopicPartition, wanted: Sequence[int] | None, *, may_wait: bool = False
) -> ReplicaAssignment:
    """Return the assignment that moves a partition to the wanted replicas, or, for None, back to its old ones.

    With `may_wait`, target brokers may be offline.
    """
    current = context.assignment(partition)
    if wanted is not None:
        _check(context, current, wanted, may_wait)
    elif not current.is_changing:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    if partition.topic in context.topics_to_delete or not current.replicas:
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
            live = [each for each in sorted(context.brokers) if context.is_live(each)]
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
    """Whether all target replicas are in sync, and one of them can lead."""
    if not assignment.is_changing:
        return True
    if state is None or not set(state.isr).issuperset(assignment.target):
        return False
    return any(context.is_online(each, partition) for each in assignment.target)


def with_next_epoch(context: ControllerContext, state: PartitionState) -> PartitionState:
    """Return the state with the next leader epoch, because brokers ignore a request with the same epoch."""
    return state._replace(leader_epoch=state.leader_epoch + 1, controller_epoch=context.epoch)
