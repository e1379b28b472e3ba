"""The state machines of partitions and replicas: their moves between phases, with states to write and requests to send.

PURE. Owns the tables of legal moves, and the effects of each move. Must not know the store: a move that writes begins
here (`new_leaders`, `elect`, `shrink_isr`), is written by `actions`, and ends here (`leaders_written`, `isr_shrunk`).
Counterparts in Kafka: kafka.controller.PartitionStateMachine, ReplicaStateMachine.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.config.log_levels import level_of_each, names
from ottla.broker.controller.context import ControllerContext, PartitionPhase, Replica, ReplicaPhase
from ottla.broker.controller.leader_choice import first_leader, without_replica
from ottla.broker.controller.request_batch import RequestBatch
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import PartitionState

logger = logging.getLogger("state.change.logger")

_ILLEGAL: Final = "[Controller epoch=%d] %s cannot become %s, because it is %s"

# The phases of a partition from which each phase can be reached.
PARTITION_MOVES: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = {
    PartitionPhase.NEW: frozenset({PartitionPhase.NON_EXISTENT}),
    PartitionPhase.ONLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.OFFLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.NON_EXISTENT: frozenset({PartitionPhase.OFFLINE}),
}

# The phases of a replica from which each phase can be reached.
REPLICA_MOVES: Final[Mapping[ReplicaPhase, frozenset[ReplicaPhase]]] = {
    ReplicaPhase.NEW: frozenset({ReplicaPhase.NON_EXISTENT}),
    ReplicaPhase.ONLINE: frozenset(
        {ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE}
    ),
    ReplicaPhase.OFFLINE: frozenset(
        {ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE}
    ),
    ReplicaPhase.DELETION_STARTED: frozenset({ReplicaPhase.OFFLINE}),
    ReplicaPhase.DELETION_SUCCESSFUL: frozenset({ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.DELETION_INELIGIBLE: frozenset({ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.NON_EXISTENT: frozenset({ReplicaPhase.DELETION_SUCCESSFUL}),
}


class StateWrite(NamedTuple):
    """A partition's state to be written; `state.version` is the version of the znode that it replaces."""

    partition: TopicPartition
    state: PartitionState
    is_new: bool
    recipients: tuple[int, ...]


# Returns the next state of a partition, with its leader; None if no replica can lead.
Choose = Callable[[ControllerContext, TopicPartition, PartitionState], PartitionState | None]


def begin_partitions(context: ControllerContext) -> None:
    """Set the phase of every partition after an election of the controller."""
    for partition in context.all_partitions():
        state = context.leadership.get(partition)
        if state is None:
            phase = PartitionPhase.NEW
        elif context.is_online(state.leader, partition):
            phase = PartitionPhase.ONLINE
        else:
            phase = PartitionPhase.OFFLINE
        context.partition_phases[partition] = phase


def begin_replicas(context: ControllerContext) -> tuple[list[Replica], list[Replica]]:
    """Set the phase of every replica after an election of the controller; return the online and the offline ones.

    An offline replica is DELETION_INELIGIBLE, because otherwise the deletion of its topic would wait for it.
    """
    online, offline = [], []
    for replica in context.replicas_of(context.all_partitions()):
        if context.is_online(replica.broker_id, replica.partition):
            context.replica_phases[replica] = ReplicaPhase.ONLINE
            online.append(replica)
        else:
            context.replica_phases[replica] = ReplicaPhase.DELETION_INELIGIBLE
            offline.append(replica)
    return online, offline


def move_partitions(context: ControllerContext, partitions: Iterable[TopicPartition], to: PartitionPhase) -> None:
    """Move partitions to a phase other than ONLINE; nothing is written or sent."""
    for partition in _legal_partitions(context, partitions, to):
        context.partition_phases[partition] = to


