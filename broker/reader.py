"""Who reads from a partition: a consumer or a follower, and how far that one may see.

Must not know what is read. Counterpart in Kafka: FetchParams, FetchIsolation.
"""

from ottla.broker.offset_signal import HIGH_WATERMARK, LOG_END
from ottla.broker.partition import TO_HIGH_WATERMARK, TO_LAST_STABLE_OFFSET, TO_LOG_END


class Reader:
    """Who reads, and how far that one may see."""

    __slots__ = ("broker_epoch", "from_leader_only", "how_far", "replica_id")

    def __init__(self, replica_id: int, broker_epoch: int, how_far: int, *, from_leader_only: bool) -> None:
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.how_far = how_far
        self.from_leader_only = from_leader_only

    @property
    def is_follower(self) -> bool:
        """A broker that replicates, not a consumer."""
        return self.replica_id >= 0

    @property
    def reads_committed(self) -> bool:
        """Records of open and aborted transactions are not for this one."""
        return self.how_far == TO_LAST_STABLE_OFFSET

    @property
    def waits_for(self) -> int:
        """What has to move to give this reader more. A follower also has to be told the high watermark."""
        return HIGH_WATERMARK if self.how_far != TO_LOG_END else LOG_END | HIGH_WATERMARK


def consumer(isolation_level: int, *, from_leader_only: bool) -> Reader:
    """The reader that a consumer is; isolation level 1 is read_committed."""
    how_far = TO_LAST_STABLE_OFFSET if isolation_level == 1 else TO_HIGH_WATERMARK
    return Reader(-1, -1, how_far, from_leader_only=from_leader_only)
