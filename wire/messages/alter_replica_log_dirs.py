"""AlterReplicaLogDirs: move replicas of a broker between its log directories.

0   the first form
1   the client waits out the throttle time itself
2   flexible
"""

from collections.abc import Sequence

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct
from ottla.wire.types import Int16, Int32, String


class AlterReplicaLogDirTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: Sequence[Int32]


class AlterReplicaLogDir(Struct):
    """A log directory, by its absolute path, and the replicas to move there."""

    path: String
    topics: Sequence[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Request, api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+"):
    """Move replicas."""

    dirs: Sequence[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    """Whether the replica of one partition moves."""

    partition_index: Int32
    error_code: Int16


class AlterReplicaLogDirTopicResult(Struct):
    """Whether the replicas of one topic move."""

    topic_name: String
    partitions: Sequence[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Response, api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+"):
    """Whether the replicas move."""

    throttle_time_ms: Int32 = 0
    results: Sequence[AlterReplicaLogDirTopicResult]
