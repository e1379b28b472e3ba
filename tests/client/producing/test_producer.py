"""A producer appends each record once and in order, for all answers of its brokers."""

import contextlib
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from ottla.client.cluster import open_client
from ottla.client.config import ClientConfig
from ottla.client.errors import OperationTimedOutError
from ottla.client.producing.batches import Delivery
from ottla.client.producing.producer import Producer, open_producer
from ottla.client.producing.settings import ProducerSettings
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.records.batch import iter_records, parse_header
from ottla.wire.schema import Request, Response
from tests.client.scripted import HANG_UP, ScriptedBroker, listening, metadata

PATIENCE_S = 120
TOPIC = "orders"
HASTY = {"retry.backoff.ms": "0", "retry.backoff.max.ms": "0", "linger.ms": "0"}
Mishap = ErrorCode | str
LOST = "the response is lost"
FAILURES: tuple[Mishap, ...] = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    LOST,
)


class Log:
    """A partition's log on a broker that checks sequences like Kafka; `mishap` is called for each batch."""

    def __init__(self, mishap: Callable[[], Mishap | None]) -> None:
        self.values: list[bytes | None] = []
        self.batches: list[int] = []
        self._mishap = mishap
        self._expected: dict[tuple[int, int], int] = {}

    def append(self, batch: bytes) -> PartitionProduceResponse | None:
        """Return the response to a batch; None if it is lost, with the batch appended or not."""
        mishap = self._mishap()
        if isinstance(mishap, ErrorCode):
            return self.answer(mishap)
        if mishap == LOST and random.random() < 0.5:
            return None
        header = parse_header(batch)
        identity = (header.producer_id, header.producer_epoch)
        if header.producer_id >= 0:
            expected = self._expected.get(identity, 0)
            if header.base_sequence > expected:
                return self.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            if header.base_sequence < expected:
                return self.answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
            self._expected[identity] = expected + header.record_count
        offset = len(self.values)
        self.values += [record.value for record in iter_records(batch)]
        self.batches.append(header.record_count)
        return None if mishap == LOST else self.answer(ErrorCode.NONE, offset)

    def answer(self, code: ErrorCode, offset: int = -1) -> PartitionProduceResponse:
        return PartitionProduceResponse(index=0, error_code=code, base_offset=offset)


class Cluster:
    """One broker with one partition."""

    def __init__(self, mishap: Callable[[], Mishap | None] = lambda: None) -> None:
        self.log = Log(mishap)
        self.topic_error = 0
        self.gate = trio.Event()
        self.gate.set()
        self.broker = ScriptedBroker(self._answer)
        self.broker.versions |= {ApiKey.PRODUCE: (3, 9), ApiKey.INIT_PRODUCER_ID: (0, 4)}

    async def _answer(self, header: RequestHeader, request: Request) -> Response | None:
        if isinstance(request, MetadataRequest):
            return metadata([self.broker], [1], topic=TOPIC, error_code=self.topic_error)
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(error_code=0, producer_id=7, producer_epoch=0)
        assert isinstance(request, ProduceRequest)
        await self.gate.wait()
        data = request.topic_data[0].partition_data[0].records
        assert isinstance(data, memoryview | bytes)
        answer = self.log.append(bytes(data))
        if answer is None:
            return HANG_UP
        return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[answer])])

    @asynccontextmanager
    async def producer(self, **properties: str) -> AsyncIterator[Producer]:
        more = {key.replace("_", "."): value for key, value in properties.items()}
        with trio.fail_after(PATIENCE_S):
            async with listening(self.broker):
                config = ClientConfig({**HASTY, "bootstrap.servers": self.broker.bootstrap, **more})
                async with open_client(config) as client, open_producer(client) as producer:
                    yield producer


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def send_all(producer: Producer, values: list[bytes], found: list[Delivery]) -> None:
    for value in values:
        await producer.send(TOPIC, value, on_completion=found.append)
        if random.random() < 0.3:
            await trio.lowlevel.checkpoint()


