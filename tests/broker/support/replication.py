"""Brokers that replicate a topic, without a network but over its bytes, for tests."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.throttle import ReplicationQuota
from ottla.broker.handlers import fetch
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.partition import Partition
from ottla.broker.replication.fetchers import ReplicaFetchers
from ottla.log.segments.open_files import FileRegion
from ottla.wire.codec import Chunk, decode_request, decode_response, encode_request, encode_response
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.records.batch import iter_records, validate_produced
from ottla.wire.schema import Request, Response
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch, context
from tests.log.building import checked


class Way:
    """A connection to a broker, over the bytes that would travel."""

    def __init__(self, cluster: "Cluster", to: int) -> None:
        self.cluster = cluster
        self.to = to
        self.is_closed = False

    async def ask(self, request: Request, version: int) -> Response:
        assert not self.is_closed
        await trio.lowlevel.checkpoint()
        _, arrived = decode_request(memoryview(encode_request(version, 1, "test", request))[4:])
        self.cluster.asked.append((self.to, version, arrived))
        if self.to in self.cluster.down:
            raise ConnectionError("down")
        answer = self.cluster.handle(arrived, version, self.to)
        if isinstance(answer, Deferred):
            answer = await answered(answer)
        if self.to in self.cluster.down:
            raise ConnectionError("went down")
        data = joined(encode_response(1, answer, version))
        _, response = decode_response(memoryview(data)[4:], type(request), version)
        await self.cluster.on_the_way(request, response)
        return response

    async def close(self) -> None:
        self.is_closed = True


def joined(chunks: Sequence[Chunk]) -> bytes:
    found = b""
    for chunk in chunks:
        if isinstance(chunk, FileRegion):
            found += chunk.read()
        else:
            assert isinstance(chunk, bytes | bytearray | memoryview)
            found += chunk
    return found


async def answered(reply: Deferred[Any]) -> Any:
    done = trio.Event()
    found: list[Any] = []

    def answer(response: Any) -> None:
        found.append(response)
        done.set()

    reply.then(answer)
    await done.wait()
    return found[0]


async def nothing(request: Request, response: Response) -> None:
    """As it was sent, so it arrives."""


class Cluster:
    """Brokers that hold replicas of one topic."""

    def __init__(self, houses: Sequence[House], version: int, **config: str) -> None:
        self.houses = houses
        self.asked: list[tuple[int, int, Request]] = []
        self.down: set[int] = set()
        self.ways: list[Way] = []
        self.on_the_way: Callable[[Request, Response], Any] = nothing
        named = BrokerConfig({name.replace("_", "."): value for name, value in config.items()})
        self.follower_quotas = [ReplicationQuota() for _ in houses]
        self.fetchers = [
            ReplicaFetchers(
                house.parts,
                self.way,
                named,
                quota=quota,
                fetch_version=version,
                list_offsets_version=6,
            )
            for house, quota in zip(houses, self.follower_quotas, strict=True)
        ]
        for house, fetchers in zip(houses, self.fetchers, strict=True):
            events = house.parts.events
            for event in (events.leading, events.following, events.log_replaced):
                event.subscribe(fetchers.follow)
            events.stopped.subscribe(fetchers.unfollow)

    def way(self, to: int) -> Way:
        self.ways.append(Way(self, to))
        return self.ways[-1]

    def handle(self, request: Request, version: int, to: int) -> Any:
        house = self.houses[to]
        if isinstance(request, FetchRequest):
            return fetch.handle(
                request,
                context(1, version),
                replicas=house.replicas,
                sessions=house.sessions,
                metadata=house.metadata,
                clock=house.clock,
                start_soon=house.start_soon,
                fetch_max_bytes=1 << 26,
            )
        assert isinstance(request, ListOffsetsRequest)
        return house.list_offsets(request, version)

    async def lead(
        self, leader: int, epoch: int, *, brokers: Sequence[int] | None = None, isr: Sequence[int] | None = None
    ) -> None:
        """As the controller says it to some brokers, else to all."""
        everybody = range(len(self.houses))
        for broker in everybody if brokers is None else brokers:
            house = self.houses[broker]
            request = house.request(
                leader=leader, epoch=epoch, replicas=list(everybody), isr=list(everybody if isr is None else isr)
            )
            response = await answered(house.replicas.become_leader_or_follower(request))
            assert [error.error_code for topic in response.topics for error in topic.partition_errors] == [0]

    def partition(self, broker: int) -> Partition:
        return self.houses[broker].replicas.partition(TOPIC, 0)

    def append(self, broker: int, *values: bytes) -> None:
        partition = self.partition(broker)
        for value in values:
            produced = validate_produced(batch(value), api_version=9, rules=partition.rules, now_ms=NOW_MS)
            self.houses[broker].replicas.append(partition, produced, 1, NOW_MS)

    def values(self, broker: int) -> list[bytes]:
        return [value for _, value in self.records(broker)]

    def records(self, broker: int) -> list[tuple[int, bytes]]:
        log = checked(self.partition(broker).log)
        found, offset = [], log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, 1 << 20, log.log_end_offset, True)
            for record in iter_records(memoryview(data.read() if isinstance(data, FileRegion) else data)):
                if record.offset >= offset:
                    found.append((record.offset, bytes(record.value or b"")))
            offset = found[-1][0] + 1
        return found

    def files(self, broker: int) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.houses[broker].path.glob(f"{TOPIC}-0/*.log")))

    def fetches(self) -> list[FetchRequest]:
        return [request for _, _, request in self.asked if isinstance(request, FetchRequest)]

    async def tick(self) -> None:
        """Let the time of day go on."""
        while True:
            await trio.sleep(0.25)
            for house in self.houses:
                house.now_ms += 250

    async def settle(self) -> None:
        """Until all followers wait for more, and have been told of the high watermark."""
        await trio.sleep(5)


@asynccontextmanager
async def cluster(
    path: Path, brokers: int = 2, version: int = 17, more: Sequence[Path] = (), **config: str
) -> AsyncIterator[Cluster]:
    """`more`: a second directory for each broker, if there is any."""
    houses = [House(path / str(broker), more=more[broker : broker + 1], broker_id=broker) for broker in range(brokers)]
    made = Cluster(houses, version, **config)
    async with trio.open_nursery() as nursery:
        for house in houses:
            house.starts = nursery.start_soon
            nursery.start_soon(house.clock.run)
        nursery.start_soon(made.tick)
        yield made
        nursery.cancel_scope.cancel()
    for house in houses:
        house.close()
