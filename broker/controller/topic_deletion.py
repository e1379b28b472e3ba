"""The deletion of topics, until only their znodes are left.

PURE. Owns the order of a deletion, and when it halts and resumes. Must not know the znodes.
Counterpart in Kafka: kafka.controller.TopicDeletionManager.

A deletion first removes the topic from the brokers' metadata, then stops and deletes the replicas. It halts
(ineligible) while brokers of the topic are offline, or replicas of the topic are being reassigned.
"""

from collections.abc import Collection, Iterable

from ottla.broker.controller.context import ControllerContext, PartitionPhase, Replica, ReplicaPhase
from ottla.broker.controller.request_batch import RequestBatch
from ottla.broker.controller.state_machines import (
    deletion_started,
    move_partitions,
    move_replicas,
    replicas_offline,
)
from ottla.wire.types import TopicPartition


def begin(context: ControllerContext, topics: Iterable[str]) -> None:
    """Mark topics for deletion; halt those that cannot be deleted now."""
    context.topics_to_delete.update(topics)
    reassigning = context.topics_reassigning()
    for topic in context.topics_to_delete:
        if topic in reassigning or not _all_online(context, topic):
            context.topics_ineligible_for_deletion.add(topic)


def resume(context: ControllerContext, batch: RequestBatch) -> list[str]:
    """Start each deletion that is possible; return the topics whose replicas are all deleted."""
    finished = []
    for topic in sorted(context.topics_to_delete):
        phases = {context.replica_phases.get(each) for each in context.replicas_of_topic(topic)}
        if phases <= {ReplicaPhase.DELETION_SUCCESSFUL}:
            finished.append(topic)
        elif ReplicaPhase.DELETION_STARTED not in phases and topic not in context.topics_ineligible_for_deletion:
            _start(context, batch, topic)
    return finished


def resume_topics(context: ControllerContext, topics: Collection[str]) -> None:
    """Make halted topics eligible again, because their brokers are back or their reassignments complete."""
    context.topics_ineligible_for_deletion.difference_update(set(topics) - context.topics_reassigning())


def halted_for_long(context: ControllerContext) -> set[str]:
    """Return the topics whose deletion waits for brokers, and not for a reassignment."""
    return context.topics_ineligible_for_deletion - context.topics_reassigning()


def replicas_deleted(context: ControllerContext, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
    """Move the replicas that a broker deleted to DELETION_SUCCESSFUL."""
    replicas = [Replica(each, broker_id) for each in partitions if each.topic in context.topics_to_delete]
    move_replicas(context, replicas, ReplicaPhase.DELETION_SUCCESSFUL)


def deletion_failed(context: ControllerContext, replicas: Iterable[Replica]) -> None:
    """Move replicas to DELETION_INELIGIBLE, and halt the deletion of their topics."""
    failed = [each for each in replicas if each.partition.topic in context.topics_to_delete]
    move_replicas(context, failed, ReplicaPhase.DELETION_INELIGIBLE)
    context.topics_ineligible_for_deletion.update(each.partition.topic for each in failed)


def _start(context: ControllerContext, batch: RequestBatch, topic: str) -> None:
    partitions = context.partitions_of(topic)
    if topic not in context.topics_being_deleted:
        move_partitions(context, partitions, PartitionPhase.OFFLINE)
        move_partitions(context, partitions, PartitionPhase.NON_EXISTENT)
        context.topics_being_deleted.add(topic)
    batch.add_update_metadata(context.brokers, partitions)
    dead, alive = [], []
    for replica in context.replicas_of_topic(topic):
        if not context.is_online(replica.broker_id, replica.partition):
            dead.append(replica)
        elif context.replica_phases.get(replica) is not ReplicaPhase.DELETION_SUCCESSFUL:
            alive.append(replica)
    replicas_offline(context, batch, alive)
    deletion_started(context, batch, alive)
    if dead:
        offline = [each for each in dead if context.replica_phases.get(each) is ReplicaPhase.OFFLINE]
        move_replicas(context, offline, ReplicaPhase.DELETION_INELIGIBLE)
        context.topics_ineligible_for_deletion.add(topic)


def _all_online(context: ControllerContext, topic: str) -> bool:
    replicas = context.replicas_of_topic(topic)
    return all(context.is_online(broker_id, partition) for partition, broker_id in replicas)