def new_leaders(context: ControllerContext, partitions: Iterable[TopicPartition]) -> list[StateWrite]:
    """Return the first states of NEW partitions to write; partitions without a live replica have none."""
    writes = []
    for partition in partitions:
        if context.partition_phases.get(partition) is PartitionPhase.NEW:
            state = first_leader(context, partition)
            if state is None:
                logger.error(
                    "[Controller epoch=%d] No replica of %s is alive, so it has no leader", context.epoch, partition
                )
            else:
                writes.append(StateWrite(partition, state, True, state.isr))
    return writes


def elect(
    context: ControllerContext,
    partitions: Iterable[TopicPartition],
    found: Mapping[TopicPartition, PartitionState],
    choose: Choose,
) -> list[StateWrite]:
    """Return the states to write with new leaders of OFFLINE or ONLINE partitions. `found` are their stored states."""
    writes = []
    for partition in _legal_partitions(context, partitions, PartitionPhase.ONLINE):
        state = found.get(partition)
        if state is None:
            logger.error("[Controller epoch=%d] The state of %s is not in the store", context.epoch, partition)
        elif state.controller_epoch > context.epoch:
            logger.error("[Controller epoch=%d] A later controller wrote the state of %s", context.epoch, partition)
        elif (chosen := choose(context, partition, state)) is None:
            logger.error("[Controller epoch=%d] No replica can lead %s: %s", context.epoch, partition, state)
        else:
            replicas = context.assignment(partition).replicas
            live = tuple(each for each in replicas if context.is_online(each, partition, or_shutting_down=True))
            writes.append(StateWrite(partition, chosen, False, live))
    return writes


def leaders_written(context: ControllerContext, batch: RequestBatch, written: Sequence[StateWrite]) -> None:
    """Move partitions with written leaders to ONLINE. `state.version` is the new version of the znode."""
    level = level_of_each(len(written))
    if level < logging.INFO:
        topics = names(write.partition.topic for write in written)
        logger.info("[Controller epoch=%d] %d partitions of %s are online", context.epoch, len(written), topics)
    for partition, state, is_new, recipients in written:
        logger.log(
            level,
            "[Controller epoch=%d] Partition %s is online, was %s: leader %d with epoch %d, ISR %s",
            context.epoch,
            partition,
            context.partition_phases[partition].value,
            state.leader,
            state.leader_epoch,
            list(state.isr),
        )
        context.leadership[partition] = state
        context.partition_phases[partition] = PartitionPhase.ONLINE
        batch.add_leader_and_isr(context, recipients, partition, is_new=is_new)


def replicas_new(context: ControllerContext, batch: RequestBatch, replicas: Iterable[Replica]) -> None:
    """Move replicas to NEW, as followers if their partition has a leader already."""
    for replica in _legal_replicas(context, replicas, ReplicaPhase.NEW):
        state = context.leadership.get(replica.partition)
        if state is not None and state.leader == replica.broker_id:
            logger.error("[Controller epoch=%d] %s leads its partition, so it cannot be new", context.epoch, replica)
            continue
        context.replica_phases[replica] = ReplicaPhase.NEW
        if state is not None:
            batch.add_leader_and_isr(context, [replica.broker_id], replica.partition, is_new=True)


def replicas_online(context: ControllerContext, batch: RequestBatch, replicas: Iterable[Replica]) -> None:
    """Move replicas to ONLINE, with a LeaderAndIsr to their brokers unless they were NEW."""
    for replica in _legal_replicas(context, replicas, ReplicaPhase.ONLINE):
        was_new = context.replica_phases.get(replica) is ReplicaPhase.NEW
        if not was_new and replica.partition in context.leadership:
            batch.add_leader_and_isr(context, [replica.broker_id], replica.partition, is_new=False)
        context.replica_phases[replica] = ReplicaPhase.ONLINE


