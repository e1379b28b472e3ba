"""A consumer of assigned partitions: it returns their records, in order within each partition.

Owns positions, leaders, and the chunks fetched ahead: at most two responses from a broker. Must not know groups.
Counterparts in Kafka: KafkaConsumer without a group, SubscriptionState, OffsetFetcher.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

import trio

from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import ASK_ELSEWHERE, Client, kafka_error
from ottla.client.consuming.chunks import Chunk, readable
from ottla.client.consuming.fetcher import Fetcher
from ottla.client.errors import ClientError
from ottla.client.tasks import Latch, Signal, background
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import PartitionData
from ottla.wire.messages.metadata import MetadataResponse
from ottla.wire.types import TopicPartition

__all__ = ["EARLIEST", "LATEST", "Chunk", "Consumer", "open_consumer"]
_MOST_QUEUED: Final = 1
"""Chunks of a partition that may wait while the next fetch goes to its broker."""
_PASSING: Final = ASK_ELSEWHERE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
"""Errors after which the same position is fetched again."""
_RESETS: Final[Mapping[str, int]] = {"earliest": EARLIEST, "latest": LATEST}


class _Partition:
    """An assigned partition. `position` is the next offset to fetch, or EARLIEST or LATEST until that is looked up."""

    __slots__ = ("begun", "failing_since", "leader", "name", "position", "queued", "replica", "replica_until")

    def __init__(self, name: TopicPartition, position: int) -> None:
        self.name = name
        self.position = position
        self.begun = position
        self.leader = -1
        self.replica = -1
        """The follower that the leader named as preferred_read_replica, used until `replica_until`; -1: none."""
        self.replica_until = 0.0
        self.queued = 0
        self.failing_since = math.inf

    @property
    def source(self) -> int:
        """Return the broker to fetch from, -1 if none is known."""
        return self.leader if self.replica < 0 else self.replica


class Consumer:
    """Reads partitions; made by `open_consumer`."""

    def __init__(self, client: Client, nursery: trio.Nursery, *, reset: str | None = None) -> None:
        """`reset` replaces auto.offset.reset: the offset to continue at when a position is out of range."""
        self._client = client
        self._nursery = nursery
        self._is_committed = client.config["isolation.level"] == "read_committed"
        self._reset = _RESETS.get(reset or client.config["auto.offset.reset"])
        self._patience = math.inf if client.is_patient else client.config.seconds("default.api.timeout.ms")
        self._backoff = client.config.seconds("retry.backoff.ms")
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._fetchers: set[int] = set()
        self._ready: deque[tuple[_Partition, Chunk]] = deque()
        self._arrived = Signal()
        self._changed = Signal()
        self._stale = Latch()
        self._failure: Exception | None = None
        nursery.start_soon(self._refresh_forever)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions, each from its offset, EARLIEST or LATEST.

        All chunks fetched before are dropped.
        """
        self._partitions = {each: _Partition(each, offset) for each, offset in positions.items()}
        self._stale.set()
        self._changed.notify()

    def stop(self, partition: TopicPartition) -> None:
        """Stop reading a partition."""
        self._partitions.pop(partition, None)
        self._changed.notify()

    @property
    def assigned(self) -> list[TopicPartition]:
        """Return the partitions that are read."""
        return list(self._partitions)

    def begun(self) -> dict[TopicPartition, int]:
        """Return the offset at which reading began, for each partition where it is known."""
        return {name: each.begun for name, each in self._partitions.items() if each.begun >= 0}

    async def next(self) -> Chunk:
        """Return the next chunk of any partition after waiting for it. Raises the error of a partition."""
        await trio.lowlevel.checkpoint()
        while True:
            chunk = self.ready()
            if chunk is not None:
                return chunk
            if self._failure is not None:
                raise self._failure
            await self._arrived.wait()

    def ready(self) -> Chunk | None:
        """Return the next chunk of any partition; None if none has arrived."""
        while self._ready:
            partition, chunk = self._ready.popleft()
            partition.queued -= 1
            self._changed.notify()
            if self._partitions.get(partition.name) is partition:
                return chunk
        return None

    # Leaders and positions

    async def _refresh_forever(self) -> None:
        while True:
            await self._stale.wait(trio.current_time() + self._client.config.seconds("metadata.max.age.ms"))
            if not self._partitions:
                continue
            try:
                self._take_leaders(await self._client.metadata(self._topics(), create=self._creates))
                await self._look_up_positions()
            except (ClientError, KafkaError) as error:
                if not (self._client.nodes or self._client.is_patient):
                    self._fail(error)
                    return
                for each in self._partitions.values():
                    self._note_failure(each, error)
            except ConfigError as error:
                self._fail(error)
                return
            self._changed.notify()
            await trio.sleep(self._backoff)

    @property
    def _creates(self) -> bool:
        return bool(self._client.config["allow.auto.create.topics"])

    def _topics(self) -> list[str]:
        return list(dict.fromkeys(each.topic for each in self._partitions))

    def _take_leaders(self, response: MetadataResponse) -> None:
        leaders: dict[TopicPartition, int] = {}
        errors: dict[str, int] = {}
        for topic in response.topics:
            name = topic.name or ""
            errors[name] = topic.error_code
            leaders.update({TopicPartition(name, each.partition_index): each.leader_id for each in topic.partitions})
        for each, partition in self._partitions.items():
            partition.leader = leaders.get(each, -1)
            if partition.leader < 0:
                code = ErrorCode.LEADER_NOT_AVAILABLE if each in leaders else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                self._note_failure(partition, kafka_error(errors.get(each.topic) or code, str(each)))
            elif partition.leader not in self._fetchers:
                self._begin_fetcher(partition.leader)

    async def _look_up_positions(self) -> None:
        wanted = {name: each.position for name, each in self._partitions.items() if each.position < 0 <= each.leader}
        found = await list_offsets(self._client, wanted, is_committed=self._is_committed)
        for name, result in found.items():
            partition = self._partitions.get(name)
            if partition is None or partition.position != wanted[name]:
                continue
            if isinstance(result, KafkaError):
                self._note_failure(partition, result)
            else:
                partition.begun = partition.position = result.offset

    def _note_failure(self, partition: _Partition, error: Exception) -> None:
        """Retry after an error that may pass; fail after another error, or after `_patience` seconds."""
        now = trio.current_time()
        partition.failing_since = min(partition.failing_since, now)
        is_final = isinstance(error, KafkaError) and error.code not in _PASSING
        if is_final or now - partition.failing_since >= self._patience:
            self._fail(error)
        self._stale.set()

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._arrived.notify()

    # Fetching

    def _begin_fetcher(self, broker_id: int) -> None:
        self._fetchers.add(broker_id)
        self._nursery.start_soon(self._fetch_forever, broker_id)

    async def _fetch_forever(self, broker_id: int) -> None:
        fetcher = Fetcher(self._client, broker_id)
        try:
            while True:
                asked = self._to_ask(broker_id)
                if not asked:
                    await self._changed.wait()
                    continue
                try:
                    answers = await fetcher.fetch({each.name: each.position for each in asked})
                except (ClientError, KafkaError) as error:
                    for each in asked:
                        each.replica = -1
                        self._note_failure(each, error)
                    await trio.sleep(self._backoff)
                    continue
                for each in asked:
                    answer = answers.get(each.name)
                    if answer is not None and self._partitions.get(each.name) is each:
                        self._take(each, answer)
        finally:
            with trio.CancelScope(shield=True):
                await fetcher.close()

    def _to_ask(self, broker_id: int) -> list[_Partition]:
        """Return the partitions to fetch from a broker now; none while more than `_MOST_QUEUED` chunks of one wait.

        A request without the partitions whose chunks wait would keep the connection waiting for idle partitions.
        """
        found = []
        now = trio.current_time()
        for each in self._partitions.values():
            if each.replica >= 0 and now >= each.replica_until:
                each.replica = -1
            if each.source == broker_id:
                if each.queued > _MOST_QUEUED:
                    return []
                if each.position >= 0:
                    found.append(each)
        return found

    def _take(self, partition: _Partition, data: PartitionData) -> None:
        if data.error_code != ErrorCode.NONE:
            self._take_error(partition, data.error_code)
            return
        partition.failing_since = math.inf
        if data.preferred_read_replica >= 0:
            self._follow(partition, data.preferred_read_replica)
            return
        records = memoryview(cast("bytes | memoryview", data.records or b""))
        start = partition.position
        try:
            aborted = data.aborted_transactions if self._is_committed else None
            batches, partition.position = readable(records, start, aborted)
        except KafkaError as error:
            self._fail(KafkaError(error.code, f"{partition.name} at offset {start}: {error.detail}"))
            return
        if partition.position == start:
            return
        # The partition goes to the end of the next request, because brokers fill a response in request order.
        self._partitions[partition.name] = self._partitions.pop(partition.name)
        end = data.last_stable_offset if self._is_committed else data.high_watermark
        partition.queued += 1
        self._ready.append((partition, Chunk(partition.name, start, partition.position, end, batches, len(records))))
        self._arrived.notify()

    def _follow(self, partition: _Partition, replica: int) -> None:
        """Fetch from a follower in place of the leader, because the leader named it as nearer."""
        partition.replica = replica
        partition.replica_until = trio.current_time() + self._client.config.seconds("metadata.max.age.ms")
        if replica not in self._fetchers:
            self._begin_fetcher(replica)
        self._changed.notify()

    def _take_error(self, partition: _Partition, code: int) -> None:
        was_replica, partition.replica = partition.replica >= 0, -1
        if code != ErrorCode.OFFSET_OUT_OF_RANGE:
            if not was_replica:
                partition.leader = -1
            self._note_failure(partition, kafka_error(code, str(partition.name)))
        elif was_replica:
            self._changed.notify()
        elif self._reset is None:
            detail = f"{partition.name} has no offset {partition.position}, and auto.offset.reset=none"
            self._fail(kafka_error(code, detail))
        else:
            partition.position = self._reset
            self._stale.set()


@asynccontextmanager
async def open_consumer(client: Client, *, reset: str | None = None) -> AsyncIterator[Consumer]:
    """Yield a consumer, which ends with the block."""
    async with background() as nursery:
        yield Consumer(client, nursery, reset=reset)
