"""A producer: it puts records into batches, and `sender` sends each batch to the leader of its partition.

Owns the choice of a partition, the bound on memory, and metadata. Must not know what a record means, nor its source.
Counterparts in Kafka: KafkaProducer, RecordAccumulator, ProducerMetadata.
"""

import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from ottla.client.cluster import Client, kafka_error
from ottla.client.errors import ClientError, OperationTimedOutError
from ottla.client.producing.batches import Completion, Delivery, PartitionQueue, size_alone, size_of
from ottla.client.producing.counts import Counts
from ottla.client.producing.partitioner import StickyPartition, partition_of_key
from ottla.client.producing.sender import Sender
from ottla.client.producing.settings import ProducerSettings
from ottla.client.tasks import Latch, Signal, background
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataResponseTopic
from ottla.wire.records.batch import HEADER_SIZE, NewRecord

__all__ = ["Completion", "Delivery", "Producer", "open_producer"]
_FATAL: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
"""Errors of a topic that do not pass."""
_FAREWELL_SECONDS: Final = 5.0
Headers = Sequence[tuple[str, bytes | None]]


class _Topic:
    """A topic that records are sent to."""

    __slots__ = ("error", "partitions", "sticky")

    def __init__(self) -> None:
        self.partitions: list[PartitionQueue] = []
        self.sticky: StickyPartition | None = None
        self.error: KafkaError | None = None

    def has(self, partition: int | None) -> bool:
        """Whether a partition is known; any of them for None."""
        return bool(self.partitions) and (partition is None or partition < len(self.partitions))

    def update(self, found: MetadataResponseTopic, batch_size: int) -> None:
        """Take leaders from a response."""
        name = found.name or ""
        self.error = None if found.error_code == ErrorCode.NONE else kafka_error(found.error_code, name)
        if self.error is not None:
            return
        for index in range(len(self.partitions), len(found.partitions)):
            self.partitions.append(PartitionQueue(name, index))
        for each in found.partitions:
            self.partitions[each.partition_index].leader = each.leader_id
        available = [each.index for each in self.partitions if each.leader >= 0]
        self.sticky = StickyPartition(available or range(len(self.partitions)), batch_size, random.choice)


