"""What a broker must answer to bad input: the same as Apache Kafka 3.9, over a real socket."""

import itertools
import struct
from collections.abc import Iterator
from typing import cast

import crc32c
import pytest

from ottla import Broker
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import encode_request
from ottla.wire.compression import Compression
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.record_batch import NewRecord, build_batch
from tests.raw import RawClient

pytestmark = pytest.mark.slow
NOW = 1_700_000_000_000
_names = itertools.count()


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client
    with RawClient(bootstrap) as canary:
        assert canary.ask(ApiVersionsRequest(), 0)


def create(client: RawClient, name: str | None = None, **config: str) -> str:
    """Create a topic of one partition; return its name."""
    name = name or f"topic-{next(_names)}"
    configs = [CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in config.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=configs)
    response = cast(CreateTopicsResponse, client.ask(CreateTopicsRequest(topics=[topic]), 5))
    assert response.topics[0].error_code == 0, response
    return name


def produce_request(
    topic: str, *batches: bytes | bytearray, partition: int = 0, acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=b"".join(batches))
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        transactional_id=transactional_id,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def produce(client: RawClient, topic: str, *batches: bytes | bytearray, version: int = 9, **fields: object) -> int:
    """Produce and return the partition's error code."""
    request = produce_request(topic, *batches, **fields)  # type: ignore[arg-type]
    response = cast(ProduceResponse, client.ask(request, version))
    return response.responses[0].partition_responses[0].error_code


def fetch(
    client: RawClient, topic: str, offset: int = 0, version: int = 12, session: tuple[int, int] = (0, -1)
) -> FetchResponse:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
        session_id=session[0],
        session_epoch=session[1],
    )
    return cast(FetchResponse, client.ask(request, version))


def batch(*values: bytes | None, **fields: object) -> bytearray:
    records = [NewRecord(key=b"k", value=v, timestamp=NOW) for v in values or (b"v",)]
    return build_batch(records, **fields)  # type: ignore[arg-type]


def with_crc(changed: bytearray) -> bytes:
    struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


def patched(position: int, form: str, value: int, base: bytearray | None = None) -> bytes:
    """Return a batch in which one field says something else, under a CRC that is right."""
    changed = batch() if base is None else base
    struct.pack_into(form, changed, position, value)
    return with_crc(changed)


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 104857601, 2**31 - 1])
def test_a_frame_of_an_impossible_size_closes_the_connection(client: RawClient, size: int) -> None:
    client.send(struct.pack(">i", size))
    assert client.is_closed()


def test_half_a_frame_is_waited_for_and_then_answered(client: RawClient, bootstrap: str) -> None:
    frame = encode_request(0, 9, "halves", ApiVersionsRequest())
    client.send(frame[:7])
    with RawClient(bootstrap) as other:
        assert other.ask(ApiVersionsRequest(), 0)
    client.send(frame[7:])
    reply = client.frame()
    assert reply is not None
    assert reply[:4] == struct.pack(">i", 9)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x02\x00\x01" + b"\x00" * 60]
)
def test_another_protocol_on_this_port_is_shown_the_door(client: RawClient, data: bytes) -> None:
    client.send(data)
    assert client.is_closed()


@pytest.mark.parametrize(
    ("key", "version"), [(999, 0), (-1, 0), (3, 99), (3, -1), (1, 3), (1, 18), (4, 7), (0, 0), (0, 1), (0, 2)]
)
def test_what_is_not_spoken_closes_the_connection(client: RawClient, key: int, version: int) -> None:
    client.send_frame(struct.pack(">hhih", key, version, 1, -1) + b"\x00" * 40)
    assert client.is_closed()


