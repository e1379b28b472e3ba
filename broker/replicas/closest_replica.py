"""The replica that a consumer should read from: one in its own rack (KIP-392).

PURE. Owns the choice. Must not know how the consumer learns of it, nor where racks are known from.
Counterparts in Kafka: RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.broker.replicas.in_sync import InSyncReplicas, Replica
from ottla.broker.replicas.reads import NO_REPLICA


class Replicated(Protocol):
    """The fields of a partition that the choice depends on."""

    is_leader: bool
    leader_id: int
    in_sync: InSyncReplicas

    @property
    def followers(self) -> Mapping[int, Replica]:
        """The other replicas, as the leader knows them."""


def closest_replica(
    partition: Replicated, fetch_offset: int, rack_id: str, rack_of: Callable[[int], str | None]
) -> int:
    """Return a broker in the consumer's rack that has the offset; NO_REPLICA if there is none, or if this one is there.

    Only a leader chooses. Replicas out of sync are left out, because they may fall behind further, with their
    consumers. Of several replicas the one with the highest log end offset is returned.
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
