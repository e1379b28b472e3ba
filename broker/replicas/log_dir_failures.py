"""When a log directory fails, all partitions in it go offline, and the others are served on.

Owns the order. At the error itself the partitions are marked, so that nothing more is appended or acknowledged. After
that the listeners and the watchers are notified, the files closed, and the controller notified. Must not know what
failed, nor where it was noticed.
Counterpart in Kafka: ReplicaManager.handleLogDirFailure.
"""

import logging
from pathlib import Path

from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.replicas.watchers import EVERYTHING

logger = logging.getLogger("kafka.server.ReplicaManager")


class LogDirFailures:
    """Takes the partitions of a failed directory offline."""

    def __init__(self, parts: ReplicaParts) -> None:
        self._logs = parts.logs
        self._start_soon = parts.start_soon
        self._signal = parts.signal
        self._events = parts.events
        self._hosted = parts.hosted
        self._broker_id = parts.broker_id

    def failed(self, directory: Path) -> None:
        """Only mark the partitions, because the caller is in the midst of using one of them."""
        logger.warning("Stopping serving replicas in dir %s because the log directory has failed.", directory)
        offline = [each for each in self._hosted.partitions.values() if each.log.directory.parent == directory]
        for partition in offline:
            partition.make_offline()
        self._start_soon(self._stop_serving, directory, offline)

    async def _stop_serving(self, directory: Path, offline: list[Partition]) -> None:
        for partition in offline:
            self._events.stopped.notify(partition)
            self._signal.notify(partition.topic_partition, EVERYTHING)
        names = ",".join(str(each.topic_partition) for each in offline)
        logger.warning("Broker %d stopped fetcher for partitions %s because they are in the failed log directory %s.",
                       self._broker_id, names, directory)  # fmt: skip
        self._logs.close_failed(directory)
        self._events.offline.notify()
        logger.warning("Stopped serving replicas in dir %s", directory)