@pytest.mark.parametrize("version", [5, 77, 32767])
def test_api_versions_of_an_unknown_version_names_its_own_range(client: RawClient, version: int) -> None:
    client.send_frame(struct.pack(">hhih", 18, version, 5, -1) + b"\x00\x01\x01\x00")
    reply = client.frame()
    assert reply is not None
    response = ApiVersionsResponse.decode(reply[4:], 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [(ApiKey.API_VERSIONS, 0, 4)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\x00\x00",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x02\x00\x01a",
        b"\x00\x00\x00\x01\x7f\xffa",
        b"\xff\xff\xff\xfe",
    ],
)
def test_a_body_that_is_not_its_schema_closes_the_connection(client: RawClient, body: bytes) -> None:
    client.send_frame(struct.pack(">hhih", 3, 1, 1, -1) + body)
    assert client.is_closed()


@pytest.mark.parametrize("body", [b"\xff\xff\xff\xff\xff\xff\x00", b"\x01\x01\x01\x00\xff\xff\xff\xff\x0f", b"\x02"])
def test_a_flexible_body_that_is_not_its_schema_closes_the_connection(client: RawClient, body: bytes) -> None:
    client.send_frame(struct.pack(">hhih", 3, 9, 1, -1) + b"\x00" + body)
    assert client.is_closed()


def test_a_client_id_may_be_any_bytes(client: RawClient) -> None:
    client.send_frame(struct.pack(">hhih", 18, 0, 5, 3) + b"\xff\xfe\x80")
    assert client.frame() is not None


def test_a_topic_whose_name_is_not_utf8_is_an_invalid_topic(client: RawClient) -> None:
    client.send_frame(struct.pack(">hhih", 3, 4, 5, -1) + struct.pack(">ih", 1, 2) + b"\xff\xfe" + b"\x01")
    reply = client.frame()
    assert reply is not None
    response = MetadataResponse.decode(reply[4:], 4)
    assert response.topics[0].error_code in (17, 3)


def test_bytes_behind_a_whole_body_are_ignored(client: RawClient) -> None:
    client.send_frame(struct.pack(">hhih", 18, 0, 5, -1) + b"and more")
    assert client.frame() is not None


def test_an_owed_reply_leaves_before_a_bad_frame_closes_the_connection(client: RawClient) -> None:
    good = encode_request(0, 9, "owed", ApiVersionsRequest())
    client.send(good + struct.pack(">i", -5))
    assert client.frame() is not None
    assert client.is_closed()


