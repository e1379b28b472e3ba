"""Stray logs: logs of topics that the cluster's metadata lacks. A new topic of the same name sets them aside.

Owns the name under which a stray log is set aside. Must not know the metadata, nor when a log is stray.
Counterparts in Kafka: LogManager.addStrayLog, UnifiedLog.logStrayDirName.
"""

import logging

from ottla.log.log import PartitionLog
from ottla.log.manager import STRAY_SUFFIX, LogManager, renaming
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.log.LogManager")


def make_way(logs: LogManager, topic: str, topic_id: bytes) -> None:
    """Set aside the stray logs of other topics of this name, but keep logs with `topic_id`; KafkaError if a disk fails.

    All partitions go at once, because an import refuses a topic whose logs have several ids.
    """
    strays = logs.strays[topic]
    for partition in sorted(strays):
        topic_partition = TopicPartition(topic, partition)
        for found in (logs.logs, logs.futures):
            log = found.get(topic_partition)
            if log is not None and log.topic_id != topic_id:
                del found[topic_partition]
                strays.discard(partition)
                _set_aside(logs, log)


def _set_aside(logs: LogManager, log: PartitionLog) -> None:
    logs.give_up(log)
    stray = renaming(log, STRAY_SUFFIX)
    logs.rename(stray)
    logger.warning(
        "Log for partition %s is marked as stray and renamed to %s, because a new topic has its name. "
        "It is not served, and not deleted",
        log.topic_partition,
        stray.new,
    )
