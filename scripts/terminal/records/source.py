"""Reading records for a command: between two offsets, the last ones by time, or as a member of a group.

Owns the end of reading. Must not know the use of a record: `take` gets each one, and returns whether it wants more.
"""

import math
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import trio

from ottla.client.admin.offsets import LATEST, list_offsets
from ottla.client.cluster import Client
from ottla.client.consuming.chunks import Chunk
from ottla.client.consuming.consumer import open_consumer
from ottla.client.consuming.group_member import GroupMember, open_member
from ottla.client.tasks import background
from ottla.scripts.terminal.records.formats import Shown
from ottla.scripts.terminal.records.ranges import Bounds
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition

_LOOK_SECONDS: Final = 0.2
Take = Callable[[Shown], bool]
Flush = Callable[[], None]


def _shown(chunk: Chunk, stop: int | None) -> Iterator[Shown]:
    for header, record in chunk.records():
        if stop is not None and record.offset >= stop:
            return
        yield Shown(chunk.partition, header, record, chunk.end)


async def read_between(client: Client, bounds: Mapping[TopicPartition, Bounds], take: Take, flush: Flush) -> None:
    """Read the records between the bounds, in order of arrival; `flush` is called after each chunk."""
    left = {each: bound for each, bound in bounds.items() if bound.stop is None or bound.start < bound.stop}
    async with open_consumer(client, reset="earliest") as consumer:
        consumer.assign({each: bound.start for each, bound in left.items()})
        while left:
            chunk = await consumer.next()
            stop = left[chunk.partition].stop
            wants_more = all(map(take, _shown(chunk, stop)))
            flush()
            if not wants_more:
                return
            if stop is not None and chunk.next_offset >= stop:
                consumer.stop(chunk.partition)
                del left[chunk.partition]


async def read_by_time(client: Client, bounds: Mapping[TopicPartition, Bounds], take: Take, flush: Flush) -> bool:
    """Read all records between the bounds, then call `take` in timestamp order; return whether it wants more."""
    found: list[Shown] = []

    def collect(shown: Shown) -> bool:
        found.append(shown)
        return True

    await read_between(client, bounds, collect, lambda: None)
    # A stable sort keeps the order of records with equal timestamps.
    found.sort(key=lambda shown: shown.record.timestamp)
    wants_more = all(map(take, found))
    flush()
    return wants_more


async def read_as_member(
    client: Client,
    topics: Sequence[str],
    pattern: re.Pattern[str] | None,
    take: Take,
    flush: Flush,
    *,
    exit_at_end: bool = False,
) -> None:
    """Read as a member of the group `group.id`, and commit the taken records. SIGTERM ends it like Ctrl-C.

    It leaves the group at its end, because otherwise the other members would wait for its session timeout.
    """
    async with (
        background() as nursery,
        open_consumer(client) as consumer,
        open_member(client, consumer, topics, pattern) as member,
    ):
        nursery.start_soon(_interrupt_at_sigterm)
        ends = _Ends(client, member)
        while not (exit_at_end and await ends.are_reached(consumer.begun())):
            chunk = await member.next(_LOOK_SECONDS if exit_at_end else math.inf)
            if chunk is None:
                continue
            following, wants_more = chunk.next_offset, True
            for shown in _shown(chunk, None):
                if not take(shown):
                    following, wants_more = shown.record.offset + 1, False
                    break
            flush()
            member.processed(chunk.partition, following, chunk.leader_epoch)
            ends.note(chunk.partition, following)
            if not wants_more:
                return


async def _interrupt_at_sigterm() -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            raise KeyboardInterrupt


class _Ends:
    """The ends of a member's partitions at the time of their assignment."""

    def __init__(self, client: Client, member: GroupMember) -> None:
        self._client = client
        self._member = member
        self._assigned: list[TopicPartition] | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._read: dict[TopicPartition, int] = {}

    async def are_reached(self, begun: Mapping[TopicPartition, int]) -> bool:
        """Whether the member has read up to all ends."""
        if self._member.assigned is not self._assigned:
            self._assigned = self._member.assigned
            is_committed = self._client.config["isolation.level"] == "read_committed"
            found = await list_offsets(self._client, dict.fromkeys(self._assigned, LATEST), is_committed=is_committed)
            self._ends = {each: end.offset for each, end in found.items() if not isinstance(end, KafkaError)}
        places = {**begun, **self._read}
        return self._member.is_joined and all(places.get(each, -1) >= end for each, end in self._ends.items())

    def note(self, partition: TopicPartition, offset: int) -> None:
        """Note the next offset to read of a partition."""
        self._read[partition] = offset
