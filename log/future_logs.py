"""Logs on their way from one log directory into another: made there, brought up to date by others, put in place.

Owns how the new log takes the place of the old one, on the disk and in the manager. Must not know how records are
copied, nor who asked for that. Counterpart in Kafka: LogManager.replaceCurrentWithFutureLog.
"""

import logging
from pathlib import Path
from uuid import uuid4

from ottla.log.log import PartitionLog
from ottla.log.manager import FUTURE_SUFFIX, LONGEST_NAME, LogManager, Renaming, renaming
from ottla.log.new_log import NewLog
from ottla.log.recovery.recovery import LoadOptions
from ottla.log.state.directory_failures import storage_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.log.LogManager")


def future_name(topic_partition: TopicPartition) -> str:
    """What the directory of such a log may be called; KafkaError INVALID_TOPIC_EXCEPTION where that is too long."""
    name = f"{topic_partition}.{uuid4().hex}{FUTURE_SUFFIX}"
    if len(name) > LONGEST_NAME:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
    return name


def create_future(logs: LogManager, topic_partition: TopicPartition, directory: Path, now_ms: int) -> PartitionLog:
    """Begin an empty log beside the one that there is; KafkaError if the disk fails, or one has."""
    logs.check_none_offline(topic_partition)
    current = logs.logs[topic_partition]
    config = current.config
    path = directory / future_name(topic_partition)
    new = NewLog(topic_partition, path, current.topic_id, -1, config.segment_index_bytes)
    expiration_ms = current.producers.expiration_ms
    try:
        new.make()
        options = LoadOptions(config, now_ms, producer_id_expiration_ms=expiration_ms, new=new)
        log = logs.open(topic_partition, path, options)
    except OSError as error:
        logs.failures.failed(directory, error, "creating a log in")
        raise storage_error(error) from error
    log.made()
    logs.futures[topic_partition] = log
    logs.log_counts[directory] += 1
    logs.preferred.pop(topic_partition, None)
    logger.info("Created log for partition %s in %s", topic_partition, path)
    return log


def delete_future(logs: LogManager, topic_partition: TopicPartition) -> Renaming | None:
    """Give such a log up, as `LogManager.delete`."""
    log = logs.futures.pop(topic_partition, None)
    return None if log is None else logs.give_up(log)


def replace_current(logs: LogManager, topic_partition: TopicPartition) -> Renaming:
    """Have the new log be the log; both end at the same offset. Returns how the old one was renamed.

    First the old directory loses its name. A start that finds a new log and no other takes it for the log, so it makes
    no difference where between the two a crash comes.
    """
    old, log = logs.logs[topic_partition], logs.futures[topic_partition]
    logger.info("Attempting to replace current log %s with %s for %s", old.directory, log.directory, topic_partition)
    _take_over(logs, log, old)
    path = log.directory.with_name(str(topic_partition))
    deletion = renaming(old)
    _rename(logs, *deletion)
    try:
        _rename(logs, log.directory, path)
    except KafkaError:
        _rename(logs, deletion.new, deletion.old)
        raise
    log.moved_to(path)
    logs.logs[topic_partition] = logs.futures.pop(topic_partition)
    logs.give_up(old)
    logger.info("The current replica is successfully replaced with the future replica for %s", topic_partition)
    return deletion


def _take_over(logs: LogManager, log: PartitionLog, old: PartitionLog) -> None:
    """What the batches do not tell: epochs without a record, producers whose records are gone, the configuration."""
    log.config = old.config
    log.increment_log_start_offset(old.log_start_offset)
    if old.topic_id is not None:
        log.set_topic_id(old.topic_id)
    producers = old.producers.saved(old.producers.entries)
    log.producers.restore({**dict.fromkeys(log.producers.entries), **producers})
    try:
        log.leader_epochs.take_over(old.leader_epochs)
    except OSError as error:
        logs.failures.failed(log.directory.parent, error)
        raise storage_error(error) from error


def _rename(logs: LogManager, old: Path, new: Path) -> None:
    try:
        old.rename(new)
    except OSError as error:
        logs.failures.failed(old.parent, error, "renaming a log of")
        raise storage_error(error) from error
