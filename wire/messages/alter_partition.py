"""AlterPartition: a leader asks the controller to change the in-sync replicas of its partitions.

0   the first form
1   leader recovery state
2   topic ids instead of names; may answer INELIGIBLE_REPLICA, NEW_LEADER_ELECTED, UNKNOWN_TOPIC_ID
3   broker epochs of the in-sync replicas
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Int8, Int16, Int32, Int64, String, Uuid


class BrokerState(Struct):
    """An in-sync replica; broker epoch -1 if it is not to be checked."""

    broker_id: Int32
    broker_epoch: Int64 = -1


class PartitionData(Struct):
    """A partition and its new in-sync replicas; refused if `partition_epoch` is not the current one."""

    partition_index: Int32
    leader_epoch: Int32
    new_isr: Annotated[Sequence[Int32], V("0-2")] = ()
    new_isr_with_epochs: Annotated[Sequence[BrokerState], V("3+")] = ()
    leader_recovery_state: Annotated[Int8, V("1+")] = 0
    partition_epoch: Int32


class TopicData(Struct):
    """The partitions of one topic."""

    topic_name: Annotated[String, V("0-1")] = ""
    topic_id: Annotated[Uuid, V("2+")] = ZERO_UUID
    partitions: Sequence[PartitionData]


class AlterPartitionRequest(Request, api_key=ApiKey.ALTER_PARTITION, versions="0-3", flexible="0+"):
    """Change in-sync replicas."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: Sequence[TopicData]


class PartitionDataResult(Struct, kafka_name="PartitionData"):
    """A partition as it is now."""

    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    isr: Sequence[Int32]
    leader_recovery_state: Annotated[Int8, V("1+")] = 0
    partition_epoch: Int32


class TopicDataResult(Struct, kafka_name="TopicData"):
    """The partitions of one topic as they are now."""

    topic_name: Annotated[String, V("0-1")] = ""
    topic_id: Annotated[Uuid, V("2+")] = ZERO_UUID
    partitions: Sequence[PartitionDataResult]


class AlterPartitionResponse(Response, api_key=ApiKey.ALTER_PARTITION, versions="0-3", flexible="0+"):
    """The results for the partitions."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    topics: Sequence[TopicDataResult]
