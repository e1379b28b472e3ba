"""Who reads from a partition, a consumer or a follower, how far that one may see, and what a read gives.

Must not know what a partition is. Counterpart in Kafka: FetchParams, FetchIsolation, LogReadResult.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from ottla.broker.replicas.watchers import HIGH_WATERMARK, LOG_END
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import AbortedTransaction
from ottla.wire.types import Region

# How far a reader may see. Followers see all; consumers see what is committed, or what no open transaction precedes.
TO_LOG_END: Final = 0
TO_HIGH_WATERMARK: Final = 1
TO_LAST_STABLE_OFFSET: Final = 2
NO_REPLICA: Final = -1


class Asked(Protocol):
    """A position to read from, as a request or a session holds it."""

    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class ReadResult:
    """What a read gave: records and offsets, a divergence, or an error."""

    __slots__ = (
        "aborted_transactions",
        "diverging_epoch",
        "error",
        "high_watermark",
        "is_exhausted",
        "is_of_older_segment",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "records",
        "size",
    )

    def __init__(
        self,
        error: ErrorCode,
        records: bytes | Region = b"",
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        is_exhausted: bool = True,
        diverging_epoch: tuple[int, int] | None = None,
        preferred_read_replica: int = NO_REPLICA,
    ) -> None:
        self.error = error
        self.records = records
        self.size = len(records)
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        # Nothing is left to read for now, but for `records`.
        self.is_exhausted = is_exhausted
        # The reader is behind: there is a newer segment for it, so that it need not wait for more in this one.
        self.is_of_older_segment = False
        # The epoch and its end offset from which on the reader's log is another one.
        self.diverging_epoch = diverging_epoch
        # Whom the reader is to ask instead, if anybody.
        self.preferred_read_replica = preferred_read_replica
        # Whose records a reader that wants only committed ones passes over. None: nothing was read.
        self.aborted_transactions: Sequence[AbortedTransaction] | None = ()

    @property
    def is_diverging(self) -> bool:
        """The reader has to truncate."""
        return self.diverging_epoch is not None


class Reader:
    """Who reads, and how far that one may see."""

    __slots__ = ("broker_epoch", "from_leader_only", "how_far", "listener", "rack_id", "replica_id")

    def __init__(
        self,
        replica_id: int,
        broker_epoch: int,
        how_far: int,
        *,
        from_leader_only: bool,
        rack_id: str = "",
        listener: str = "",
    ) -> None:
        """Take, of a consumer that may be sent to a replica in its rack, the rack and how it reaches brokers."""
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.how_far = how_far
        self.from_leader_only = from_leader_only
        self.rack_id = rack_id
        self.listener = listener

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


def consumer(isolation_level: int, *, from_leader_only: bool, rack_id: str = "", listener: str = "") -> Reader:
    """The reader that a consumer is; isolation level 1 is read_committed."""
    how_far = TO_LAST_STABLE_OFFSET if isolation_level == 1 else TO_HIGH_WATERMARK
    return Reader(-1, -1, how_far, from_leader_only=from_leader_only, rack_id=rack_id, listener=listener)
