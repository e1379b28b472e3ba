"""The controller's knowledge of the cluster.

PURE. Owns brokers, topics, assignments, leaders, the state of every partition and replica, and queries of them. Must
not know how it is read, or sent to brokers. Counterpart in Kafka: kafka.controller.ControllerContext.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from ottla.wire.types import NO_EPOCH, TopicPartition
from ottla.zk.znodes import BrokerInfo, PartitionState, ReplicaAssignment

NO_ASSIGNMENT: Final = ReplicaAssignment(())
EPOCH_DURING_DELETE: Final = -2


class PartitionPhase(Enum):
    """The phase of a partition.

    NON_EXISTENT  never created, or deleted.
    NEW           has replicas, but never had a leader.
    ONLINE        has a leader.
    OFFLINE       had a leader, which failed.
    """

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    NON_EXISTENT = "non-existent"


class ReplicaPhase(Enum):
    """The phase of a replica.

    NEW                  assigned, and known only to its broker.
    ONLINE               its broker is alive and serves it.
    OFFLINE              its broker failed, or was sent a StopReplica.
    DELETION_STARTED     its broker was sent a StopReplica that deletes it.
    DELETION_SUCCESSFUL  its broker has deleted it.
    DELETION_INELIGIBLE  its broker cannot delete it now.
    NON_EXISTENT         not assigned, or deleted.
    """

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"
    NON_EXISTENT = "non-existent"


class Replica(NamedTuple):
    """One broker's copy of a partition."""

    partition: TopicPartition
    broker_id: int


class LiveBroker(NamedTuple):
    """A registered broker and the epoch of its registration."""

    info: BrokerInfo
    epoch: int


class ControllerContext:
    """The knowledge of one controller, from its election to its resignation."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.brokers: dict[int, LiveBroker] = {}
        self.shutting_down: set[int] = set()
        self.offline_directories: dict[int, set[TopicPartition]] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.reassigning: set[TopicPartition] = set()
        self.leadership: dict[TopicPartition, PartitionState] = {}
        self.partition_phases: dict[TopicPartition, PartitionPhase] = {}
        self.replica_phases: dict[Replica, ReplicaPhase] = {}
        self.topics_to_delete: set[str] = set()
        self.topics_being_deleted: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()

    @property
    def topics(self) -> Iterable[str]:
        """All topics, also those that are being deleted."""
        return self.assignments.keys()

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker is registered and not shutting down."""
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def is_online(self, broker_id: int, partition: TopicPartition, *, or_shutting_down: bool = False) -> bool:
        """Whether a broker can serve its replica of a partition."""
        is_there = broker_id in self.brokers if or_shutting_down else self.is_live(broker_id)
        return is_there and partition not in self.offline_directories.get(broker_id, ())

    def set_topic(self, topic: str, topic_id: bytes | None, assignment: Mapping[int, ReplicaAssignment]) -> None:
        """Set the id and the assignment of a topic."""
        self.assignments[topic] = {}
        for index, each in assignment.items():
            self.set_assignment(TopicPartition(topic, index), each)
        if topic_id is not None:
            self.topic_ids[topic] = topic_id
            self.topic_names[topic_id] = topic

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Set the replicas of a partition of a known topic."""
        self.assignments[partition.topic][partition.partition] = assignment
        if assignment.is_changing:
            self.reassigning.add(partition)
        else:
            self.reassigning.discard(partition)

    def remove_topic(self, topic: str) -> None:
        """Remove a topic."""
        for index, assignment in self.assignments.pop(topic, {}).items():
            partition = TopicPartition(topic, index)
            self.reassigning.discard(partition)
            self.leadership.pop(partition, None)
            self.partition_phases.pop(partition, None)
            for broker_id in assignment.replicas:
                self.replica_phases.pop(Replica(partition, broker_id), None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        self.topics_to_delete.discard(topic)
        self.topics_being_deleted.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return the replicas of a partition; none if it does not exist."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, NO_ASSIGNMENT)

    def reassignments(self) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the partitions whose replicas are changing."""
        return {each: self.assignment(each) for each in sorted(self.reassigning)}

    def topics_reassigning(self) -> set[str]:
        """Return the topics with a partition whose replicas are changing."""
        return {each.topic for each in self.reassigning}

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions."""
        return [TopicPartition(topic, index) for index in self.assignments.get(topic, ())]

    def all_partitions(self) -> Iterator[TopicPartition]:
        """Yield the partitions of all topics."""
        for topic, assignment in self.assignments.items():
            for index in assignment:
                yield TopicPartition(topic, index)

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        """Return the replicas of partitions."""
        return [Replica(each, broker_id) for each in partitions for broker_id in self.assignment(each).replicas]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        """Return the replicas of a topic."""
        return self.replicas_of(self.partitions_of(topic))

    def replicas_on(self, broker_ids: Iterable[int]) -> list[Replica]:
        """Return the replicas on these brokers."""
        wanted = set(broker_ids)
        return [replica for replica in self.replicas_of(self.all_partitions()) if replica.broker_id in wanted]

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return a partition's leader epoch. EPOCH_DURING_DELETE overrides every epoch."""
        if partition.topic in self.topics_to_delete:
            return EPOCH_DURING_DELETE
        state = self.leadership.get(partition)
        return NO_EPOCH if state is None else state.leader_epoch

    def partitions_with_leaders(self) -> list[TopicPartition]:
        """Return the partitions that ever had a leader, without topics marked for deletion."""
        return [partition for partition in self.leadership if partition.topic not in self.topics_to_delete]

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """Return the partitions whose leader is offline, without topics marked for deletion."""
        return [
            each for each in self.partitions_with_leaders() if not self.is_online(self.leadership[each].leader, each)
        ]
