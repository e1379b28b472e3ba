"""What those who look after logs on the side need of the replica manager: who is hosted, and how to go about it.

Owns no state. Counterpart in Kafka: none; there they hold the whole ReplicaManager.
"""

from collections.abc import Mapping
from typing import Protocol

from ottla.broker.loop.clock import Clock, Offload, StartSoon
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import OffsetSignal
from ottla.log.manager import LogManager


class Hosting(Protocol):
    """The partitions that are hosted, and the means of whoever hosts them."""

    logs: LogManager
    clock: Clock
    signal: OffsetSignal
    offload: Offload
    start_soon: StartSoon

    @property
    def partitions(self) -> Mapping[tuple[str, int], Partition]:
        """What is hosted."""

    def hosts(self, partition: Partition) -> bool:
        """Whether a partition is among them still."""

    async def idle(self, topic_partition: tuple[str, int]) -> None:
        """Return when no append to a partition is on its way. None begins before the caller's next await."""

    def moved(self, partition: Partition, moved: int) -> None:
        """Its log end or high watermark moved, or both: wake who waits for that."""

    def take_offline(self, partition: Partition, why: str, bug: BaseException | None = None) -> None:
        """Its disk failed."""