class Producer:
    """Sends records; made by `open_producer`."""

    def __init__(self, client: Client, nursery: trio.Nursery) -> None:
        self._client = client
        self._settings = ProducerSettings(client.config)
        self._topics: dict[str, _Topic] = {}
        self._stale = Latch()
        self._updated = Signal()
        self._sender = Sender(client, self._settings, nursery, self._stale.set)
        nursery.start_soon(self._refresh_forever)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        *,
        timestamp: int | None = None,
        partition: int | None = None,
        on_completion: Completion | None = None,
    ) -> None:
        """Put a record into the batch of its partition. Wait for room in memory, and for a topic's metadata.

        `on_completion` is called with the record's place or its error. After an exception here it is not called.
        """
        settings, sender = self._settings, self._sender
        found = self._topics.get(topic)
        if found is None or not found.has(partition):
            found = await self._metadata(topic, partition)
        size = size_of(key, value, headers)
        if HEADER_SIZE + size > settings.request_size:
            raise _too_large(size_alone(key, value, headers), settings.request_size)
        if sender.used + size > settings.memory:
            await self._wait_for_room(size)
        if sender.failure is not None:
            raise sender.failure
        if partition is None:
            assert found.sticky is not None
            partition = found.sticky.take(size) if key is None else partition_of_key(key, len(found.partitions))
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        queue = found.partitions[partition]
        batch = queue.open_batch(size, settings.batch_size)
        if batch is None:
            batch = sender.begin_batch(queue)
        batch.records.append(NewRecord(key, value, timestamp, headers))
        batch.completions.append(on_completion)
        batch.size += size
        sender.used += size
        if len(batch.records) == 1 and len(queue.queue) > 1:
            # A batch is full: wake the sender.
            await trio.lowlevel.checkpoint()

    async def deliver(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        *,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Send a record without lingering, and return its place. Raises the error with which it failed."""
        found: list[Delivery] = []
        await self.send(
            topic, value, key, headers, timestamp=timestamp, partition=partition, on_completion=found.append
        )
        await self._hurry_until(lambda: bool(found))
        if found[0].error is not None:
            raise found[0].error
        return found[0]

    @property
    def counts(self) -> Counts:
        """Return the counts of records, batches and requests so far."""
        return self._sender.counts

    @property
    def free_memory(self) -> int:
        """Return how many more bytes of records the memory has room for."""
        return self._settings.memory - self._sender.used

    @property
    def requests_in_flight(self) -> int:
        """Return how many requests wait for their response."""
        return self._sender.requests_in_flight

    async def flush(self) -> None:
        """Wait until no record waits or is in flight; no batch lingers meanwhile."""
        await self._hurry_until(lambda: not self._sender.unfinished)

    async def _hurry_until(self, is_done: Callable[[], bool]) -> None:
        self._sender.hurry += 1
        self._sender.wake.set()
        try:
            while not is_done():
                await self._sender.completed.wait()
        finally:
            self._sender.hurry -= 1

    async def _wait_for_room(self, size: int) -> None:
        sender, memory = self._sender, self._settings.memory
        with trio.move_on_after(self._settings.max_block):
            await self._hurry_until(lambda: sender.used + size <= memory or not sender.used)
            return
        raise OperationTimedOutError(
            f"Failed to allocate {size} bytes within the configured max blocking time "
            f"{self._client.config['max.block.ms']} ms."
        )

    # Metadata

    async def _metadata(self, topic: str, partition: int | None) -> _Topic:
        """Return a topic after waiting for its metadata to have the partition."""
        found = self._topics.setdefault(topic, _Topic())
        with trio.move_on_after(self._settings.max_block):
            while not found.has(partition):
                self._stale.set()
                await self._updated.wait()
                if self._sender.failure is not None:
                    raise self._sender.failure
                if found.error is not None and found.error.code in _FATAL:
                    raise found.error
            return found
        waited = f"in metadata after {self._client.config['max.block.ms']} ms."
        if found.partitions:
            count = len(found.partitions)
            text = f"Partition {partition} of topic {topic} with partition count {count} is not present {waited}"
            raise OperationTimedOutError(text)
        raise OperationTimedOutError(f"Topic {topic} not present {waited}")

    async def _refresh_forever(self) -> None:
        while True:
            await self._stale.wait(trio.current_time() + self._settings.max_age)
            try:
                response = await self._client.metadata(self._topics, create=True)
            except (ClientError, KafkaError, ConfigError) as error:
                if isinstance(error, ConfigError) or not (self._client.nodes or self._client.is_patient):
                    self._sender.fail(error)
                    self._updated.notify()
                    return
                self._stale.set()
            else:
                for each in response.topics:
                    if each.name in self._topics:
                        self._topics[each.name].update(each, self._settings.batch_size)
            self._updated.notify()
            self._sender.wake.set()
            await trio.sleep(self._settings.backoff)


def _too_large(size: int, most: int) -> KafkaError:
    text = f"The message is {size} bytes when serialized which is larger than {most}"
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{text}, which is the value of the max.request.size configuration.")


@asynccontextmanager
async def open_producer(client: Client) -> AsyncIterator[Producer]:
    """Yield a producer. The end of the block waits until all records are sent, unless the block failed.

    After Ctrl-C the producer's records are sent, too, if that does not take long.
    """
    async with background() as nursery:
        producer = Producer(client, nursery)
        try:
            yield producer
        except KeyboardInterrupt:
            with trio.move_on_after(_FAREWELL_SECONDS, shield=True):
                await producer.flush()
            raise
        await producer.flush()
