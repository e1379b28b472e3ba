"""Future logs: copies of logs on their way into another log directory.

Owns how a future log is created and how it replaces the current log, on the disk and in the manager. Must not know how
records are copied. Counterpart in Kafka: LogManager.replaceCurrentWithFutureLog.
"""

import logging
from pathlib import Path
from uuid import uuid4

from ottla.log.log import PartitionLog
from ottla.log.manager import FUTURE_SUFFIX, LONGEST_NAME, LogManager, Renaming, renaming
from ottla.log.new_log import NewLog
from ottla.log.recovery.recovery import LoadOptions
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.log.LogManager")


def future_name(topic_partition: TopicPartition) -> str:
    """Return a directory name for a future log; KafkaError INVALID_TOPIC_EXCEPTION if it is too long."""
    name = f"{topic_partition}.{uuid4().hex}{FUTURE_SUFFIX}"
    if len(name) > LONGEST_NAME:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
    return name


def create_future(logs: LogManager, topic_partition: TopicPartition, directory: Path, now_ms: int) -> PartitionLog:
    """Create an empty future log in `directory`; KafkaError if the disk fails, or a directory is offline."""
    logs.check_none_offline(topic_partition)
    current = logs.logs[topic_partition]
    config = current.config
    path = directory / future_name(topic_partition)
    new = NewLog(topic_partition, path, current.topic_id, -1, config.segment_index_bytes)
    expiration_ms = current.producers.expiration_ms
    with logs.failures.storage(directory, "creating a log in"):
        new.make()
        options = LoadOptions(config, now_ms, producer_id_expiration_ms=expiration_ms, new=new)
        log = logs.open(topic_partition, path, options)
    log.made()
    logs.futures[topic_partition] = log
    logs.log_counts[directory] += 1
    logs.preferred.pop(topic_partition, None)
    logger.info("Created log for partition %s in %s", topic_partition, path)
    return log


def delete_future(logs: LogManager, topic_partition: TopicPartition) -> Renaming | None:
    """Release a future log; None if there is none. The caller renames its directory, as for `LogManager.delete`."""
    log = logs.futures.pop(topic_partition, None)
    return None if log is None else logs.give_up(log)


def replace_current(logs: LogManager, topic_partition: TopicPartition) -> Renaming:
    """Replace the current log by the future log, which ends at the same offset; return how the old log was renamed.

    The old directory is renamed first. A crash between the two renames loses nothing, because a start takes a future
    log without a current log as the log.
    """
    old, log = logs.logs[topic_partition], logs.futures[topic_partition]
    logger.info("Attempting to replace current log %s with %s for %s", old.directory, log.directory, topic_partition)
    _take_over(logs, log, old)
    path = log.directory.with_name(str(topic_partition))
    deletion = renaming(old)
    logs.rename(deletion)
    try:
        logs.rename(Renaming(log.directory, path))
    except KafkaError:
        logs.rename(Renaming(deletion.new, deletion.old))
        raise
    log.moved_to(path)
    logs.logs[topic_partition] = logs.futures.pop(topic_partition)
    logs.give_up(old)
    logger.info("The current replica is successfully replaced with the future replica for %s", topic_partition)
    return deletion


def _take_over(logs: LogManager, log: PartitionLog, old: PartitionLog) -> None:
    """Copy what the batches lack: epochs without a record, producers without records, the configuration."""
    log.config = old.config
    log.increment_log_start_offset(old.log_start_offset)
    if old.topic_id is not None:
        log.set_topic_id(old.topic_id)
    log.producers.take_over(old.producers)
    with logs.failures.storage(log.directory.parent):
        log.leader_epochs.take_over(old.leader_epochs)
