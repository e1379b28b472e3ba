"""What a follower does to its partition: append what its leader sent, truncate, start over.

Owns how log and high watermark follow the leader's. Every step names the leader epoch that it was decided in, and none
is taken in another one. Says what moved by return value. Plain blocking Python: must not know who fetches, nor when.
Counterparts in Kafka: Partition.appendRecordsToFollowerOrFutureReplica, ReplicaFetcherThread.
"""

import logging

from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import EVERYTHING, HIGH_WATERMARK, LOG_END, NOTHING
from ottla.log.append_info import UnexpectedAppendOffsetError
from ottla.log.log import PartitionLog
from ottla.wire.errors import ErrorCode, KafkaError

logger = logging.getLogger("kafka.server.ReplicaFetcherThread")


def append(
    partition: Partition,
    leader_epoch: int,
    records: memoryview,
    leader_high_watermark: int,
    leader_log_start_offset: int,
    now_ms: int,
) -> int:
    """Append what the leader has at the end of this log, maybe nothing; returns what moved.

    Its high watermark counts as far as this log goes, even where it is lower than what was known: a new leader's is.
    """
    log = _log(partition, leader_epoch)
    end, high_watermark = log.log_end_offset, partition.high_watermark
    if records:
        try:
            log.append_as_follower(records, now_ms)
        except UnexpectedAppendOffsetError as error:
            restart_in_batch(log, error, records, now_ms)
    partition.high_watermark = max(min(leader_high_watermark, log.log_end_offset), log.log_start_offset)
    log.producers.replicated(partition.high_watermark)
    if leader_log_start_offset > log.log_start_offset:
        log.increment_log_start_offset(min(leader_log_start_offset, partition.high_watermark))
    moved = LOG_END if log.log_end_offset > end else NOTHING
    return moved | HIGH_WATERMARK if partition.high_watermark > high_watermark else moved


def restart_in_batch(log: PartitionLog, error: UnexpectedAppendOffsetError, records: memoryview, now_ms: int) -> None:
    """Start the log over at the first of the records if it is empty and starts within them; else raise the error.

    Records were deleted from the source up to the middle of a batch, and the log starts there too.
    """
    end = log.log_end_offset
    if not (log.log_start_offset == end and error.first_offset < end <= error.last_offset):
        raise error
    log.truncate_fully_and_start_at(error.first_offset)
    log.append_as_follower(records, now_ms)


def truncate(partition: Partition, leader_epoch: int, offset: int) -> int:
    """Drop all from `offset` on; returns what moved."""
    log = _log(partition, leader_epoch)
    told = logger.warning if offset < partition.high_watermark else logger.info
    told("Truncating %s to %d, high watermark %d", log, offset, partition.high_watermark)
    log.truncate_to(offset)
    partition.high_watermark = min(partition.high_watermark, log.log_end_offset)
    return EVERYTHING


def start_at(partition: Partition, leader_epoch: int, offset: int) -> int:
    """Drop all and go on at `offset`; returns what moved."""
    log = _log(partition, leader_epoch)
    logger.warning("%s starts anew at the start of its leader's log, %d", log, offset)
    log.truncate_fully_and_start_at(offset)
    partition.high_watermark = offset
    return EVERYTHING


def check(partition: Partition, leader_epoch: int) -> None:
    """KafkaError if the partition does not follow in this leader epoch."""
    _log(partition, leader_epoch)


def _log(partition: Partition, leader_epoch: int) -> PartitionLog:
    if partition.is_offline or partition.is_leader or partition.leader_epoch != leader_epoch:
        detail = f"{partition.topic_partition} does not follow in leader epoch {leader_epoch}"
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
    return partition.log
