"""Offsets of logs: start, end, and the first record at or after a timestamp.

Must not know groups. Counterparts in Kafka: ListOffsetsHandler, OffsetSpec.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.client.cluster import Client, kafka_error
from ottla.client.gather import gather
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.types import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
NO_OFFSET: Final = -1
_LOWEST: Final[Mapping[int, int]] = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version of ListOffsets that knows a special timestamp."""
_TIMEOUT_MS: Final = 30_000


class FoundOffset(NamedTuple):
    """An offset, -1 if the log has none. The timestamp of its record and its leader epoch are -1 if unknown."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


class LogRange(NamedTuple):
    """The range of offsets in a log, `end` exclusive."""

    start: int
    end: int


async def list_offsets(
    client: Client, wanted: Mapping[TopicPartition, int], *, is_committed: bool = False
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    """Return the first offset at or after a timestamp, or the offset for EARLIEST, LATEST and the other constants.

    `is_committed` leaves out records of open transactions.
    """
    lowest = max((_LOWEST.get(each, 1) for each in wanted.values()), default=1)

    async def exchange(
        broker_id: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for each in partitions:
            asked = ListOffsetsPartition(partition_index=each.partition, timestamp=wanted[each])
            topics.setdefault(each.topic, []).append(asked)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(is_committed),
            topics=[ListOffsetsTopic(name=name, partitions=found) for name, found in topics.items()],
            timeout_ms=_TIMEOUT_MS,
        )
        response = await client.ask(request, broker_id, ListOffsetsResponse, lowest=2 if is_committed else lowest)
        return {
            TopicPartition(topic.name, each.partition_index): FoundOffset(
                each.offset, each.timestamp, each.leader_epoch
            )
            if each.error_code == ErrorCode.NONE
            else kafka_error(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }

    if not wanted:
        return {}
    found = await client.ask_leaders(wanted, exchange)
    return {each: found[each] for each in wanted}


async def led(
    client: Client, partitions: Iterable[TopicPartition]
) -> tuple[list[TopicPartition], dict[TopicPartition, KafkaError]]:
    """Return the partitions with a leader, and an error for each other partition.

    A caller that must not wait leaves the others out, because their requests wait until there is a leader.
    """
    wanted = list(dict.fromkeys(partitions))
    leaders = await client.leaders(wanted) if wanted else {}
    return (
        [each for each in wanted if not isinstance(leaders[each], KafkaError)],
        {each: error for each, error in leaders.items() if isinstance(error, KafkaError)},
    )


async def log_ranges(
    client: Client, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, LogRange | KafkaError]:
    """Return the start and the end of logs; both requests run at the same time."""
    asked, refused = await led(client, partitions)
    starts, ends = await gather(
        partial(list_offsets, client, dict.fromkeys(asked, timestamp)) for timestamp in (EARLIEST, LATEST)
    )
    results: dict[TopicPartition, LogRange | KafkaError] = dict(refused)
    for each in asked:
        start, end = starts[each], ends[each]
        if isinstance(start, KafkaError):
            results[each] = start
        elif isinstance(end, KafkaError):
            results[each] = end
        else:
            results[each] = LogRange(start.offset, end.offset)
    return results


async def partitions_of(client: Client, topics: Iterable[str]) -> dict[str, list[TopicPartition] | KafkaError]:
    """Return the partitions of topics, or an error for a topic that cannot be described."""
    found: dict[str, list[TopicPartition] | KafkaError] = {}
    wanted = list(dict.fromkeys(topics))
    for topic in (await client.metadata(wanted)).topics if wanted else ():
        name = topic.name or ""
        numbers = sorted(each.partition_index for each in topic.partitions)
        is_known = topic.error_code == ErrorCode.NONE
        found[name] = [TopicPartition(name, each) for each in numbers] if is_known else kafka_error(topic.error_code)
    return found
