"""The reader of a partition (a consumer or a follower), how far it may read, and the result of a read.

Must not know what a partition is. Counterpart in Kafka: FetchParams, FetchIsolation, LogReadResult.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from ottla.broker.replicas.watchers import HIGH_WATERMARK, LOG_END
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import AbortedTransaction
from ottla.wire.types import Region

# How far a reader may read: followers to the log end, consumers to the high watermark or the first open transaction.
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
    """The result of a read: records and offsets, a divergence, or an error."""

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
        # There are no more records than `records` for now.
        self.is_exhausted = is_exhausted
        # There is a newer segment to read, so that the reader need not wait for more records.
        self.is_of_older_segment = False
        # The epoch, and its end offset, from which on the reader's log differs.
        self.diverging_epoch = diverging_epoch
        # The broker that the reader should fetch from instead.
        self.preferred_read_replica = preferred_read_replica
        # The transactions whose records a read_committed reader skips. None: nothing was read.
        self.aborted_transactions: Sequence[AbortedTransaction] | None = ()

    @property
    def is_diverging(self) -> bool:
        """Whether the reader has to truncate."""
        return self.diverging_epoch is not None


class Reader:
    """A consumer or a follower, and how far it may read."""

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
        """`rack_id` and `listener` are of a consumer that may be sent to a replica in its rack."""
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.how_far = how_far
        self.from_leader_only = from_leader_only
        self.rack_id = rack_id
        self.listener = listener

    @property
    def is_follower(self) -> bool:
        """Whether the reader is a broker that replicates."""
        return self.replica_id >= 0

    @property
    def reads_committed(self) -> bool:
        """Whether the reader skips records of open and aborted transactions."""
        return self.how_far == TO_LAST_STABLE_OFFSET

    @property
    def waits_for(self) -> int:
        """What has to move to give the reader more. A follower is also sent the high watermark."""
        return HIGH_WATERMARK if self.how_far != TO_LOG_END else LOG_END | HIGH_WATERMARK


def consumer(isolation_level: int, *, from_leader_only: bool, rack_id: str = "", listener: str = "") -> Reader:
    """Return the reader for a consumer; isolation level 1 is read_committed."""
    how_far = TO_LAST_STABLE_OFFSET if isolation_level == 1 else TO_HIGH_WATERMARK
    return Reader(-1, -1, how_far, from_leader_only=from_leader_only, rack_id=rack_id, listener=listener)
