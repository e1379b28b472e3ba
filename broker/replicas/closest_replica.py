"""Which replica a consumer had better read from: one in its own rack (KIP-392).

PURE. Owns the choice. Must not know how a consumer is told, nor where racks are known from.
Counterparts in Kafka: RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.broker.replicas.in_sync import InSyncReplicas, Replica
from ottla.broker.replicas.reads import NO_REPLICA


class Replicated(Protocol):
    """What has to be known of a partition."""

    is_leader: bool
    leader_id: int
    in_sync: InSyncReplicas

    @property
    def followers(self) -> Mapping[int, Replica]:
        """What a leader knows of the other replicas."""


def closest_replica(
    partition: Replicated, fetch_offset: int, rack_id: str, rack_of: Callable[[int], str | None]
) -> int:
    """Return a broker in this rack that has the offset, if it is better than this one: NO_REPLICA, if none is.

    Only a leader knows. One out of sync could fall behind ever more, and take its consumers with it; of several the one
    counts that is furthest.
    """
    if not partition.is_leader or rack_of(partition.leader_id) == rack_id:
        return NO_REPLICA
    candidates = [
        (replica.log_end_offset, replica.last_caught_up_time_ms, replica.broker_id)
        for replica in partition.followers.values()
        if replica.broker_id in partition.in_sync.committed
        and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
        and rack_of(replica.broker_id) == rack_id
    ]
    return max(candidates)[-1] if candidates else NO_REPLICA
