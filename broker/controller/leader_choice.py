"""The choice of a partition's next leader.

PURE. Owns the choice, one function for each occasion. Must not know how the choice is written or sent.
Counterparts in Kafka: kafka.controller.Election and PartitionLeaderElectionAlgorithms.

Each function returns the partition's next state, or None if no replica can lead.
"""

from collections.abc import Sequence

from ottla.broker.controller.context import ControllerContext
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import NO_LEADER, RECOVERED, RECOVERING, PartitionState


def first_leader(context: ControllerContext, partition: TopicPartition) -> PartitionState | None:
    """For a new partition: the first live replica leads, all live ones are in sync."""
    live = _online(context, partition, context.assignment(partition).replicas)
    return PartitionState(live[0], 0, live, context.epoch, RECOVERED, 0) if live else None


def after_failure(
    context: ControllerContext, partition: TopicPartition, state: PartitionState, *, allow_unclean: bool
) -> PartitionState | None:
    """After the leader failed: the first live in-sync replica, or, with `allow_unclean`, the first live one."""
    assigned = context.assignment(partition).replicas
    live = _online(context, partition, assigned)
    leader = next((each for each in live if each in state.isr), None)
    if leader is not None:
        return _next(context, state, leader, _online(context, partition, state.isr))
    if allow_unclean and live:
        # The new leader may miss acknowledged records, and must know it.
        return _next(context, state, live[0], live[:1])._replace(recovery_state=RECOVERING)
    return None


def for_reassignment(
    context: ControllerContext, partition: TopicPartition, state: PartitionState
) -> PartitionState | None:
    """For a leader outside the target replicas: the first target replica that is live and in sync."""
    target = context.assignment(partition).target
    leader = next((each for each in _online(context, partition, target) if each in state.isr), None)
    return None if leader is None else _next(context, state, leader, state.isr)


def preferred(context: ControllerContext, partition: TopicPartition, state: PartitionState) -> PartitionState | None:
    """To rebalance leaders: the first replica, if it is live and in sync."""
    assigned = context.assignment(partition).replicas
    if not assigned or assigned[0] not in state.isr or not context.is_online(assigned[0], partition):
        return None
    return _next(context, state, assigned[0], state.isr)


def out_of_balance(context: ControllerContext, most_percent: int) -> list[TopicPartition]:
    """Return the partitions whose preferred replica can lead again, of brokers that lead too few of their partitions.

    Empty while replicas of any partition are changing.
    """
    if context.reassigning:
        return []
    by_first: dict[int, list[TopicPartition]] = {}
    for partition in context.all_partitions():
        replicas = context.assignment(partition).replicas
        if replicas and partition.topic not in context.topics_to_delete:
            by_first.setdefault(replicas[0], []).append(partition)
    found = []
    for broker_id, partitions in by_first.items():
        elsewhere = [
            (each, state)
            for each in partitions
            if (state := context.leadership.get(each)) is not None and state.leader != broker_id
        ]
        if len(elsewhere) * 100 > most_percent * len(partitions):
            found += [each for each, state in elsewhere if preferred(context, each, state) is not None]
    return found


def before_shutdown(
    context: ControllerContext, partition: TopicPartition, state: PartitionState
) -> PartitionState | None:
    """Before the leader shuts down: the first in-sync replica that stays. Brokers that shut down leave the ISR."""
    isr = tuple(each for each in state.isr if each not in context.shutting_down)
    leader = next((each for each in context.assignment(partition).replicas if each in isr), None)
    if leader is None or not context.is_online(leader, partition):
        return None
    return _next(context, state, leader, isr)


def without_replica(context: ControllerContext, state: PartitionState, broker_id: int) -> PartitionState:
    """After a replica stopped: it leads no more, and leaves the ISR unless it is the last replica there."""
    leader = NO_LEADER if state.leader == broker_id else state.leader
    isr = tuple(each for each in state.isr if each != broker_id) if len(state.isr) > 1 else state.isr
    return _next(context, state, leader, isr)


def _online(context: ControllerContext, partition: TopicPartition, broker_ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(each for each in broker_ids if context.is_online(each, partition))


def _next(context: ControllerContext, state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return state._replace(leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1, controller_epoch=context.epoch)
