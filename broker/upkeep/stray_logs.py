"""Stray logs: logs that the broker's own metadata does not have. A warning names each when the broker starts.

Owns which logs are stray. Must not know what becomes of them: `log/strays` does. Only for a broker with a store of its
own, because no other store can have its topics.
Counterparts in Kafka: LogManager.isStrayKraftReplica; a broker with ZooKeeper looks for no stray logs.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from ottla.log.log import PartitionLog
from ottla.log.manager import LogManager
from ottla.zk.znodes import TopicAssignment

logger = logging.getLogger("kafka.log.LogManager")

_STRAY: Final = (
    "Log %s is stray: %s has no such partition. It is not served, and not deleted. "
    "If metadata was lost or never imported, stop the broker and run: ottla metadata import %s --override log.dirs=%s"
)


class Topics(Protocol):
    """Reads the topics in the store. The controller's `ClusterStore` does; this room may not import it."""

    async def topic_names(self) -> set[str]:
        """Return all topics."""
        ...

    async def topics(self, names: Iterable[str]) -> dict[str, tuple[TopicAssignment, int]]:
        """Return assignments, and versions of znodes; topics with an unreadable znode are left out."""
        ...


async def find_strays(store: Topics, logs: LogManager, store_file: Path) -> None:
    """Add the logs that the store does not have to `logs.strays`, and log a warning for each."""
    names = await store.topic_names()
    topics = {name: assignment for name, (assignment, _) in (await store.topics(names)).items()}
    directories = ",".join(map(str, logs.directories))
    for log in logs.everything():
        if _is_stray(log, names, topics):
            topic, partition = log.topic_partition
            logs.strays.setdefault(topic, set()).add(partition)
            logger.warning(_STRAY, log.directory, store_file, log.directory.parent, directories)


def _is_stray(log: PartitionLog, names: Collection[str], topics: Mapping[str, TopicAssignment]) -> bool:
    topic, partition = log.topic_partition
    if topic not in topics:
        # A topic may be in the store with an unreadable znode.
        return topic not in names
    assignment = topics[topic]
    is_another = assignment.topic_id is not None and log.topic_id not in (None, assignment.topic_id)
    return is_another or partition not in assignment.partitions
