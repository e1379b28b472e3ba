"""Keys and values of the records in __consumer_offsets, of all types that Kafka 4.3 writes.

Owns their formats. A key begins with the number of its type, a value with its version. Must not know what a group is.
Counterparts in Kafka: group-coordinator's messages, GroupCoordinatorRecordSerde.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from ottla.wire.schema import DEFAULT, Message, Struct, V
from ottla.wire.types import ZERO_UUID, Bytes, Int8, Int16, Int32, Int64, String, UInt16, Uuid


class RecordType(NamedTuple):
    """The declarations of a type's keys and values."""

    key: type[Message]
    value: type[Message]


# Classic groups, and the offsets of all groups


class OffsetCommitKey(Message, versions="0"):
    """The key of a committed offset."""

    group: String
    topic: String
    partition: Int32


class LegacyOffsetCommitValue(Message, versions="0"):
    """A committed offset, as releases before 0.9 wrote it."""

    offset: Int64
    metadata: String
    commit_timestamp: Int64


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """A committed offset: the next one to read."""

    offset: Int64
    leader_epoch: Annotated[Int32, V("3+")] = -1
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, V("1")] = -1
    topic_id: Annotated[Uuid, V("4+", tag=0)] = ZERO_UUID


class GroupMetadataKey(Message, versions="0"):
    """The key of a classic group's last complete generation."""

    group: String


class MemberMetadata(Struct):
    """A member of that generation."""

    member_id: String
    group_instance_id: Annotated[String | None, V("3+", nullable="3+")] = None
    client_id: String
    client_host: String
    rebalance_timeout: Annotated[Int32, V("1+")] = -1
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """A classic group's last complete generation."""

    protocol_type: String
    generation: Int32
    protocol: Annotated[String | None, V(nullable="0+")]
    leader: Annotated[String | None, V(nullable="0+")]
    current_state_timestamp: Annotated[Int64, V("2+")] = -1
    members: Sequence[MemberMetadata]


# Common to groups of the other protocols


class GroupKey(Message, versions="0"):
    """The key of a record about a whole group."""

    group_id: String


class GroupMemberKey(Message, versions="0"):
    """The key of a record about a member."""

    group_id: String
    member_id: String


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: Sequence[Int32]


class TargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of a group's target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, V(tag=0)] = 0


class TargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """A member's target assignment."""

    topic_partitions: Sequence[TopicPartitions]


# Consumer groups


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """A consumer group."""

    epoch: Int32
    metadata_hash: Annotated[Int64, V(tag=0)] = 0


class PartitionMetadata(Struct):
    """A partition's racks."""

    partition: Int32
    racks: Sequence[String]


class TopicMetadata(Struct):
    """A topic to which a group subscribes."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: Sequence[PartitionMetadata]


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    """The topics to which a group subscribes, as releases before 4.1 wrote them."""

    topics: Sequence[TopicMetadata]


class ClassicProtocol(Struct):
    """An assignment protocol of a member that uses the classic group protocol."""

    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct):
    """A member's fields of the classic protocol."""

    session_timeout_ms: Int32
    supported_protocols: Sequence[ClassicProtocol]


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """A member and what it subscribes to."""

    instance_id: Annotated[String | None, V(nullable="0+")]
    rack_id: Annotated[String | None, V(nullable="0+")]
    client_id: String
    client_host: String
    subscribed_topic_names: Sequence[String]
    subscribed_topic_regex: Annotated[String | None, V(nullable="0+")]
    rebalance_timeout_ms: Int32 = -1
    server_assignor: Annotated[String | None, V(nullable="0+")]
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, V(nullable="0+", tag=0)] = DEFAULT


class AssignedPartitions(Struct):
    """Partitions of one topic, with the epochs in which they were assigned."""

    topic_id: Uuid
    partitions: Sequence[Int32]
    assignment_epochs: Annotated[Sequence[Int32] | None, V(nullable="0+", tag=0)] = ()


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """A member's current assignment, and the part that it still has to revoke."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Sequence[AssignedPartitions]
    partitions_pending_revocation: Sequence[AssignedPartitions]


class ConsumerGroupRegularExpressionKey(Message, versions="0"):
    """The key of a regular expression to which members subscribe."""

    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """The topics that match the regular expression."""

    topics: Sequence[String]
    version: Int64
    timestamp: Int64


# Share groups


class ShareGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """A member and what it subscribes to."""

    rack_id: Annotated[String | None, V(nullable="0+")]
    client_id: String
    client_host: String
    subscribed_topic_names: Sequence[String]


class ShareGroupMetadataValue(Message, versions="0", flexible="0+"):
    """A share group."""

    epoch: Int32
    metadata_hash: Int64


class ShareGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """A member's current assignment."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Sequence[TopicPartitions]


class TopicPartitionsInfo(Struct):
    """Partitions of one topic, by its id and its name."""

    topic_id: Uuid
    topic_name: String
    partitions: Sequence[Int32]


class DeletingTopic(Struct):
    """A topic whose state is being deleted."""

    topic_id: Uuid
    topic_name: String


