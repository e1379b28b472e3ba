"""DescribeLogDirs: the log directories of this broker, their volumes, and the replicas in them.

Behaviour:
- All directories are in the response, with all replicas or those of the request. An unknown replica is left out.
- A replica that moves to another directory is in both, in the new one with `is_future_key` and its lag.
- The lag of a replica that is not served is -1.
- A directory that failed has KAFKA_STORAGE_ERROR and no replicas.
Versions: 1 to 4. From 3 an error code for the whole response; from 4 the size and the free bytes of the volume.
Counterpart in Kafka: KafkaApis.handleDescribeLogDirsRequest, ReplicaManager.describeLogDirs.
"""

import logging
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.log.log import PartitionLog
from ottla.log.manager import LogManager
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

logger = logging.getLogger("kafka.server.ReplicaManager")

_LAG_NOT_KNOWN: Final = -1


def handle(
    request: DescribeLogDirsRequest, context: RequestContext, *, logs: LogManager, replicas: ReplicaManager
) -> DescribeLogDirsResponse:
    """Return all directories, with all replicas or those of the request."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(results=[_directory(each, wanted, logs, replicas) for each in logs.directories])


def _directory(
    directory: Path, wanted: Collection[tuple[str, int]] | None, logs: LogManager, replicas: ReplicaManager
) -> DescribeLogDirsResult:
    path = str(directory.absolute())
    if directory in logs.failures.offline:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=())
    try:
        volume = shutil.disk_usage(directory)
    except OSError as error:
        logger.error("DescribeLogDirs answers UNKNOWN_SERVER_ERROR for %s: %s", directory, error)
        return DescribeLogDirsResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, log_dir=path, topics=())
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for log in logs.everything():
        topic_partition = log.topic_partition
        if log.directory.parent == directory and (wanted is None or topic_partition in wanted):
            by_topic.setdefault(topic_partition.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=topic_partition.partition,
                    partition_size=log.size,
                    offset_lag=_lag(log, replicas),
                    is_future_key=logs.futures.get(topic_partition) is log,
                )
            )
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in by_topic.items()],
        total_bytes=volume.total,
        usable_bytes=volume.free,
    )


def _lag(log: PartitionLog, replicas: ReplicaManager) -> int:
    partition = replicas.partitions.get(log.topic_partition)
    if partition is None or partition.is_offline:
        return _LAG_NOT_KNOWN
    if log is not partition.log:
        return partition.log.log_end_offset - log.log_end_offset
    return max(partition.high_watermark - log.log_end_offset, 0)


def error_response(request: DescribeLogDirsRequest, version: int, code: ErrorCode) -> DescribeLogDirsResponse:
    """Return the error alone. Versions 1 and 2 have no field for it."""
    return DescribeLogDirsResponse(error_code=code, results=())
