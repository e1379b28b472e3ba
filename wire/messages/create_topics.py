"""CreateTopics: create topics, with partitions and replicas counted or laid out by hand.

0   the first form
1   validate only; error message
2   throttle time
3   the client waits out the throttle time itself
4   partitions and replication factor may be left to the broker (-1)
5   flexible; partitions, replication factor and configs in the response
6   may answer THROTTLING_QUOTA_EXCEEDED
7   topic id in the response
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid


class CreatableReplicaAssignment(Struct):
    """The brokers that are to hold one partition."""

    partition_index: Int32
    broker_ids: Sequence[Int32]


class CreatableTopicConfig(Struct):
    """A config of the new topic."""

    name: String
    value: Annotated[String | None, V(nullable="0+")]


class CreatableTopic(Struct):
    """A topic to create; counts are -1 with `assignments`, or for the broker's defaults."""

    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: Sequence[CreatableReplicaAssignment]
    configs: Sequence[CreatableTopicConfig]


class CreateTopicsRequest(Request, api_key=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    """Create topics, or only say whether they could be created."""

    topics: Sequence[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Annotated[Bool, V("1+")] = False


class CreatableTopicConfigs(Struct):
    """A config that the new topic has."""

    name: String
    value: Annotated[String | None, V(nullable="0+")]
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


class CreatableTopicResult(Struct):
    """The result for one topic."""

    name: String
    topic_id: Annotated[Uuid, V("7+")] = ZERO_UUID
    error_code: Int16
    error_message: Annotated[String | None, V("1+", nullable="1+")] = ""
    topic_config_error_code: Annotated[Int16, V("5+", tag=0)] = 0
    num_partitions: Annotated[Int32, V("5+")] = -1
    replication_factor: Annotated[Int16, V("5+")] = -1
    configs: Annotated[Sequence[CreatableTopicConfigs] | None, V("5+", nullable="5+")] = ()


class CreateTopicsResponse(Response, api_key=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    """The results for the topics."""

    throttle_time_ms: Annotated[Int32, V("2+")] = 0
    topics: Sequence[CreatableTopicResult]