class ShareGroupStatePartitionMetadataValue(Message, versions="0", flexible="0+"):
    """Partitions whose state is initializing, initialized or being deleted."""

    initializing_topics: Sequence[TopicPartitionsInfo]
    initialized_topics: Sequence[TopicPartitionsInfo]
    deleting_topics: Sequence[DeletingTopic]


# Streams groups


class LastAssignmentConfig(Struct):
    """A config of the last assignment."""

    key: String
    value: String


class StreamsGroupMetadataValue(Message, versions="0", flexible="0+"):
    """A streams group."""

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Annotated[Int32, V(tag=0)] = -1
    last_assignment_configs: Annotated[Sequence[LastAssignmentConfig] | None, V(nullable="0+", tag=1)] = ()


class Endpoint(Struct):
    """The endpoint of a member for interactive queries."""

    host: String
    port: UInt16


class KeyValue(Struct):
    """A tag of a client."""

    key: String
    value: String


class StreamsGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """A member."""

    instance_id: Annotated[String | None, V(nullable="0+")]
    rack_id: Annotated[String | None, V(nullable="0+")]
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: String
    user_endpoint: Annotated[Endpoint | None, V(nullable="0+")] = None
    client_tags: Sequence[KeyValue]


class TaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: String
    partitions: Sequence[Int32]


class StreamsGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """A member's target assignment."""

    active_tasks: Sequence[TaskIds]
    standby_tasks: Sequence[TaskIds]
    warmup_tasks: Sequence[TaskIds]


class CurrentTaskIds(Struct):
    """Tasks of one subtopology, with the epochs in which they were assigned."""

    subtopology_id: String
    partitions: Sequence[Int32]
    assignment_epochs: Annotated[Sequence[Int32] | None, V(nullable="0+", tag=0)] = ()


class StreamsGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """A member's current assignment, and the part that it still has to revoke."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: Sequence[CurrentTaskIds]
    standby_tasks: Sequence[CurrentTaskIds]
    warmup_tasks: Sequence[CurrentTaskIds]
    active_tasks_pending_revocation: Sequence[CurrentTaskIds]
    standby_tasks_pending_revocation: Sequence[CurrentTaskIds]
    warmup_tasks_pending_revocation: Sequence[CurrentTaskIds]


class TopicConfig(Struct):
    """A config of a topic."""

    key: String
    value: String


class StreamsTopic(Struct):
    """An internal topic of the group."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Sequence[TopicConfig]


class CopartitionGroup(Struct):
    """Copartitioned topics, by their positions in the subtopology's lists."""

    source_topics: Sequence[Int16]
    source_topic_regex: Sequence[Int16]
    repartition_source_topics: Sequence[Int16]


class Subtopology(Struct):
    """A part of the topology."""

    subtopology_id: String
    source_topics: Sequence[String]
    source_topic_regex: Sequence[String]
    state_changelog_topics: Sequence[StreamsTopic]
    repartition_sink_topics: Sequence[String]
    repartition_source_topics: Sequence[StreamsTopic]
    copartition_groups: Sequence[CopartitionGroup]


class StreamsGroupTopologyValue(Message, versions="0", flexible="0+"):
    """The topology of a streams group."""

    epoch: Int32
    subtopologies: Sequence[Subtopology]


RECORD_TYPES: Final[Mapping[int, RecordType]] = {
    0: RecordType(OffsetCommitKey, LegacyOffsetCommitValue),
    1: RecordType(OffsetCommitKey, OffsetCommitValue),
    2: RecordType(GroupMetadataKey, GroupMetadataValue),
    3: RecordType(GroupKey, ConsumerGroupMetadataValue),
    4: RecordType(GroupKey, ConsumerGroupPartitionMetadataValue),
    5: RecordType(GroupMemberKey, ConsumerGroupMemberMetadataValue),
    6: RecordType(GroupKey, TargetAssignmentMetadataValue),
    7: RecordType(GroupMemberKey, TargetAssignmentMemberValue),
    8: RecordType(GroupMemberKey, ConsumerGroupCurrentMemberAssignmentValue),
    10: RecordType(GroupMemberKey, ShareGroupMemberMetadataValue),
    11: RecordType(GroupKey, ShareGroupMetadataValue),
    12: RecordType(GroupKey, TargetAssignmentMetadataValue),
    13: RecordType(GroupMemberKey, TargetAssignmentMemberValue),
    14: RecordType(GroupMemberKey, ShareGroupCurrentMemberAssignmentValue),
    15: RecordType(GroupKey, ShareGroupStatePartitionMetadataValue),
    16: RecordType(ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    17: RecordType(GroupKey, StreamsGroupMetadataValue),
    19: RecordType(GroupMemberKey, StreamsGroupMemberMetadataValue),
    20: RecordType(GroupKey, TargetAssignmentMetadataValue),
    21: RecordType(GroupMemberKey, StreamsGroupTargetAssignmentMemberValue),
    22: RecordType(GroupMemberKey, StreamsGroupCurrentMemberAssignmentValue),
    23: RecordType(GroupKey, StreamsGroupTopologyValue),
}
"""By the number of the type."""