BAD_BATCHES = {
    "crc": (bytes(batch()[:17] + b"\x00\x00\x00\x00" + batch()[21:]), 2),
    "magic 5": (patched(16, ">b", 5), 2),
    "length zero": (patched(8, ">i", 0), 2),
    "length negative": (patched(8, ">i", -1), 2),
    "count too high": (patched(57, ">i", 2), 87),
    "count negative": (patched(57, ">i", -1), 87),
    "count huge": (patched(57, ">i", 2**31 - 1), 87),
    "last offset delta": (patched(23, ">i", 7), 87),
    "record length beyond the batch": (patched(61, ">b", 0x7E), 87),
    "record length negative": (patched(61, ">b", 1), 87),
    "two batches": (bytes(batch() + batch()), 87),
    "truncated": (bytes(batch()[:-3]), 87),
    "header without records": (with_crc(batch()[:61]), 87),
    "no records": (b"", 87),
    "magic 0": (patched(16, ">b", 0), 87),
    "magic 1": (patched(16, ">b", 1), 87),
    "unknown codec": (patched(21, ">h", 7), 87),
    "junk behind gzip": (patched(21, ">h", 1), 87),
    "junk behind snappy": (patched(21, ">h", 2), 87),
    "junk behind lz4": (patched(21, ">h", 3), 87),
    "junk behind zstd": (patched(21, ">h", 4), 87),
    "control batch": (patched(21, ">h", 0x20), 87),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_nothing_is_written(client: RawClient, name: str) -> None:
    topic = create(client)
    data, expected = BAD_BATCHES[name]
    assert produce(client, topic, data) == expected
    assert produce(client, topic, batch()) == 0
    response = fetch(client, topic)
    assert response.responses[0].partitions[0].high_watermark == 1


def test_null_records_are_refused(client: RawClient) -> None:
    topic = create(client)
    data = PartitionProduceData(index=0, records=None)
    request = ProduceRequest(acks=-1, timeout_ms=100, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    response = cast(ProduceResponse, client.ask(request, 9))
    assert response.responses[0].partition_responses[0].error_code == 87


def test_a_record_without_key_is_refused_by_a_compacted_topic(client: RawClient) -> None:
    topic = create(client, cleanup_policy="compact")
    assert produce(client, topic, build_batch([NewRecord(value=b"v", timestamp=NOW)])) == 87


def test_a_timestamp_too_far_ahead_is_refused(client: RawClient) -> None:
    topic = create(client, message_timestamp_after_max_ms="1000")
    assert produce(client, topic, build_batch([NewRecord(value=b"v", timestamp=2**42)])) == 32


def test_zstd_is_refused_by_versions_that_do_not_know_it(client: RawClient) -> None:
    topic = create(client)
    assert produce(client, topic, batch(compression=Compression.ZSTD), version=6) == 76
    zstd_topic = create(client, compression_type="zstd")
    assert fetch(client, zstd_topic, version=9).responses[0].partitions[0].error_code == 76


def test_a_batch_beyond_the_topics_limit_is_refused(client: RawClient) -> None:
    topic = create(client, max_message_bytes="200")
    assert produce(client, topic, batch(b"x" * 300)) == 10


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_are_minus_one_zero_or_one(client: RawClient, acks: int) -> None:
    assert produce(client, create(client), batch(), acks=acks) == 21


@pytest.mark.parametrize("name", ["nobody-made-this", "../../etc/passwd", "a/b", ""])
def test_producing_to_what_is_not_there_is_unknown_topic(client: RawClient, name: str) -> None:
    assert produce(client, name, batch()) == 3


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_producing_to_a_partition_that_is_not_there_is_unknown(client: RawClient, partition: int) -> None:
    assert produce(client, create(client), batch(), partition=partition) == 3


def test_a_transactional_batch_needs_a_transactional_id(client: RawClient) -> None:
    data = batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert produce(client, create(client), data) in (53, 87)


def test_records_of_a_transactional_id_nobody_has_are_refused(client: RawClient) -> None:
    data = batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert produce(client, create(client), data, transactional_id="nobody") in (19, 48, 49)


@pytest.mark.parametrize("offset", [-1, 2, 2**60])
def test_fetching_outside_the_log_is_out_of_range(client: RawClient, offset: int) -> None:
    topic = create(client)
    assert produce(client, topic, batch()) == 0
    assert fetch(client, topic, offset).responses[0].partitions[0].error_code == 1


def test_an_unknown_fetch_session_is_refused(client: RawClient) -> None:
    assert fetch(client, create(client), session=(4711, 3)).error_code == 70


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "expected"),
    [
        ("bad name", 1, 1, 17),
        ("..", 1, 1, 17),
        ("x" * 250, 1, 1, 17),
        ("../up", 1, 1, 17),
        ("fine-but-none", 0, 1, 37),
        ("fine-but-negative", -2, 1, 37),
        ("fine-but-many", 1, 2, 38),
        ("fine-but-zero", 1, 0, 38),
    ],
)
def test_a_topic_that_cannot_be_is_not_created(
    client: RawClient, name: str, partitions: int, replicas: int, expected: int
) -> None:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=(), configs=()
    )
    response = cast(CreateTopicsResponse, client.ask(CreateTopicsRequest(topics=[topic]), 5))
    assert response.topics[0].error_code == expected


def test_a_topics_name_is_taken_once(client: RawClient) -> None:
    name = create(client)
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
    response = cast(CreateTopicsResponse, client.ask(CreateTopicsRequest(topics=[topic]), 5))
    assert response.topics[0].error_code == 36


def test_an_empty_transactional_id_is_refused(client: RawClient) -> None:
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    assert cast(InitProducerIdResponse, client.ask(request, 2)).error_code == 42


def test_metadata_of_a_path_makes_no_topic(client: RawClient) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="../../tmp/x")], allow_auto_topic_creation=True)
    response = cast(MetadataResponse, client.ask(request, 9))
    assert response.topics[0].error_code == 17