@pytest.mark.trials(few=10, soak=500)
def test_each_record_is_appended_once_and_in_order_after_any_failure(trials: int) -> None:
    async def trial() -> None:
        left = random.randrange(12)

        def mishap() -> Mishap | None:
            nonlocal left
            if left and random.random() < 0.4:
                left -= 1
                # A broker without the producer's state does not know its epoch, either.
                return random.choice([each for each in FAILURES if each != ErrorCode.UNKNOWN_PRODUCER_ID])
            return None

        cluster, found, values = Cluster(mishap), list[Delivery](), numbers(60)
        async with cluster.producer(batch_size=str(random.choice([61, 110, 400]))) as producer:
            await send_all(producer, values, found)
        assert cluster.log.values == values
        assert [each.error for each in found] == [None] * len(values)
        known = {each.offset for each in found if each.offset >= 0}
        assert known <= set(range(len(values)))

    for _ in range(trials):
        trio.run(trial)


@pytest.mark.trials(few=5, soak=200)
def test_without_idempotence_the_order_is_kept_too(trials: int) -> None:
    async def trial() -> None:
        cluster = Cluster(lambda: ErrorCode.NOT_LEADER_OR_FOLLOWER if random.random() < 0.3 else None)
        values = numbers(40)
        async with cluster.producer(acks="1", batch_size="61") as producer:
            await send_all(producer, values, [])
        assert cluster.log.values == values
        assert cluster.broker.asked(InitProducerIdRequest) == 0

    for _ in range(trials):
        trio.run(trial)


async def test_a_producer_that_the_broker_has_forgotten_begins_a_new_epoch() -> None:
    codes = iter([None, ErrorCode.UNKNOWN_PRODUCER_ID])
    cluster = Cluster(lambda: next(codes, None))
    async with cluster.producer() as producer:
        for value in numbers(3):
            await producer.deliver(TOPIC, value)
    assert cluster.log.values == numbers(3)
    assert set(cluster.log._expected) == {(7, 0), (7, 1)}


async def test_a_delivery_has_the_records_offset_and_timestamp() -> None:
    cluster = Cluster()
    async with cluster.producer() as producer:
        await producer.deliver(TOPIC, b"first")
        assert await producer.deliver(TOPIC, b"second", timestamp=77) == Delivery(TOPIC, 0, 1, 77)


async def test_a_batch_that_is_too_large_is_sent_in_halves() -> None:
    codes = iter([ErrorCode.MESSAGE_TOO_LARGE] * 2)
    cluster, found, values = Cluster(lambda: next(codes, None)), list[Delivery](), numbers(8)
    cluster.gate = trio.Event()
    async with cluster.producer(linger_ms="60000") as producer:
        await send_all(producer, values, found)
        cluster.gate.set()
    assert cluster.log.values == values
    assert [each.offset for each in found] == list(range(8))
    assert cluster.log.batches == [2, 2, 4]


async def test_an_error_that_does_not_pass_fails_only_its_record() -> None:
    codes = iter([ErrorCode.INVALID_RECORD])
    cluster, found = Cluster(lambda: next(codes, None)), list[Delivery]()
    async with cluster.producer(batch_size="61") as producer:
        await send_all(producer, numbers(4), found)
    error = found[0].error
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.INVALID_RECORD
    assert [each.error for each in found[1:]] == [None] * 3
    assert cluster.log.values == numbers(4)[1:]


async def test_sent_retried_and_failed_records_are_counted() -> None:
    codes = iter([None, ErrorCode.NOT_ENOUGH_REPLICAS, None, ErrorCode.INVALID_RECORD])
    cluster = Cluster(lambda: next(codes, None))
    async with cluster.producer() as producer:
        room = producer.free_memory
        for value in numbers(3):
            with contextlib.suppress(KafkaError):
                await producer.deliver(TOPIC, value)
        counts = producer.counts
        assert (counts.records, counts.batches, counts.requests, counts.responses) == (4, 4, 4, 4)
        assert (counts.retried, counts.failed) == (1, 1)
        assert counts.largest_batch <= counts.batch_bytes <= 4 * counts.largest_batch
        assert 0 < counts.longest <= counts.latency
        assert (producer.free_memory, producer.requests_in_flight) == (room, 0)


