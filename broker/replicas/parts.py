"""What the replica manager and those beside it work with, made once and in order.

Owns the order only. Must not know what the parts do. Counterpart in Kafka: the constructor of ReplicaManager.
"""

from typing import NamedTuple

from ottla.broker.loop.clock import Clock, Offload, StartSoon
from ottla.broker.loop.turn import Turn
from ottla.broker.replicas.events import PartitionEvents
from ottla.broker.replicas.fsync import GroupCommit
from ottla.broker.replicas.hosted import HostedPartitions
from ottla.broker.replicas.segment_checks import SegmentChecks
from ottla.broker.replicas.slow_appends import SlowAppends
from ottla.broker.replicas.watchers import OffsetSignal
from ottla.log.manager import LogManager


class ReplicaParts(NamedTuple):
    """For constructors only: each object keeps the parts that it needs, and not this."""

    logs: LogManager
    clock: Clock
    offload: Offload
    start_soon: StartSoon
    turn: Turn
    signal: OffsetSignal
    events: PartitionEvents
    hosted: HostedPartitions
    group_commit: GroupCommit
    segment_checks: SegmentChecks
    slow_appends: SlowAppends


def replica_parts(
    logs: LogManager, clock: Clock, offload: Offload, append_offload: Offload, start_soon: StartSoon
) -> ReplicaParts:
    """Make the parts of one broker. `append_offload` is for the writes of slow directories alone."""
    turn = Turn()
    signal = OffsetSignal(turn)
    events = PartitionEvents()
    hosted = HostedPartitions(signal, events)
    group_commit = GroupCommit(hosted, clock, offload, start_soon, signal)
    segment_checks = SegmentChecks(hosted, offload, start_soon, signal)
    slow_appends = SlowAppends(clock, append_offload, start_soon, group_commit)
    return ReplicaParts(
        logs, clock, offload, start_soon, turn, signal, events, hosted, group_commit, segment_checks, slow_appends
    )
