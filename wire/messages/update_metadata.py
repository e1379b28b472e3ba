"""UpdateMetadata: the controller sends a broker the metadata for responses to Metadata.

0   one host and port for each broker
1   several endpoints for each broker
2   rack
3   listener names
4   offline replicas
5   broker epoch; partitions grouped by topic
6   flexible
7   topic ids
8   whether the controller is a KRaft one, and whether the request holds all partitions

Only ZooKeeper-mode brokers send it; Kafka 3.9 is their last release.
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Bool, Int8, Int16, Int32, Int64, String, Uuid


class UpdateMetadataPartitionState(Struct):
    """Leader and replicas of one partition."""

    topic_name: Annotated[String, V("0-4")] = ""
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: Sequence[Int32]
    zk_version: Int32
    replicas: Sequence[Int32]
    offline_replicas: Annotated[Sequence[Int32], V("4+")] = ()


class UpdateMetadataTopicState(Struct):
    """The partitions of one topic."""

    topic_name: String
    topic_id: Annotated[Uuid, V("7+")] = ZERO_UUID
    partition_states: Sequence[UpdateMetadataPartitionState]


class UpdateMetadataEndpoint(Struct):
    """One listener of a broker."""

    port: Int32
    host: String
    listener: Annotated[String, V("3+")] = ""
    security_protocol: Int16


class UpdateMetadataBroker(Struct):
    """A live broker."""

    id: Int32
    v0_host: Annotated[String, V("0")] = ""
    v0_port: Annotated[Int32, V("0")] = 0
    endpoints: Annotated[Sequence[UpdateMetadataEndpoint], V("1+")] = ()
    rack: Annotated[String | None, V("2+", nullable="2+")] = ""


class UpdateMetadataRequest(Request, api_key=ApiKey.UPDATE_METADATA, versions="0-8", flexible="6+"):
    """Partitions, and all live brokers. `type` says which partitions: 1 some, 2 all, 0 leaves it open."""

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, V("8+", kafka_name="isKRaftController")] = False
    type: Annotated[Int8, V("8+", tag=0)] = 0
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, V("5+")] = -1
    ungrouped_partition_states: Annotated[Sequence[UpdateMetadataPartitionState], V("0-4")] = ()
    topic_states: Annotated[Sequence[UpdateMetadataTopicState], V("5+")] = ()
    live_brokers: Sequence[UpdateMetadataBroker]


class UpdateMetadataResponse(Response, api_key=ApiKey.UPDATE_METADATA, versions="0-8", flexible="6+"):
    """Whether the broker has taken it in."""

    error_code: Int16
