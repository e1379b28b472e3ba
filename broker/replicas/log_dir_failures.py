"""What happens when the disk of a log directory fails: all that is in it goes offline, and the rest goes on.

Owns the order: from the very error on nothing in the directory is appended or acknowledged; then its files are let go
of, who waits is told, and the controller. Must not know what failed, nor where it was noticed.
Counterpart in Kafka: ReplicaManager.handleLogDirFailure.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from ottla.broker.loop.clock import StartSoon
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import EVERYTHING, OffsetSignal
from ottla.log.manager import LogManager

logger = logging.getLogger("kafka.server.ReplicaManager")


class Replicas(Protocol):
    """What is needed of the replica manager."""

    broker_id: int
    logs: LogManager
    signal: OffsetSignal
    start_soon: StartSoon
    offline_listener: Callable[[], None]
    role_listeners: dict[str, Callable[[int, int, bool], None]]

    @property
    def partitions(self) -> Mapping[tuple[str, int], Partition]:
        """What is hosted."""

    def tell_listeners(self, partition: Partition, *, runs: bool) -> None:
        """It is stopped."""


class LogDirFailures:
    """Listens to the failures of the logs' directories."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        replicas.logs.failures.listener = self._failed

    def _failed(self, directory: Path) -> None:
        """Only mark: somebody is in the midst of using one of these partitions."""
        logger.warning("Stopping serving replicas in dir %s because the log directory has failed.", directory)
        offline = [each for each in self._replicas.partitions.values() if each.log.directory.parent == directory]
        for partition in offline:
            partition.make_offline()
        self._replicas.start_soon(self._stop_serving, directory, offline)

    async def _stop_serving(self, directory: Path, offline: list[Partition]) -> None:
        replicas = self._replicas
        for partition in offline:
            replicas.tell_listeners(partition, runs=False)
            topic, index = partition.topic_partition
            if topic in replicas.role_listeners:
                replicas.role_listeners[topic](index, partition.leader_epoch, False)
            replicas.signal.notify(partition.topic_partition, EVERYTHING)
        names = ",".join(str(each.topic_partition) for each in offline)
        logger.warning("Broker %d stopped fetcher for partitions %s because they are in the failed log directory %s.",
                       replicas.broker_id, names, directory)  # fmt: skip
        replicas.logs.close_failed(directory)
        replicas.offline_listener()
        logger.warning("Stopped serving replicas in dir %s", directory)
