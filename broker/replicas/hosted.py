"""The partitions that this broker hosts, by topic and number.

Owns the registry, and how a partition goes offline when its disk fails. Must not know roles, requests or directories.
Counterpart in Kafka: ReplicaManager.allPartitions.
"""

import logging

from ottla.broker.replicas.events import PartitionEvents
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import EVERYTHING, OffsetSignal

logger = logging.getLogger("kafka.server.ReplicaManager")


class HostedPartitions:
    """The registry of one broker."""

    def __init__(self, signal: OffsetSignal, events: PartitionEvents) -> None:
        self._signal = signal
        self._events = events
        self.partitions: dict[tuple[str, int], Partition] = {}  # a TopicPartition equals its key
        # Replicas that may be in a log directory that failed before they were opened. They are not served.
        self.not_found: set[tuple[str, int]] = set()

    def hosts(self, partition: Partition) -> bool:
        """Whether this very partition is hosted still."""
        return self.partitions.get(partition.topic_partition) is partition

    def take_offline(self, partition: Partition, why: str, bug: BaseException | None = None) -> None:
        """Serve nothing from the partition until the broker starts anew, because its disk failed."""
        if partition.is_offline:
            return
        logger.error("%s goes offline until the broker is restarted: %s", partition.topic_partition, why, exc_info=bug)
        partition.make_offline()
        self._signal.notify(partition.topic_partition, EVERYTHING)
        self._events.offline.notify()
