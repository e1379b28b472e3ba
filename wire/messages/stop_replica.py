"""StopReplica: a broker stops replicas, and maybe deletes them, for the controller.

0   the first form
1   broker epoch; partitions grouped by topic
2   flexible
3   leader epoch, and whether to delete, for each partition
4   whether the controller is a KRaft one

Only ZooKeeper-mode brokers send it; Kafka 3.9 is their last release.
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int16, Int32, Int64, String


class StopReplicaPartitionV0(Struct):
    """A replica to stop."""

    topic_name: String
    partition_index: Int32


class StopReplicaTopicV1(Struct):
    """The replicas of one topic to stop."""

    name: String
    partition_indexes: Sequence[Int32]


class StopReplicaPartitionState(Struct):
    """A replica to stop, and whether to delete it."""

    partition_index: Int32
    leader_epoch: Int32 = -1
    delete_partition: Bool


class StopReplicaTopicState(Struct):
    """The replicas of one topic to stop."""

    topic_name: String
    partition_states: Sequence[StopReplicaPartitionState]


class StopReplicaRequest(Request, api_key=ApiKey.STOP_REPLICA, versions="0-4", flexible="2+"):
    """Stop replicas."""

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, V("4+", kafka_name="isKRaftController")] = False
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, V("1+")] = -1
    delete_partitions: Annotated[Bool, V("0-2")] = False
    ungrouped_partitions: Annotated[Sequence[StopReplicaPartitionV0], V("0")] = ()
    topics: Annotated[Sequence[StopReplicaTopicV1], V("1-2")] = ()
    topic_states: Annotated[Sequence[StopReplicaTopicState], V("3+")] = ()


class StopReplicaPartitionError(Struct):
    """The result for one replica."""

    topic_name: String
    partition_index: Int32
    error_code: Int16


class StopReplicaResponse(Response, api_key=ApiKey.STOP_REPLICA, versions="0-4", flexible="2+"):
    """The results for the replicas."""

    error_code: Int16
    partition_errors: Sequence[StopReplicaPartitionError]
