"""Recompression keeps a producer's order and stalls no client of a real broker."""

import random
import time
from collections.abc import Iterator
from typing import cast

import pytest

from ottla import Broker
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import Compression, NewRecord, build_batch, iter_batches, iter_records
from tests.support.raw import RawClient
from tests.support.watch import Watch

pytestmark = pytest.mark.slow

PRODUCE, FETCH = 9, 12
TRIES = 3
BOUND_SECONDS = 0.1


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def create(client: RawClient, name: str, **config: str) -> None:
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=configs)
    client.ask(CreateTopicsRequest(topics=[topic]), 5)


def produce(topic: str, records: bytes, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def words(size: int) -> bytes:
    """Return bytes that compress like prose."""
    chance = random.Random(1)
    known = [chance.randbytes(4).hex() for _ in range(1000)]
    return " ".join(chance.choices(known, k=size // 9)).encode()


@pytest.mark.parametrize("acks", [1, -1])
def test_pipelined_batches_large_and_small_are_appended_in_their_order(broker: Broker, acks: int) -> None:
    sizes = [300_000, 10, 200_000, 9000, 10, 10, 400_000, 10] * 3
    values = [words(size) for size in sizes]
    with RawClient(broker.bootstrap) as client:
        create(client, "t", compression_type="gzip", compression_gzip_level="9")
        frames = []
        for number, value in enumerate(values):
            batch = build_batch([NewRecord(None, value, 5)], producer_id=1, producer_epoch=0, base_sequence=number)
            frames.append(encode_request(PRODUCE, number, "raw", produce("t", bytes(batch), acks)))
        client.send(b"".join(frames))
        for number in range(len(values)):
            reply = client.frame()
            assert reply is not None
            correlation_id, response = decode_response(memoryview(reply), ProduceRequest, PRODUCE)
            (answer,) = cast(ProduceResponse, response).responses[0].partition_responses
            assert (correlation_id, answer.error_code, answer.base_offset) == (number, 0, number)
        position = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
        topics = [FetchTopic(topic="t", partitions=[position])]
        asked = FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics, forgotten_topics_data=())
        (data,) = cast(FetchResponse, client.ask(asked, FETCH)).responses[0].partitions
    batches = list(iter_batches(memoryview(cast(bytes, data.records))))
    assert {header.compression for header, _ in batches} == {Compression.GZIP}
    assert [record.value for _, batch in batches for record in iter_records(batch)] == values


@pytest.mark.measured
def test_no_client_waits_for_a_long_recompression(broker: Broker) -> None:
    stalls = []
    with RawClient(broker.bootstrap, 120) as producer:
        create(producer, "slow", compression_type="zstd", compression_zstd_level="22", max_message_bytes="4000000")
        records = bytes(build_batch([NewRecord(None, words(3_000_000), 5)]))
        for _ in range(TRIES):
            with Watch(broker.bootstrap, broker.pid) as watch:
                began = time.perf_counter()
                producer.ask(produce("slow", records), PRODUCE)
                # The recompression did take long.
                assert time.perf_counter() - began > 2 * BOUND_SECONDS
            stalls.append(watch.longest_stall)
    assert min(stalls) < BOUND_SECONDS, stalls
