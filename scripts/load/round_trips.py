"""Records from a producer to a broker and back to a consumer, one after the other.

Owns the order: a record is sent after the one before has arrived. Must not know the use of the times.
Counterpart in Kafka: org.apache.kafka.tools.EndToEndLatency.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import trio

from ottla.client.admin.offsets import LATEST, list_offsets
from ottla.client.cluster import Client, check
from ottla.client.consuming.consumer import Consumer, open_consumer
from ottla.client.errors import OperationTimedOutError
from ottla.client.producing.producer import Producer, open_producer
from ottla.wire.errors import KafkaError
from ottla.wire.records.batch import Record
from ottla.wire.types import TopicPartition

_PATIENCE_SECONDS: Final = 60.0
AT_ONCE: Final = {"linger.ms": "0", "allow.auto.create.topics": "false"}
"""Properties of a client that measures round trips."""


class RoundTrip(NamedTuple):
    """The seconds until records arrived, and the records; more than one if another producer writes, too."""

    seconds: float
    records: Sequence[Record]


class RoundTrips:
    """Sends records to a topic and receives them; made by `open_round_trips`."""

    def __init__(self, topic: str, producer: Producer, consumer: Consumer) -> None:
        self.positions: dict[TopicPartition, int] = {}
        """The next offset to read of each partition."""
        self._topic = topic
        self._producer = producer
        self._consumer = consumer

    async def make(
        self, value: bytes, key: bytes | None = None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> RoundTrip:
        """Send a record, wait for its acknowledgement and then for records. OperationTimedOutError if none arrives."""
        begun = time.perf_counter()
        await self._producer.deliver(self._topic, value, key, headers)
        return RoundTrip(0.0, await self.receive())._replace(seconds=time.perf_counter() - begun)

    async def complete(self, value: bytes, key: bytes | None = None) -> float:
        """Send a record, and return the seconds until it was acknowledged and read; skip other records.

        OperationTimedOutError if it does not arrive.
        """
        begun = time.perf_counter()
        sent = await self._producer.deliver(self._topic, value, key)
        place = TopicPartition(self._topic, sent.partition)
        while self.positions.get(place, 0) <= sent.offset:
            await self.receive()
        return time.perf_counter() - begun

    async def receive(self) -> Sequence[Record]:
        """Return the next records. OperationTimedOutError if none arrives."""
        with trio.move_on_after(_PATIENCE_SECONDS):
            while True:
                chunk = await self._consumer.next()
                self.positions[chunk.partition] = chunk.next_offset
                records = [record for _, record in chunk.records()]
                if records:
                    return records
        raise OperationTimedOutError(f"no record came back from {self._topic} within {_PATIENCE_SECONDS:g} s")


@asynccontextmanager
async def open_round_trips(client: Client, topic: str) -> AsyncIterator[RoundTrips]:
    """Yield round trips over a topic, from its end on. KafkaError if the topic does not exist."""
    described = (await client.metadata([topic])).topics[0]
    check(described.error_code, topic)
    partitions = [TopicPartition(topic, each.partition_index) for each in described.partitions]
    ends = {}
    for partition, end in (await list_offsets(client, dict.fromkeys(partitions, LATEST))).items():
        if isinstance(end, KafkaError):
            raise end
        ends[partition] = end.offset
    async with open_producer(client) as producer, open_consumer(client) as consumer:
        consumer.assign(ends)
        trips = RoundTrips(topic, producer, consumer)
        trips.positions.update(ends)
        yield trips
