"""The steps of a follower on its partition: append records of the leader, truncate, start over.

Owns how log and high watermark follow the leader's. Every step takes the leader epoch in which it was decided, fails in
another one, and returns what moved. Plain blocking Python: must not know fetchers, nor when they fetch.
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
    """Append records of the leader, which may be none, and take over its offsets; return what moved.

    The leader's high watermark is taken over up to the end of this log, even if it is lower than before: a new leader's
    may be.
    """
    log = followed_log(partition, leader_epoch)
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
    """Start the log over at the first record, if the log is empty and starts within the records; else raise the error.

    The source deleted records up to the middle of a batch, and the log starts in that batch too.
    """
    end = log.log_end_offset
    if not (log.log_start_offset == end and error.first_offset < end <= error.last_offset):
        raise error
    log.truncate_fully_and_start_at(error.first_offset)
    log.append_as_follower(records, now_ms)


def truncate(partition: Partition, leader_epoch: int, offset: int) -> int:
    """Delete all records from `offset` on; return what moved."""
    log = followed_log(partition, leader_epoch)
    log_line = logger.warning if offset < partition.high_watermark else logger.info
    log_line("Truncating %s to %d, high watermark %d", log, offset, partition.high_watermark)
    log.truncate_to(offset)
    partition.high_watermark = min(partition.high_watermark, log.log_end_offset)
    return EVERYTHING


def start_at(partition: Partition, leader_epoch: int, offset: int) -> int:
    """Delete all records and continue at `offset`; return what moved."""
    log = followed_log(partition, leader_epoch)
    logger.warning("%s ends before its leader's log starts: it is emptied, and starts at offset %d", log, offset)
    log.truncate_fully_and_start_at(offset)
    partition.high_watermark = offset
    return EVERYTHING


def followed_log(partition: Partition, leader_epoch: int) -> PartitionLog:
    """Return the log of a partition; KafkaError if it does not follow in this leader epoch."""
    if partition.is_offline or partition.is_leader or partition.leader_epoch != leader_epoch:
        detail = f"{partition.topic_partition} does not follow in leader epoch {leader_epoch}"
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
    return partition.log
