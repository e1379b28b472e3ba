"""Bad input that must not stall other clients. compat_tests compares the responses with Apache Kafka."""

import time
from collections.abc import Iterator
from typing import cast

import pytest

from ottla import Broker
from ottla.wire.codec import encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.records.compression import Compression
from tests.support.raw import RawClient

pytestmark = pytest.mark.slow
# Recent, because retention may delete records older than a week.
NOW = time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4])
@pytest.mark.measured
def test_a_decompression_bomb_stalls_no_client(bootstrap: str, codec: Compression) -> None:
    with RawClient(bootstrap, 120) as bomber, RawClient(bootstrap) as canary:
        name = f"bombed-{codec.name}"
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
        created = cast(CreateTopicsResponse, canary.ask(CreateTopicsRequest(topics=[topic]), 5))
        assert created.topics[0].error_code == 0
        bomb = build_batch([NewRecord(value=b"\x00" * 200_000_000, timestamp=NOW)], compression=codec)
        data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=bytes(bomb))])
        bomber.send(encode_request(9, 1, "bomber", ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])))
        worst = 0.0
        for _ in range(50):
            began = time.monotonic()
            canary.ask(ApiVersionsRequest(), 0)
            worst = max(worst, time.monotonic() - began)
        assert bomber.frame() is not None
        assert worst < 0.25