async def test_records_in_flight_take_memory() -> None:
    cluster = Cluster()
    cluster.gate = trio.Event()
    async with cluster.producer() as producer:
        room = producer.free_memory
        await producer.send(TOPIC, b"x")
        while not cluster.broker.asked(ProduceRequest):
            await trio.sleep(0)
        assert producer.free_memory < room
        assert producer.requests_in_flight == 1
        cluster.gate.set()


async def test_a_record_fails_after_the_delivery_timeout() -> None:
    cluster = Cluster(lambda: ErrorCode.NOT_LEADER_OR_FOLLOWER)
    async with cluster.producer(delivery_timeout_ms="20", retry_backoff_ms="1") as producer:
        with pytest.raises((OperationTimedOutError, KafkaError)):
            await producer.deliver(TOPIC, b"late")


async def test_with_acks_0_a_delivery_has_no_offset() -> None:
    cluster = Cluster()
    async with cluster.producer(acks="0") as producer:
        found = await producer.deliver(TOPIC, b"x", timestamp=1)
    assert found == Delivery(TOPIC, 0, -1, 1)
    assert cluster.broker.asked(InitProducerIdRequest) == 0


async def test_sending_waits_for_memory() -> None:
    cluster = Cluster()
    cluster.gate = trio.Event()
    sent = 0
    async with cluster.producer(buffer_memory="1000", batch_size="100") as producer, trio.open_nursery() as nursery:

        async def send() -> None:
            nonlocal sent
            for value in numbers(100):
                await producer.send(TOPIC, value)
                sent += 1

        nursery.start_soon(send)
        while not cluster.broker.asked(ProduceRequest):
            await trio.sleep(0)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert sent < 60
        cluster.gate.set()
    assert cluster.log.values == numbers(100)


async def test_a_record_that_fits_no_request_is_refused() -> None:
    async with Cluster().producer(max_request_size="1000") as producer:
        with pytest.raises(KafkaError, match=r"The message is 1\d\d\d bytes when serialized"):
            await producer.send(TOPIC, bytes(1000))


async def test_sending_waits_for_a_missing_topic_up_to_max_block_ms() -> None:
    cluster = Cluster()
    cluster.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    async with cluster.producer(max_block_ms="30", retry_backoff_ms="1") as producer:
        with pytest.raises(OperationTimedOutError, match="Topic orders not present in metadata after 30 ms"):
            await producer.send(TOPIC, b"x")


async def test_the_error_for_a_missing_partition_names_it() -> None:
    async with Cluster().producer(max_block_ms="30", retry_backoff_ms="1") as producer:
        with pytest.raises(OperationTimedOutError, match="Partition 9 of topic orders with partition count 1"):
            await producer.send(TOPIC, b"x", partition=9)


async def test_an_unauthorized_topic_is_refused_at_once() -> None:
    cluster = Cluster()
    cluster.topic_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with cluster.producer() as producer:
        with pytest.raises(KafkaError, match="orders"):
            await producer.send(TOPIC, b"x")


@pytest.mark.parametrize(
    "properties",
    [
        {"enable.idempotence": "true", "acks": "1"},
        {"enable.idempotence": "true", "retries": "0"},
        {"enable.idempotence": "true", "max.in.flight.requests.per.connection": "6"},
        {"transactional.id": "x"},
    ],
)
def test_properties_that_contradict_each_other_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        ProducerSettings(ClientConfig(properties))


def test_idempotence_is_off_if_other_properties_forbid_it() -> None:
    assert ProducerSettings(ClientConfig({})).is_idempotent
    assert not ProducerSettings(ClientConfig({"acks": "1"})).is_idempotent
