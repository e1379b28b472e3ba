"""StreamsGroupDescribe: state, topology and members of streams groups.

0   the first form
1   the topology's description, if asked for, and whether there is one; name of the assignor
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.metadata import OPERATIONS_OMITTED
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int8, Int16, Int32, Int64, String, UInt16


class StreamsGroupDescribeRequest(Request, api_key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    """Describe streams groups."""

    group_ids: Sequence[String]
    include_authorized_operations: Bool = False
    include_topology_description: Annotated[Bool, V("1+")] = False


class KeyValue(Struct):
    """A key and its value."""

    key: String
    value: String


class TopicInfo(Struct):
    """A topic that the group makes for itself; 0 partitions if their number follows from other topics."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Sequence[KeyValue]


class Subtopology(Struct):
    """A part of a topology whose tasks need no other part."""

    subtopology_id: String
    source_topics: Sequence[String]
    repartition_sink_topics: Sequence[String]
    state_changelog_topics: Sequence[TopicInfo]
    repartition_source_topics: Sequence[TopicInfo]


class Topology(Struct):
    """The group's topology; its parts are null while topics are missing."""

    epoch: Int32
    subtopologies: Annotated[Sequence[Subtopology] | None, V(nullable="0+")] = None


class Endpoint(Struct):
    """Where a member answers queries."""

    host: String
    port: UInt16


class TaskOffset(Struct):
    """How far a task is in its changelogs, all of them together."""

    subtopology_id: String
    partition: Int32
    offset: Int64


class TaskIds(Struct):
    """Tasks of one part of the topology."""

    subtopology_id: String
    partitions: Sequence[Int32]


class Assignment(Struct):
    """The tasks of a member."""

    active_tasks: Sequence[TaskIds]
    standby_tasks: Sequence[TaskIds]
    warmup_tasks: Sequence[TaskIds]


class Member(Struct):
    """A member of a streams group."""

    member_id: String
    member_epoch: Int32
    instance_id: Annotated[String | None, V(nullable="0+")] = None
    rack_id: Annotated[String | None, V(nullable="0+")] = None
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: Annotated[Endpoint | None, V(nullable="0+")] = None
    client_tags: Sequence[KeyValue]
    task_offsets: Sequence[TaskOffset]
    task_end_offsets: Sequence[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: Bool


class TopologyDescriptionNode(Struct):
    """A source, a processor or a sink."""

    name: String
    node_type: Int8
    source_topics: Sequence[String]
    sink_topic: Annotated[String | None, V(nullable="1+")] = None
    stores: Sequence[String]
    successors: Sequence[String]


class TopologyDescriptionSubtopology(Struct):
    """The nodes of one part of the topology."""

    subtopology_id: String
    nodes: Sequence[TopologyDescriptionNode]


class TopologyDescriptionGlobalStore(Struct):
    """A store that every member fills from a whole topic."""

    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


class TopologyDescription(Struct):
    """The topology down to its nodes."""

    subtopologies: Sequence[TopologyDescriptionSubtopology]
    global_stores: Sequence[TopologyDescriptionGlobalStore]


class DescribedGroup(Struct):
    """One group; status of its topology's description: 0 not asked for, 1 none is kept, 2 an error, 3 there is one."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    topology: Annotated[Topology | None, V(nullable="0+")] = None
    members: Sequence[Member]
    authorized_operations: Int32 = OPERATIONS_OMITTED
    topology_description: Annotated[TopologyDescription | None, V("1+", nullable="1+")] = None
    topology_description_status: Annotated[Int8, V("1+")] = 0
    assignor_name: Annotated[String | None, V("1+", nullable="1+")] = None


class StreamsGroupDescribeResponse(Response, api_key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    """The groups."""

    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribedGroup]