def replicas_offline(context: ControllerContext, batch: RequestBatch, replicas: Iterable[Replica]) -> list[Replica]:
    """Move replicas to OFFLINE, with a StopReplica to their brokers; return those that must leave the ISR.

    A topic that is being deleted keeps its ISR.
    """
    to_shrink = []
    for replica in _legal_replicas(context, replicas, ReplicaPhase.OFFLINE):
        context.replica_phases[replica] = ReplicaPhase.OFFLINE
        batch.add_stop_replica(replica.broker_id, replica.partition, delete=False)
        if replica.partition.topic in context.topics_to_delete:
            continue
        if replica.partition in context.leadership:
            to_shrink.append(replica)
        else:
            batch.add_update_metadata(context.brokers, [replica.partition])
    return to_shrink


def shrink_isr(
    context: ControllerContext, replicas: Iterable[Replica], found: Mapping[TopicPartition, PartitionState]
) -> tuple[list[StateWrite], list[Replica]]:
    """Return the states to write with smaller ISRs, and the replicas that were in no ISR.

    For two replicas of one partition the second write conflicts with the first, and must be repeated.
    """
    writes, others = [], []
    for replica in replicas:
        partition, broker_id = replica
        state = found.get(partition)
        if state is None or state.controller_epoch > context.epoch:
            logger.error("[Controller epoch=%d] %s has no state, or a later controller's", context.epoch, partition)
        elif broker_id in state.isr:
            recipients = tuple(each for each in context.assignment(partition).replicas if each != broker_id)
            writes.append(StateWrite(partition, without_replica(context, state, broker_id), False, recipients))
        else:
            context.leadership[partition] = state
            others.append(replica)
    return writes, others


def isr_shrunk(
    context: ControllerContext, batch: RequestBatch, written: Iterable[StateWrite], others: Iterable[Replica]
) -> None:
    """Take written ISRs into the context, and add LeaderAndIsr requests to the batch: for the recipients of each write,
    and for all replicas of the partitions in `others` but the one named there.
    """
    for partition, state, is_new, recipients in written:
        context.leadership[partition] = state
        batch.add_leader_and_isr(context, recipients, partition, is_new=is_new)
    for partition, broker_id in others:
        recipients = tuple(each for each in context.assignment(partition).replicas if each != broker_id)
        batch.add_leader_and_isr(context, recipients, partition, is_new=False)


def deletion_started(context: ControllerContext, batch: RequestBatch, replicas: Iterable[Replica]) -> None:
    """Move replicas to DELETION_STARTED, with a StopReplica that deletes them."""
    for replica in _legal_replicas(context, replicas, ReplicaPhase.DELETION_STARTED):
        context.replica_phases[replica] = ReplicaPhase.DELETION_STARTED
        batch.add_stop_replica(replica.broker_id, replica.partition, delete=True)


def move_replicas(context: ControllerContext, replicas: Iterable[Replica], to: ReplicaPhase) -> None:
    """Move replicas to a phase without requests."""
    for replica in _legal_replicas(context, replicas, to):
        context.replica_phases[replica] = to


def _legal_partitions(
    context: ControllerContext, partitions: Iterable[TopicPartition], to: PartitionPhase
) -> Sequence[TopicPartition]:
    legal = []
    for partition in partitions:
        phase = context.partition_phases.setdefault(partition, PartitionPhase.NON_EXISTENT)
        if phase in PARTITION_MOVES[to]:
            legal.append(partition)
        else:
            logger.error(_ILLEGAL, context.epoch, partition, to.value, phase.value)
    return legal


def _legal_replicas(context: ControllerContext, replicas: Iterable[Replica], to: ReplicaPhase) -> Sequence[Replica]:
    legal = []
    for replica in replicas:
        phase = context.replica_phases.setdefault(replica, ReplicaPhase.NON_EXISTENT)
        if phase in REPLICA_MOVES[to]:
            legal.append(replica)
        else:
            logger.error(_ILLEGAL, context.epoch, replica, to.value, phase.value)
    return legal
