"""AlterReplicaLogDirs: move replicas of this broker to other log directories.

Behaviour:
- The reply comes when the moves have begun. DescribeLogDirs shows how far they are.
- Of a replica that is named for two directories, the last one counts.
- A replica that this broker does not host gets REPLICA_NOT_AVAILABLE. If it comes later, it is made in that directory.
- A path must be absolute and a log directory of this broker: LOG_DIR_NOT_FOUND.
Versions: 1 and 2, both alike.
Counterpart in Kafka: KafkaApis.handleAlterReplicaLogDirsRequest.
"""

import logging

from ottla.broker.net.session import RequestContext
from ottla.broker.replication.log_dir_moves import LogDirMoves
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.server.ReplicaManager")


def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext, *, moves: LogDirMoves
) -> AlterReplicaLogDirsResponse:
    """Begin to move each replica to the last directory that is named for it."""
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    return _response({each: _move(each, path, moves) for each, path in wanted.items()})


def _move(topic_partition: TopicPartition, path: str, moves: LogDirMoves) -> ErrorCode:
    try:
        moves.move(topic_partition, path)
    except KafkaError as error:
        logger.warning("Unable to alter log dirs for %s: %s", topic_partition, error)
        return error.code
    return ErrorCode.NONE


def _response(codes: dict[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), code in codes.items():
        result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        by_topic.setdefault(topic, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=found) for name, found in by_topic.items()]
    )


def error_response(request: AlterReplicaLogDirsRequest, version: int, code: ErrorCode) -> AlterReplicaLogDirsResponse:
    """Return the error for each replica."""
    return _response(
        {
            TopicPartition(topic.name, index): code
            for directory in request.dirs
            for topic in directory.topics
            for index in topic.partitions
        }
    )
