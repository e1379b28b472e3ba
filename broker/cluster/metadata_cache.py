"""The metadata of the cluster at this broker: brokers, topics by name and by id, partitions and their leaders.

PURE. Owns the content of the UpdateMetadata requests so far. Must not know who sends them, nor who reads the metadata.
Counterpart in Kafka: kafka.server.metadata.ZkMetadataCache.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from ottla.wire.types import ZERO_UUID, TopicPartition
from ottla.zk.znodes import LEADER_DURING_DELETE

_PROTOCOLS: Final[Mapping[int, str]] = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


class Node(NamedTuple):
    """The address of one listener of a broker."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """A partition; `leader` is -1 while there is none."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    partition_epoch: int


class BrokerMetadata(NamedTuple):
    """A live broker and its endpoints by listener."""

    broker_id: int
    rack: str | None
    nodes: Mapping[str, Node]


class MetadataCache:
    """The brokers, topics and partitions of the cluster."""

    def __init__(self) -> None:
        self.controller_id: int | None = None
        self.controller_epoch = 0
        self.brokers: dict[int, BrokerMetadata] = {}
        self._partitions: dict[str, dict[int, PartitionMetadata]] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._topic_names: dict[bytes, str] = {}

    def update(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Apply an UpdateMetadata; return the partitions that it removes."""
        self.controller_id = request.controller_id if request.controller_id >= 0 else None
        self.controller_epoch = request.controller_epoch
        self.brokers = {
            broker.id: BrokerMetadata(broker.id, broker.rack, _nodes(broker)) for broker in request.live_brokers
        }
        gone: list[TopicPartition] = []
        for topic in request.topic_states:
            self._set_topic_id(topic.topic_name, topic.topic_id)
            for state in topic.partition_states:
                self._apply(TopicPartition(topic.topic_name, state.partition_index), state, gone)
        for state in request.ungrouped_partition_states:
            self._apply(TopicPartition(state.topic_name, state.partition_index), state, gone)
        return gone

    def _apply(
        self, partition: TopicPartition, state: UpdateMetadataPartitionState, gone: list[TopicPartition]
    ) -> None:
        if state.leader == LEADER_DURING_DELETE:
            self._remove(partition)
            gone.append(partition)
        else:
            self._put(partition, state)

    def _put(self, partition: TopicPartition, state: UpdateMetadataPartitionState) -> None:
        self._partitions.setdefault(partition.topic, {})[partition.partition] = PartitionMetadata(
            state.leader,
            state.leader_epoch,
            tuple(state.isr),
            tuple(state.replicas),
            tuple(state.offline_replicas),
            state.zk_version,
        )

    def _remove(self, partition: TopicPartition) -> None:
        partitions = self._partitions.get(partition.topic)
        if partitions is not None:
            partitions.pop(partition.partition, None)
        if not partitions:
            self._partitions.pop(partition.topic, None)
            self._set_topic_id(partition.topic, ZERO_UUID)

    def _set_topic_id(self, topic: str, topic_id: bytes) -> None:
        old = self._topic_ids.pop(topic, None)
        if old is not None:
            self._topic_names.pop(old, None)
        if topic_id != ZERO_UUID:
            self._topic_ids[topic] = topic_id
            self._topic_names[topic_id] = topic

    @property
    def topics(self) -> Collection[str]:
        """The names of all topics."""
        return self._partitions.keys()

    def contains(self, topic: str, partition: int | None = None) -> bool:
        """Whether a topic, or one partition of it, exists."""
        partitions = self._partitions.get(topic)
        return partitions is not None and (partition is None or partition in partitions)

    def partitions(self, topic: str) -> Mapping[int, PartitionMetadata]:
        """Return a topic's partitions by their numbers; none if the topic does not exist."""
        return self._partitions.get(topic, {})

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        """Return one partition, None if it does not exist."""
        return self._partitions.get(topic, {}).get(partition)

    def topic_id(self, topic: str) -> bytes:
        """Return a topic's id; ZERO_UUID for a topic that does not exist or has no id."""
        return self._topic_ids.get(topic, ZERO_UUID)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, None if there is none."""
        return self._topic_names.get(topic_id)

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker was registered at the last update."""
        return broker_id in self.brokers

    def node(self, broker_id: int, listener: str) -> Node | None:
        """Return the address of one listener of a live broker, None if there is none."""
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.nodes.get(listener)

    def nodes(self, listener: str) -> list[Node]:
        """Return the address of one listener of each live broker that has it."""
        return [node for broker in self.brokers.values() if (node := broker.nodes.get(listener)) is not None]


def _nodes(broker: UpdateMetadataBroker) -> dict[str, Node]:
    """Return the addresses by listener. Before version 3 of the request a listener is named after its protocol."""
    if broker.v0_host:
        return {_PROTOCOLS[0]: Node(broker.id, broker.v0_host, broker.v0_port, broker.rack)}
    return {
        each.listener or _PROTOCOLS.get(each.security_protocol, ""): Node(broker.id, each.host, each.port, broker.rack)
        for each in broker.endpoints
    }
