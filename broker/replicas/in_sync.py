"""Which replicas are in sync, and the high watermark that follows from it.

Owns a leader's view of its followers (`Replica`), the in-sync replicas with a proposal that is under way
(`InSyncReplicas`), and the rules for both. Pure: positions, times and ids are arguments. Must not know logs, requests
or the store.
Counterparts in Kafka: Replica, PartitionState and the ISR half of Partition.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

UNKNOWN_OFFSET: Final = -1


class Replica:
    """A follower as its leader knows it, from the follower's fetches."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_time_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_time_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = 0
        self.last_fetch_time_ms = 0
        self.last_caught_up_time_ms = 0
        self.broker_epoch = -1

    def reset(self, now_ms: int, leader_end_offset: int, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """Begin a leader epoch. Out of sync, a replica starts at time 0, so that the high watermark does not wait."""
        self.last_caught_up_time_ms = now_ms if is_in_sync else 0
        if is_new_leader:
            self.log_start_offset = UNKNOWN_OFFSET
            self.log_end_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_time_ms = 0
            self.broker_epoch = -1
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_time_ms = now_ms if is_in_sync else 0

    def fetched(
        self, fetch_offset: int, log_start_offset: int, now_ms: int, leader_end_offset: int, broker_epoch: int
    ) -> None:
        """Take in that the follower fetched from `fetch_offset`, so that it has all records before it.

        A follower that never reaches the end of a busy log counts as caught up at the time of its previous fetch, once
        it has all records that the leader had then.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, self.last_fetch_time_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_time_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it is at the leader's log end, or was there within the last `max_lag_ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_time_ms <= max_lag_ms


class InSyncReplicas:
    """The in-sync replicas that the controller committed, and those that were proposed to it. Immutable.

    While a proposal is under way, either may hold. `maximal` is the union: the high watermark waits for all of it, so
    that no record is lost in either case.
    """

    __slots__ = ("committed", "maximal", "order", "proposed")

    def __init__(self, committed: Iterable[int], proposed: Iterable[int] | None = None) -> None:
        # The controller's order, as tools and logs show it.
        self.order = tuple(committed)
        self.committed = frozenset(self.order)
        self.proposed = None if proposed is None else frozenset(proposed)
        self.maximal = self.committed if self.proposed is None else self.committed | self.proposed

    @property
    def is_changing(self) -> bool:
        """Whether a proposal is under way. There is one at a time."""
        return self.proposed is not None

    def propose(self, members: Iterable[int]) -> "InSyncReplicas":
        """Return the state with a proposal under way."""
        if self.is_changing:
            raise ValueError("a change of the in-sync replicas is under way")
        return InSyncReplicas(self.order, members)

    @property
    def proposed_in_order(self) -> list[int]:
        """The members that stay, in their order, then those that join, as in Kafka."""
        proposed = self.proposed or frozenset()
        return [each for each in self.order if each in proposed] + sorted(proposed - self.committed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InSyncReplicas):
            return NotImplemented
        return self.committed == other.committed and self.proposed == other.proposed

    def __hash__(self) -> int:
        return hash((self.committed, self.proposed))

    def __repr__(self) -> str:
        change = "" if self.proposed is None else f" -> {sorted(self.proposed)}"
        return f"InSyncReplicas({sorted(self.committed)}{change})"


def effective_min_isr(min_insync_replicas: int, replica_count: int) -> int:
    """Return `min.insync.replicas`, but no more than the number of replicas."""
    return min(min_insync_replicas, replica_count)


def high_watermark(
    current: int,
    leader_end_offset: int,
    followers: Mapping[int, Replica],
    in_sync: InSyncReplicas,
    min_isr: int,
    now_ms: int,
    max_lag_ms: int,
    is_alive: Callable[[int], bool],
) -> int:
    """Return the offset below which every in-sync replica has all records; never lower than `current`.

    It does not rise while fewer than `min_isr` replicas are in sync. A live follower that caught up but is not in sync
    yet counts too, because it might never join if the high watermark ran ahead of it.
    """
    if len(in_sync.committed) < min_isr:
        return current
    lowest = leader_end_offset
    for broker_id, replica in followers.items():
        if replica.log_end_offset < lowest and (
            broker_id in in_sync.maximal
            or (replica.is_caught_up(leader_end_offset, now_ms, max_lag_ms) and is_alive(broker_id))
        ):
            lowest = replica.log_end_offset
    return max(current, lowest)


def may_join(replica: Replica, in_sync: InSyncReplicas, watermark: int, leader_epoch_start_offset: int) -> bool:
    """Whether a replica may join: it has all committed records, and all from before this leader's epoch."""
    return (
        not in_sync.is_changing
        and replica.broker_id not in in_sync.committed
        and replica.log_end_offset >= watermark
        and replica.log_end_offset >= leader_epoch_start_offset
    )


def out_of_sync(
    followers: Mapping[int, Replica], in_sync: InSyncReplicas, leader_end_offset: int, now_ms: int, max_lag_ms: int
) -> set[int]:
    """Return the followers that have to leave: they were not at the leader's log end for `max_lag_ms`."""
    if in_sync.is_changing:
        return set()
    return {
        broker_id
        for broker_id, replica in followers.items()
        if broker_id in in_sync.committed and not replica.is_caught_up(leader_end_offset, now_ms, max_lag_ms)
    }
