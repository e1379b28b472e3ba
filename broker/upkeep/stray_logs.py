"""Logs that the broker's own metadata does not have: each is named in a warning when the broker starts.

Owns which logs these are. Must not know what becomes of them: `log/strays` does. Only for a broker with a store of its
own: there a topic that the store does not have is in no other place either.
Counterparts in Kafka: LogManager.isStrayKraftReplica; a broker with ZooKeeper looks for no stray logs.
"""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from ottla.log.log import PartitionLog
from ottla.log.manager import LogManager
from ottla.zk.znodes import TopicAssignment

logger = logging.getLogger("kafka.log.LogManager")

_STRAY: Final = (
    "Log %s is stray: %s has no such partition. It is not served, and not deleted. "
    "If metadata was lost or never imported, stop the broker and run: ottla metadata import %s --override log.dirs=%s"
)


def find_strays(
    names: Collection[str], topics: Mapping[str, TopicAssignment], logs: LogManager, store_file: Path
) -> None:
    """Note in `logs.strays` the logs that the store does not have, and log a warning for each.

    `names`: of all topics in the store; `topics`: those whose znode can be read.
    """
    directories = ",".join(map(str, logs.directories))
    for log in logs.everything():
        if _is_stray(log, names, topics):
            topic, partition = log.topic_partition
            logs.strays.setdefault(topic, set()).add(partition)
            logger.warning(_STRAY, log.directory, store_file, log.directory.parent, directories)


def _is_stray(log: PartitionLog, names: Collection[str], topics: Mapping[str, TopicAssignment]) -> bool:
    topic, partition = log.topic_partition
    if topic not in topics:
        # The znode of a topic may be there and unreadable.
        return topic not in names
    assignment = topics[topic]
    is_another = assignment.topic_id is not None and log.topic_id not in (None, assignment.topic_id)
    return is_another or partition not in assignment.partitions
