"""A member of a group that prints its partitions, records and commits as lines of JSON.

Owns the events and their order. Must not know a command line.
Counterpart in Kafka: org.apache.kafka.tools.VerifiableConsumer.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ottla.client.cluster import Client
from ottla.client.consuming.chunks import Chunk
from ottla.client.consuming.consumer import Consumer, open_consumer
from ottla.client.consuming.group_commits import Positions
from ottla.client.consuming.group_member import GroupMember, open_member
from ottla.client.errors import ClientError
from ottla.scripts.kafka.java.hashes import by_partition_hash
from ottla.scripts.load.events import Events
from ottla.scripts.terminal.signals import Ending, ending_by_signal
from ottla.wire.errors import KafkaError
from ottla.wire.records.batch import Record
from ottla.wire.types import TopicPartition

NO_LIMIT = -1
Polled = dict[TopicPartition, list[Record]]


class Plan(NamedTuple):
    """The settings of a run. A negative `most` means no limit."""

    topic: str
    most: int = NO_LIMIT
    is_verbose: bool = False
    prints_request: bool = True
    """Whether to print an event for the signal, as Kafka 4.3 does and 3.9 does not."""


async def consume_verifiably(
    client: Client, plan: Plan, events: Events, describe: Callable[[KafkaError], str | None]
) -> int:
    """Read and commit until `most` records are read, or a signal comes; return the signal, 0 for none.

    `describe` returns the error text in the event of a failed commit.
    """
    program = _Program(client, plan, events, describe)

    def requested() -> None:
        if plan.prints_request:
            events.print("shutdown_requested")

    async with ending_by_signal(requested) as ending:
        try:
            async with open_consumer(client) as consumer, open_member(client, consumer, [plan.topic]) as member:
                await program.run(consumer, member, ending)
        finally:
            events.print("shutdown_complete")
            if not ending.signal:
                requested()
    return ending.signal


class _Program:
    def __init__(
        self, client: Client, plan: Plan, events: Events, describe: Callable[[KafkaError], str | None]
    ) -> None:
        self._plan = plan
        self._events = events
        self._describe = describe
        self._most_at_once: int = client.config["max.poll.records"]
        self._commits = not client.config["enable.auto.commit"]
        self._read = 0
        self._rest: Iterator[tuple[TopicPartition, Record]] = iter(())

    async def run(self, consumer: Consumer, member: GroupMember, ending: Ending) -> None:
        """Read records until `most` are read."""
        self._events.print("startup_complete")
        member.on_assigned = lambda partitions: self._print_partitions("partitions_assigned", partitions)
        member.on_revoked = lambda partitions: self._revoked(partitions)
        while not self._is_finished:
            with ending.interruptible() as scope:
                polled = await self._poll(consumer, member)
            if scope.cancelled_caught:
                return
            places = self._take(polled)
            if self._commits:
                await self._commit(member, places)
            else:
                # All records of a poll are committed, also if `most` is reached in the middle of them.
                for each, records in polled.items():
                    member.processed(each, records[-1].offset + 1)

    @property
    def _is_finished(self) -> bool:
        return 0 <= self._plan.most <= self._read

    def _print_partitions(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        named = [{"topic": each.topic, "partition": each.partition} for each in sorted(partitions)]
        self._events.print(name, partitions=named)

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        # Another member may read the rest.
        self._rest = iter(())
        self._print_partitions("partitions_revoked", partitions)

    async def _poll(self, consumer: Consumer, member: GroupMember) -> Polled:
        """Return as many records as one poll of Kafka's consumer returns."""
        found: Polled = {}
        count = 0
        while True:
            for partition, record in self._rest:
                found.setdefault(partition, []).append(record)
                count += 1
                if count == self._most_at_once:
                    return found
            chunk = consumer.ready() if found else await member.next()
            if chunk is None:
                return found
            self._rest = _records(chunk)

    def _take(self, polled: Polled) -> Positions:
        """Print the events of a poll; return the positions to commit."""
        places: Positions = {}
        summaries: list[dict[str, Any]] = []
        for partition in by_partition_hash(polled):
            records = polled[partition]
            if self._plan.most >= 0:
                records = records[: self._plan.most - self._read]
            if not records:
                continue
            first, last = records[0].offset, records[-1].offset
            places[partition] = (last + 1, -1)
            where = {"topic": partition.topic, "partition": partition.partition}
            summaries.append({**where, "count": len(records), "minOffset": first, "maxOffset": last})
            if self._plan.is_verbose:
                for record in records:
                    texts = {"key": _text(record.key), "value": _text(record.value)}
                    self._events.print("record_data", **texts, **where, offset=record.offset)
            self._read += len(records)
            if self._is_finished:
                break
        count = sum(map(len, polled.values()))
        self._events.print("records_consumed", count=count, partitions=summaries)
        return places

    async def _commit(self, member: GroupMember, places: Positions) -> None:
        failed: dict[str, str | None] = {}
        try:
            await member.commit(places)
        except KafkaError as error:
            failed = {"error": self._describe(error)}
        except ClientError as error:
            failed = {"error": str(error)}
        offsets = [
            {"topic": each.topic, "partition": each.partition, "offset": places[each][0]}
            for each in by_partition_hash(places)
        ]
        self._events.print("offsets_committed", offsets=offsets, **failed, success=not failed)


def _records(chunk: Chunk) -> Iterator[tuple[TopicPartition, Record]]:
    return ((chunk.partition, record) for _, record in chunk.records())


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
