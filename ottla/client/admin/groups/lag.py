"""Positions of groups: committed offsets, the ends of the logs, and the lag.

Must not know how they are shown. Counterpart in Kafka: ConsumerGroupCommand's collectGroupsOffsets.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.fetching import first_timestamps
from ottla.client.admin.groups.committed_offsets import Committed, Offsets
from ottla.client.admin.offsets import LogRange, log_ranges
from ottla.client.cluster import Client
from ottla.client.lag import NOTHING_UNREAD, Lag, lag_of
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition


class Position(NamedTuple):
    """The position of a group in a partition. `error` is set if the log's end is unknown."""

    partition: TopicPartition
    committed: Committed | None
    log_end: int | None
    lag: Lag
    error: KafkaError | None = None


async def group_positions(
    client: Client,
    offsets: Mapping[str, Offsets],
    assigned: Mapping[str, Iterable[TopicPartition]],
    now_ms: int,
) -> dict[str, list[Position]]:
    """Return the positions of groups in all partitions with a commit or a member."""
    wanted = {group: sorted({*found, *assigned.get(group, ())}) for group, found in offsets.items()}
    ranges = await log_ranges(client, {each for partitions in wanted.values() for each in partitions})
    places = [
        (partition, committed.offset)
        for found in offsets.values()
        for partition, committed in found.items()
        if _is_unread(ranges[partition], committed)
    ]
    timestamps = await first_timestamps(client, places, NOTHING_UNREAD) if places else {}
    return {
        group: [_position(each, offsets[group].get(each), ranges[each], timestamps, now_ms) for each in partitions]
        for group, partitions in wanted.items()
    }


def _is_unread(found: LogRange | KafkaError, committed: Committed) -> bool:
    """Whether the log may still have the first unread record."""
    return not isinstance(found, KafkaError) and found.start <= committed.offset < found.end


def _position(
    partition: TopicPartition,
    committed: Committed | None,
    found: LogRange | KafkaError,
    timestamps: Mapping[tuple[TopicPartition, int], int | None],
    now_ms: int,
) -> Position:
    if isinstance(found, KafkaError):
        return Position(partition, committed, None, Lag(None, None), found)
    if committed is None:
        return Position(partition, None, found.end, Lag(None, None))
    timestamp = timestamps.get((partition, committed.offset))
    return Position(
        partition, committed, found.end, lag_of(committed.offset, found.start, found.end, timestamp, now_ms)
    )
