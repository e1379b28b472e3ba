"""LeaderAndIsr: the controller sends a broker the partitions to lead and to follow.

0   the first form
1   is_new
2   broker epoch; partitions grouped by topic
3   adding and removing replicas
4   flexible
5   topic ids, in the response instead of names; whether the request holds all partitions of the broker
6   leader recovery state
7   whether the controller is a KRaft one

Only ZooKeeper-mode brokers send it; Kafka 3.9 is their last release.
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import ZERO_UUID, Bool, Int8, Int16, Int32, Int64, String, Uuid


class LeaderAndIsrPartitionState(Struct):
    """Leader, in-sync replicas and replicas of one partition."""

    topic_name: Annotated[String, V("0-1")] = ""
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: Sequence[Int32]
    partition_epoch: Int32
    replicas: Sequence[Int32]
    adding_replicas: Annotated[Sequence[Int32], V("3+")] = ()
    removing_replicas: Annotated[Sequence[Int32], V("3+")] = ()
    is_new: Annotated[Bool, V("1+")] = False
    leader_recovery_state: Annotated[Int8, V("6+")] = 0


class LeaderAndIsrTopicState(Struct):
    """The partitions of one topic."""

    topic_name: String
    topic_id: Annotated[Uuid, V("5+")] = ZERO_UUID
    partition_states: Sequence[LeaderAndIsrPartitionState]


class LeaderAndIsrLiveLeader(Struct):
    """Where a leader named in the request is to be reached."""

    broker_id: Int32
    host_name: String
    port: Int32


class LeaderAndIsrRequest(Request, api_key=ApiKey.LEADER_AND_ISR, versions="0-7", flexible="4+"):
    """Become leader or follower. `type` says which partitions: 1 some, 2 all of the broker, 0 leaves it open."""

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, V("7+", kafka_name="isKRaftController")] = False
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, V("2+")] = -1
    type: Annotated[Int8, V("5+")] = 0
    ungrouped_partition_states: Annotated[Sequence[LeaderAndIsrPartitionState], V("0-1")] = ()
    topic_states: Annotated[Sequence[LeaderAndIsrTopicState], V("2+")] = ()
    live_leaders: Sequence[LeaderAndIsrLiveLeader]


class LeaderAndIsrPartitionError(Struct):
    """The result for one partition."""

    topic_name: Annotated[String, V("0-4")] = ""
    partition_index: Int32
    error_code: Int16


class LeaderAndIsrTopicError(Struct):
    """The results for the partitions of one topic."""

    topic_id: Uuid
    partition_errors: Sequence[LeaderAndIsrPartitionError]


class LeaderAndIsrResponse(Response, api_key=ApiKey.LEADER_AND_ISR, versions="0-7", flexible="4+"):
    """The results for the partitions."""

    error_code: Int16
    partition_errors: Annotated[Sequence[LeaderAndIsrPartitionError], V("0-4")] = ()
    topics: Annotated[Sequence[LeaderAndIsrTopicError], V("5+")] = ()
