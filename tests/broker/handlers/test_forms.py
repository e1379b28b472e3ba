"""Produce and Fetch have a short form for most requests and long ones for the rest: all give the same answers.

Two brokers get the same requests, drawn at random. One takes the short form wherever it may. The other is kept from it:
by naming the one partition of a Produce twice, of which Kafka takes the last, and by an authorizer that allows a Fetch
everything. A third form of Fetch reads partitions in parts; it never waits.
"""

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import Access, Operation, ResourceType
from ottla.log.segments.open_files import FileRegion
from ottla.wire.codec import decode_large_request, encode_request, encode_response
from ottla.wire.errors import DecodeError, KafkaError
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import Compression
from ottla.wire.types import ZERO_UUID
from tests.broker.handlers import fetching, producing
from tests.broker.handlers.producing import Records
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch, topic_id

REPLICATED = "replicated"
INTERNAL = "__consumer_offsets"
UNKNOWN = "unknown"
MAX_BATCH = 2000
REQUESTS = 12


class Everything:
    """Allows everything."""

    def authorize(self, context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return True

    def authorize_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        return True


def house_in(folder: Path) -> House:
    house = House(folder, max_message_bytes=str(MAX_BATCH))
    house.configs["recompressed"] = {"compression.type": "zstd"}
    house.lead(partitions=[0, 1])
    house.lead("recompressed")
    house.lead(REPLICATED, replicas=[0, 1], isr=[0, 1])
    house.lead(INTERNAL)
    return house


def read(region: object) -> bytes:
    assert isinstance(region, FileRegion)
    return region.read()


def outcome(answer: object, version: int) -> object:
    """Return an answer in a form that can be compared. A Deferred that is pending counts as such."""
    if isinstance(answer, Deferred):
        if not answer.done:
            return "waits"
        try:
            answer = answer.response
        except CloseConnection:
            return "closes"
    if isinstance(answer, ProduceResponse):
        return answer.encode(version)
    if isinstance(answer, FetchResponse):
        chunks = encode_response(1, answer, version)
        return b"".join(
            bytes(chunk) if isinstance(chunk, bytes | bytearray | memoryview) else read(chunk) for chunk in chunks
        )
    assert answer is None
    return answer


# Produce


class Drawn(NamedTuple):
    """A Produce of one partition."""

    topic: str
    partition: int
    records: Records
    acks: int
    version: int
    client_id: str

    def request(self, times: int) -> ProduceRequest:
        # An append writes offsets into the batch.
        records = None if self.records is None else memoryview(bytearray(self.records))
        data = [PartitionProduceData(index=self.partition, records=records) for _ in range(times)]
        topics = [TopicProduceData(name=self.topic, partition_data=data)]
        return ProduceRequest(transactional_id=None, acks=self.acks, timeout_ms=1000, topic_data=topics)


def drawn_records(chance: random.Random) -> Records:
    values = [chance.randbytes(chance.choice([0, 10, 300])) for _ in range(chance.randint(1, 4))]
    timestamp = NOW_MS + chance.choice([0, 0, 0, 0, -10, 10**10])
    compression = chance.choice([Compression.NONE, Compression.NONE, Compression.GZIP, Compression.ZSTD])
    if chance.random() < 0.4:
        producer = {"producer_id": 7, "producer_epoch": chance.choice([0, 0, 0, 1])}
        sequence = chance.choice([0, 0, 1, 2, 3, 5])
        records = batch(*values, timestamp=timestamp, compression=compression, base_sequence=sequence, **producer)
    else:
        records = batch(*values, timestamp=timestamp, compression=compression)
    kind = chance.random()
    if kind < 0.6:
        return records
    if kind < 0.7:
        return memoryview(bytes(records) * 2)
    if kind < 0.75:
        return None
    if kind < 0.8:
        return memoryview(bytes(records)[: chance.randint(0, len(records))])
    at = chance.randrange(len(records))
    return producing.damaged(records, at, chance.randbytes(1), keep_crc=chance.random() < 0.5)


def drawn_produce(chance: random.Random) -> Drawn:
    return Drawn(
        topic=chance.choice([TOPIC, TOPIC, TOPIC, REPLICATED, REPLICATED, "recompressed", INTERNAL, UNKNOWN]),
        partition=chance.choice([0, 0, 0, 0, 1, 9, -1]),
        records=drawn_records(chance),
        acks=chance.choice([-1, -1, -1, 0, 1, 1, 2]),
        version=chance.randint(3, 11),
        client_id=chance.choice(["test", "test", "__admin_client"]),
    )


def produced(house: House, drawn: Drawn, times: int) -> object:
    try:
        return producing.send(house, drawn.request(times), drawn.version, drawn.client_id)
    except (CloseConnection, DecodeError, KafkaError) as error:
        return error


def on_disk(house: House) -> dict[str, bytes]:
    return {str(file.relative_to(house.path)): file.read_bytes() for file in sorted(house.path.rglob("*.log"))}


@pytest.mark.trials(few=10, soak=1000)
async def test_the_forms_of_produce_answer_and_append_alike(trials: int, seed: int, tmp_path: Path) -> None:
    for trial in range(trials):
        chance = random.Random(f"produce {seed} {trial}")
        short, long = house_in(tmp_path / f"{trial}-short"), house_in(tmp_path / f"{trial}-long")
        waiting: list[tuple[Drawn, object, object]] = []
        for _ in range(REQUESTS):
            drawn = drawn_produce(chance)
            one, other = produced(short, drawn, 1), produced(long, drawn, 2)
            if isinstance(one, Exception) or isinstance(other, Exception):
                assert repr(one) == repr(other), (seed, trial, drawn)
                continue
            waiting.append((drawn, one, other))
            if chance.random() < 0.4:
                end = chance.randint(0, short.replicas.partition(REPLICATED, 0).log.log_end_offset)
                for house in (short, long):
                    follow(house, end)
            for each, first, second in waiting:
                assert outcome(first, each.version) == outcome(second, each.version), (seed, trial, each)
        assert on_disk(short) == on_disk(long), (seed, trial)
        short.close()
        long.close()


def follow(house: House, offset: int) -> None:
    """Let the follower of REPLICATED have all records below an offset."""
    asked = fetching.request(fetching.topic(REPLICATED, fetching.position(0, offset)), replica_id=1, max_wait_ms=0)
    fetching.send(house, asked, fetching.NAMES)


# Fetch


def drawn_fetch(chance: random.Random) -> tuple[FetchRequest, int]:
    version = chance.choice([4, 9, 10, 11, 12, 13, 15, 17])
    name = chance.choice([TOPIC, TOPIC, REPLICATED, UNKNOWN])
    position = fetching.position(
        chance.choice([0, 0, 0, 1, 9]),
        chance.choice([0, 0, 1, 2, 3, 5, 50, -1]),
        max_bytes=chance.choice([1 << 20, 1 << 20, 100, 1, 0]),
        epoch=chance.choice([-1, -1, -1, 0, 1]),
        last_epoch=chance.choice([-1, -1, -1, 0, 1]),
    )
    by_id = chance.choice([topic_id(name), topic_id(name), topic_id(name), ZERO_UUID, topic_id("another")])
    asked = fetching.request(
        fetching.topic(name, position, by_id=by_id),
        min_bytes=chance.choice([0, 1, 1, 1, 100, 10_000]),
        max_bytes=chance.choice([50 << 20, 50 << 20, 100, 1, 0]),
        max_wait_ms=chance.choice([0, 500]),
        isolation_level=chance.choice([0, 1]),
        replica_id=chance.choice([-1, -1, -1, 1]),
    )
    return asked, version


@pytest.mark.trials(few=10, soak=1000)
async def test_the_forms_of_fetch_answer_alike(trials: int, seed: int, tmp_path: Path) -> None:
    for trial in range(trials):
        chance = random.Random(f"fetch {seed} {trial}")
        short, long, parts = houses = [house_in(tmp_path / f"{trial}-{name}") for name in ("short", "long", "parts")]
        waiting: list[tuple[FetchRequest, int, object, object]] = []
        for _ in range(REQUESTS):
            if chance.random() < 0.4:
                name, values = chance.choice([TOPIC, REPLICATED]), [chance.randbytes(50)] * chance.randint(1, 5)
                for house in houses:
                    fetching.append(house, *values, name=name)
            asked, version = drawn_fetch(chance)
            decoded = FetchRequest.decode(asked.encode(version), version)
            pair = fetching.send(short, decoded, version), fetching.send(long, decoded, version, Access(Everything()))
            waiting.append((asked, version, *pair))
            for each, at, first, second in waiting:
                assert outcome(first, at) == outcome(second, at), (seed, trial, each)
            in_parts = await fetched_in_parts(parts, asked, version)
            if isinstance(pair[0], FetchResponse):
                assert in_parts == outcome(pair[0], version), (seed, trial, asked)
        for house in houses:
            house.close()


async def fetched_in_parts(house: House, asked: FetchRequest, version: int) -> object:
    """Return the answer that a request gets which is read in parts."""
    _, large = decode_large_request(memoryview(encode_request(version, 1, None, asked))[4:])
    assert isinstance(large, FetchRequest)
    answer = fetching.send(house, large, version, Access(Everything()))
    await house.run_tasks()
    return outcome(answer, version)
