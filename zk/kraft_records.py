"""The records of a KRaft cluster's metadata log, as far as ClusterMetadata holds them.

PURE. Owns these records' formats, and the metadata that a sequence of them describes. Must not know their source.
Counterpart in Kafka: MetadataRecordSerde, MetadataDelta, and the records of the metadata module.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from ottla.wire.errors import DecodeError
from ottla.wire.schema import Message, V
from ottla.wire.types import Int8, Int32, Int64, String, Uuid
from ottla.zk.cluster_metadata import ClusterMetadata, MetadataError, PartitionMetadata, TopicMetadata
from ottla.zk.znodes import DEFAULT_ENTITY, ReplicaAssignment

_FRAME_VERSIONS: Final = (0, 1)
_MAX_VARINT_BYTES: Final = 5
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_UNCHANGED: Final = -2


class TopicRecord(Message, versions="0", flexible="0+"):
    """A new topic."""

    name: String
    topic_id: Uuid


class PartitionRecord(Message, versions="0-2", flexible="0+"):
    """A partition's new state. An eligible leader replica is not in sync, but may lead without a loss."""

    partition_id: Int32 = -1
    topic_id: Uuid
    replicas: Sequence[Int32]
    isr: Sequence[Int32]
    removing_replicas: Sequence[Int32]
    adding_replicas: Sequence[Int32]
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, V("0+", tag=0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[Sequence[Uuid], V("1+")] = ()
    eligible_leader_replicas: Annotated[Sequence[Int32] | None, V("2+", nullable="2+", tag=1)] = None
    last_known_elr: Annotated[Sequence[Int32] | None, V("2+", nullable="2+", tag=2)] = None


class PartitionChangeRecord(Message, versions="0-2", flexible="0+"):
    """A change of a partition; each change of its leader begins an epoch."""

    partition_id: Int32 = -1
    topic_id: Uuid
    isr: Annotated[Sequence[Int32] | None, V("0+", nullable="0+", tag=0)] = None
    leader: Annotated[Int32, V("0+", tag=1)] = _UNCHANGED
    replicas: Annotated[Sequence[Int32] | None, V("0+", nullable="0+", tag=2)] = None
    removing_replicas: Annotated[Sequence[Int32] | None, V("0+", nullable="0+", tag=3)] = None
    adding_replicas: Annotated[Sequence[Int32] | None, V("0+", nullable="0+", tag=4)] = None
    leader_recovery_state: Annotated[Int8, V("0+", tag=5)] = -1
    directories: Annotated[Sequence[Uuid] | None, V("1+", nullable="1+", tag=8)] = None
    eligible_leader_replicas: Annotated[Sequence[Int32] | None, V("2+", nullable="2+", tag=6)] = None
    last_known_elr: Annotated[Sequence[Int32] | None, V("2+", nullable="2+", tag=7)] = None


class ConfigRecord(Message, versions="0", flexible="0+"):
    """A config that is set, or unset if `value` is None."""

    resource_type: Int8
    resource_name: String
    name: String
    value: Annotated[String | None, V(nullable="0+")]


class RemoveTopicRecord(Message, versions="0", flexible="0+"):
    """A topic is deleted."""

    topic_id: Uuid


class ProducerIdsRecord(Message, versions="0", flexible="0+"):
    """Producer ids below `next_producer_id` are allocated."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


RECORDS: Final[dict[int, type[Message]]] = {
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    9: RemoveTopicRecord,
    15: ProducerIdsRecord,
}
_BEGIN_TRANSACTION: Final = 23
_END_TRANSACTION: Final = 24
_ABORT_TRANSACTION: Final = 25
# Metadata that ClusterMetadata does not hold, by record type.
_NOT_TAKEN_OVER: Final = {10: "delegation tokens", 11: "SCRAM credentials", 14: "quotas", 18: "ACLs"}
_UNKNOWN_TOPIC: Final = "a record names a topic that does not exist"


class KraftImage:
    """The metadata that the replayed records describe."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._partitions: dict[bytes, dict[int, PartitionRecord]] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._next_producer_id = 0
        self._in_transaction: list[Message] | None = None
        self.left_out: set[str] = set()
        """Kinds of replayed metadata that ClusterMetadata does not hold."""

    def replay(self, value: bytes) -> None:
        """Apply a record. MetadataError: it cannot be decoded."""
        try:
            frame_version, position = _varint(value, 0)
            number, position = _varint(value, position)
            version, position = _varint(value, position)
            if frame_version not in _FRAME_VERSIONS:
                raise MetadataError(f"a record has frame version {frame_version}")
            kind = RECORDS.get(number)
            if kind is not None and version not in kind.versions:
                raise MetadataError(f"a {kind.__name__} has version {version}")
            record = None if kind is None else kind.decode(value[position:], version)
        except DecodeError as error:
            raise MetadataError(f"a record cannot be read: {error}") from error
        if number in _NOT_TAKEN_OVER:
            self.left_out.add(_NOT_TAKEN_OVER[number])
        elif number == _BEGIN_TRANSACTION:
            self._in_transaction = []
        elif number in (_END_TRANSACTION, _ABORT_TRANSACTION):
            written, self._in_transaction = self._in_transaction or [], None
            for each in written if number == _END_TRANSACTION else ():
                self._take(each)
        elif record is not None and self._in_transaction is not None:
            self._in_transaction.append(record)
        elif record is not None:
            self._take(record)

    def _take(self, record: Message) -> None:
        try:
            if isinstance(record, TopicRecord):
                self._names[record.topic_id] = record.name
                self._partitions[record.topic_id] = {}
            elif isinstance(record, PartitionRecord):
                self._partitions[record.topic_id][record.partition_id] = record
            elif isinstance(record, PartitionChangeRecord):
                _change(self._partitions[record.topic_id][record.partition_id], record)
            elif isinstance(record, RemoveTopicRecord):
                self._configs.pop((_TOPIC_RESOURCE, self._names.pop(record.topic_id)), None)
                del self._partitions[record.topic_id]
            elif isinstance(record, ProducerIdsRecord):
                self._next_producer_id = record.next_producer_id
            elif isinstance(record, ConfigRecord):
                configs = self._configs.setdefault((record.resource_type, record.resource_name), {})
                if record.value is None:
                    configs.pop(record.name, None)
                else:
                    configs[record.name] = record.value
        except KeyError as error:
            raise MetadataError(_UNKNOWN_TOPIC) from error

    def metadata(self, cluster_id: str) -> ClusterMetadata:
        """Return the cluster's metadata."""
        topics = {}
        for topic_id, name in self._names.items():
            partitions = {index: _partition(each) for index, each in self._partitions[topic_id].items()}
            topics[name] = TopicMetadata(topic_id, partitions, self._configs.get((_TOPIC_RESOURCE, name), {}))
        brokers = {
            name or DEFAULT_ENTITY: configs
            for (resource, name), configs in self._configs.items()
            if resource == _BROKER_RESOURCE and configs
        }
        return ClusterMetadata(cluster_id, topics, brokers, self._next_producer_id)


def _change(partition: PartitionRecord, change: PartitionChangeRecord) -> None:
    for name in ("isr", "replicas", "removing_replicas", "adding_replicas", "eligible_leader_replicas"):
        value = getattr(change, name)
        if value is not None:
            setattr(partition, name, value)
    if change.leader != _UNCHANGED:
        partition.leader = change.leader
        partition.leader_epoch += 1


def _partition(record: PartitionRecord) -> PartitionMetadata:
    replicas, adding, removing = map(tuple, (record.replicas, record.adding_replicas, record.removing_replicas))
    # Without in-sync replicas, only eligible leader replicas may lead without a loss.
    isr = tuple(record.isr or record.eligible_leader_replicas or ())
    return PartitionMetadata(ReplicaAssignment(replicas, adding, removing), record.leader_epoch, isr)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned varint and the position behind it."""
    value = 0
    for count, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, position + count + 1
    raise MetadataError("a record ends within its header")
