"""How partitions and replicas move from phase to phase, and what must be written and told when they do.

PURE. Owns the tables of legal moves and, for each move, its effects: states to write, and requests gathered in a batch.
Must not know the store: a move that writes is begun here (`new_leaders`, `elect`, `shrink_isr`), written by the event
loop with the controller's fence, and ended here (`leaders_written`, `isr_shrunk`) with what was written.
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

_ILLEGAL: Final = "[Controller epoch=%d] %s cannot become %s, it is %s"

# From which phases a partition may come to each.
PARTITION_MOVES: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = {
    PartitionPhase.NEW: frozenset({PartitionPhase.NON_EXISTENT}),
    PartitionPhase.ONLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.OFFLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.NON_EXISTENT: frozenset({PartitionPhase.OFFLINE}),
}

# From which phases a replica may come to each.
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


# Who is to lead a partition in this state; None: nobody can.
Choose = Callable[[ControllerContext, TopicPartition, PartitionState], PartitionState | None]


def begin_partitions(context: ControllerContext) -> None:
    """Find the phase of every partition when a controller begins."""
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
    """Find the phase of every replica when a controller begins; return those online and those offline.

    One that is offline is set down as ineligible for deletion, lest a topic's deletion wait for it.
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
    """Move partitions to a phase other than ONLINE: nothing is written or told for that alone."""
    for partition in _legal_partitions(context, partitions, to):
        context.partition_phases[partition] = to


def new_leaders(context: ControllerContext, partitions: Iterable[TopicPartition]) -> list[StateWrite]:
    """Begin to bring NEW partitions online; those without a live replica stay as they are."""
    writes = []
    for partition in partitions:
        if context.partition_phases.get(partition) is PartitionPhase.NEW:
            state = first_leader(context, partition)
            if state is None:
                logger.error(
                    "[Controller epoch=%d] No replica of %s is alive, so nobody leads it", context.epoch, partition
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
    """Begin to elect leaders for OFFLINE or ONLINE partitions, whose states as they stand in the store are `found`."""
    writes = []
    for partition in _legal_partitions(context, partitions, PartitionPhase.ONLINE):
        state = found.get(partition)
        if state is None:
            logger.error("[Controller epoch=%d] The state of %s is not in the store", context.epoch, partition)
        elif state.controller_epoch > context.epoch:
            logger.error("[Controller epoch=%d] A later one wrote the state of %s", context.epoch, partition)
        elif (chosen := choose(context, partition, state)) is None:
            logger.error("[Controller epoch=%d] No replica can lead %s: %s", context.epoch, partition, state)
        else:
            replicas = context.assignment(partition).replicas
            live = tuple(each for each in replicas if context.is_online(each, partition, or_shutting_down=True))
            writes.append(StateWrite(partition, chosen, False, live))
    return writes


def leaders_written(context: ControllerContext, batch: RequestBatch, written: Sequence[StateWrite]) -> None:
    """End an election: `state.version` is now the version of the znode written."""
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
    """Move replicas to NEW: where their partition has a leader already, they are to follow it."""
    for replica in _legal_replicas(context, replicas, ReplicaPhase.NEW):
        state = context.leadership.get(replica.partition)
        if state is not None and state.leader == replica.broker_id:
            logger.error("[Controller epoch=%d] %s leads its partition, so it cannot be new", context.epoch, replica)
            continue
        context.replica_phases[replica] = ReplicaPhase.NEW
        if state is not None:
            batch.add_leader_and_isr(context, [replica.broker_id], replica.partition, is_new=True)


def replicas_online(context: ControllerContext, batch: RequestBatch, replicas: Iterable[Replica]) -> None:
    """Move replicas to ONLINE: their brokers are told who leads, unless that is how they came to be."""
    for replica in _legal_replicas(context, replicas, ReplicaPhase.ONLINE):
        was_new = context.replica_phases.get(replica) is ReplicaPhase.NEW
        if not was_new and replica.partition in context.leadership:
            batch.add_leader_and_isr(context, [replica.broker_id], replica.partition, is_new=False)
        context.replica_phases[replica] = ReplicaPhase.ONLINE


def replicas_offline(context: ControllerContext, batch: RequestBatch, replicas: Iterable[Replica]) -> list[Replica]:
    """Move replicas to OFFLINE: their brokers are to stop them; return those that are to leave the ISR.

    The ISR of a topic that is being deleted is left alone: it goes with the topic.
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
    """Begin to take replicas out of the ISR; return those too that are in none.

    Of two of one partition the second write will find that the first one came before it, and is to be begun again.
    """
    writes, others = [], []
    for replica in replicas:
        partition, broker_id = replica
        state = found.get(partition)
        if state is None or state.controller_epoch > context.epoch:
            logger.error("[Controller epoch=%d] No state of %s, or a later one's", context.epoch, partition)
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
    """End a change of ISR: the replicas that are left are told, and all brokers."""
    for partition, state, is_new, recipients in written:
        context.leadership[partition] = state
        batch.add_leader_and_isr(context, recipients, partition, is_new=is_new)
    for partition, broker_id in others:
        recipients = tuple(each for each in context.assignment(partition).replicas if each != broker_id)
        batch.add_leader_and_isr(context, recipients, partition, is_new=False)


def deletion_started(context: ControllerContext, batch: RequestBatch, replicas: Iterable[Replica]) -> None:
    """Move replicas to DELETION_STARTED: their brokers are to delete them."""
    for replica in _legal_replicas(context, replicas, ReplicaPhase.DELETION_STARTED):
        context.replica_phases[replica] = ReplicaPhase.DELETION_STARTED
        batch.add_stop_replica(replica.broker_id, replica.partition, delete=True)


def move_replicas(context: ControllerContext, replicas: Iterable[Replica], to: ReplicaPhase) -> None:
    """Move replicas to a phase of which nobody need be told."""
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
