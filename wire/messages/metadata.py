"""Metadata: brokers, and the leaders and replicas of topics.

0   no topics means all topics
1   null means all topics, and none means none; rack, controller, internal topics
2   cluster id
3   throttle time
4   creating topics on the way can be declined
5   offline replicas
6   the client waits out the throttle time itself
7   leader epoch
8   authorized operations
9   flexible
10  topic ids (not yet to ask by)
11  no authorized operations of the cluster: DescribeCluster has them
12  topics can be asked for by id
13  an error code for the whole response
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Bool, Int16, Int32, String, Uuid

# Authorized operations, where the request does not ask for them.
OPERATIONS_OMITTED = -0x80000000


class MetadataRequestTopic(Struct):
    """A topic to describe, by name or by id."""

    topic_id: Annotated[Uuid, V("10+")] = ZERO_UUID
    name: Annotated[String | None, V(nullable="10+")]


class MetadataRequest(Request, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    """Describe the cluster and some or all of its topics."""

    topics: Annotated[Sequence[MetadataRequestTopic] | None, V(nullable="1+")]
    allow_auto_topic_creation: Annotated[Bool, V("4+")] = True
    include_cluster_authorized_operations: Annotated[Bool, V("8-10")] = False
    include_topic_authorized_operations: Annotated[Bool, V("8+")] = False


class MetadataResponseBroker(Struct):
    """A live broker, at the listener by which it was asked."""

    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[String | None, V("1+", nullable="1+")] = None


class MetadataResponsePartition(Struct):
    """The leader and replicas of one partition."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, V("7+")] = -1
    replica_nodes: Sequence[Int32]
    isr_nodes: Sequence[Int32]
    offline_replicas: Annotated[Sequence[Int32], V("5+")] = ()


class MetadataResponseTopic(Struct):
    """A topic and its partitions."""

    error_code: Int16
    name: Annotated[String | None, V(nullable="12+")]
    topic_id: Annotated[Uuid, V("10+")] = ZERO_UUID
    is_internal: Annotated[Bool, V("1+")] = False
    partitions: Sequence[MetadataResponsePartition]
    topic_authorized_operations: Annotated[Int32, V("8+")] = OPERATIONS_OMITTED


class MetadataResponse(Response, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    """The cluster as the broker knows it."""

    throttle_time_ms: Annotated[Int32, V("3+")] = 0
    brokers: Sequence[MetadataResponseBroker]
    cluster_id: Annotated[String | None, V("2+", nullable="2+")] = None
    controller_id: Annotated[Int32, V("1+")] = -1
    topics: Sequence[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[Int32, V("8-10")] = OPERATIONS_OMITTED
    error_code: Annotated[Int16, V("13+")] = 0
