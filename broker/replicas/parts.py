"""What the replica manager and the objects beside it share: each part is made once, here, in the order of their needs.

Owns that order. Must not know what the parts do. Counterpart in Kafka: the constructor of ReplicaManager.
"""

from collections.abc import Callable

from ottla.broker.loop.clock import Clock, Offload, StartSoon
from ottla.broker.loop.turn import Turn
from ottla.broker.replicas.controller_fence import ControllerFence
from ottla.broker.replicas.events import PartitionEvents
from ottla.broker.replicas.fsync import GroupCommit
from ottla.broker.replicas.hosted import HostedPartitions
from ottla.broker.replicas.segment_checks import SegmentChecks
from ottla.broker.replicas.slow_appends import SlowAppends
from ottla.broker.replicas.watchers import OffsetSignal
from ottla.log.manager import LogManager


class ReplicaParts:
    """What a broker's replica manager works with: logs, clock, threads, events, fsyncs, slow appends.

    A constructor that gets this object keeps only the parts that it needs.
    """

    def __init__(
        self,
        logs: LogManager,
        clock: Clock,
        offload: Offload,
        append_offload: Offload,
        start_soon: StartSoon,
        broker_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`append_offload` is for the writes of slow directories alone."""
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.logs = logs
        self.clock = clock
        self.offload = offload
        self.start_soon = start_soon
        self.turn = Turn()
        self.signal = OffsetSignal(self.turn)
        self.events = PartitionEvents()
        self.fence = ControllerFence(broker_epoch)
        self.hosted = HostedPartitions(self.signal, self.events)
        self.group_commit = GroupCommit(self.hosted, clock, offload, start_soon, self.signal)
        self.segment_checks = SegmentChecks(self.hosted, offload, start_soon, self.signal)
        self.slow_appends = SlowAppends(clock, append_offload, start_soon, self.group_commit)
