"""The workloads: each takes a running broker and returns one sample."""

import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from benchmarks.measuring import Sample, cpu_seconds, driven, topic_of
from benchmarks.raw_client import drive
from compat_tests.support.brokers import Broker, measured_tool
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import NewRecord, build_batch

PRODUCE_VERSION = 9
FETCH_VERSION = 12
SECONDS = 5.0


class Load(Protocol):
    """A load over raw sockets for some seconds."""

    def __call__(self, broker: Broker, seconds: float = SECONDS) -> Sample:
        """Return the rate, and the broker's cost of a request."""
        ...


class Workload(NamedTuple):
    """A row of the table."""

    name: str
    unit: str
    bar: float
    higher_is_better: bool
    measure: Callable[[Broker], Sample]
    writes_much: bool = False


def address(broker: Broker) -> tuple[str, int]:
    """Return the broker's address for raw sockets."""
    host, port = broker.bootstrap.split(":")
    return host, int(port)


def batch_of(records: int, now_ms: int) -> bytes:
    """Return a batch of records of 100 bytes."""
    return bytes(build_batch([NewRecord(value=b"x" * 100, timestamp=now_ms) for _ in range(records)]))


def produce_frame(topic: str, partition: int, batch: bytes) -> bytes:
    """Return a Produce request with acks=all."""
    data = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=-1, timeout_ms=30000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    return encode_request(PRODUCE_VERSION, 7, "bench", request)


def no_produce_error(reply: memoryview) -> None:
    """Raise RuntimeError for a Produce response with an error."""
    _, response = decode_response(reply, ProduceRequest, PRODUCE_VERSION)
    codes = [p.error_code for t in cast(ProduceResponse, response).responses for p in t.partition_responses]
    if not codes or any(codes):
        raise RuntimeError(f"produce failed: {codes}")


def sampled(check: Callable[[memoryview], None], every: int) -> Callable[[memoryview], None]:
    """Return a check of only one reply in `every`, because the client must cost little."""
    count = 0

    def sampled(reply: memoryview) -> None:
        nonlocal count
        if count % every == 0:
            check(reply)
        count += 1

    return sampled


def raw_produce(records: int, connections: int, in_flight: int, *, synced: bool = False) -> Load:
    """Return a load of batches with acks=all; its figure is requests a second.

    Each connection has a partition of its own; with `synced` all share one, whose records are each synced to the disk.
    """
    partitions = 1 if synced else connections
    config = {"flush.messages": "1"} if synced else {}

    def measure(broker: Broker, seconds: float = SECONDS) -> Sample:
        batch = batch_of(records, _now_ms())
        with topic_of(broker, "raw-produce", partitions, config) as topic:
            done = driven(
                broker,
                lambda connection: [produce_frame(topic, connection % partitions, batch)],
                connections=connections,
                in_flight=in_flight,
                seconds=seconds,
                check=sampled(no_produce_error, 100),
            )
        return Sample(done.replies, done.cpu_us)

    return measure


def raw_fetch(max_bytes: int) -> Load:
    """Return a load of fetches over a written partition, 4 connections x 2; its figure is MB a second."""

    def measure(broker: Broker, seconds: float = SECONDS) -> Sample:
        with topic_of(broker, "raw-fetch") as topic:
            frames = _fetches_of(broker, topic, max_bytes)
            done = driven(
                broker,
                lambda connection: frames[connection * len(frames) // 4 :] + frames[: connection * len(frames) // 4],
                connections=4,
                in_flight=2,
                seconds=seconds,
                check=sampled(_full_fetch(max_bytes // 2), 20),
            )
        return Sample(done.received / 1e6, done.cpu_us)

    return measure


def _fetches_of(broker: Broker, topic: str, max_bytes: int) -> list[bytes]:
    """Fill a topic; return the requests that read it from its start to its end."""
    batch = batch_of(145, _now_ms())
    batches = 4096
    written = 0

    def count(reply: memoryview) -> None:
        nonlocal written
        no_produce_error(reply)
        written += 1

    frame = produce_frame(topic, 0, batch)
    while written < batches:
        drive(address(broker), lambda _: [frame], connections=1, in_flight=4, seconds=0.5, check=count)
    per_fetch = max(1, max_bytes // len(batch))
    offsets = range(0, (batches - per_fetch) * 145, per_fetch * 145)
    return [_fetch_frame(topic, offset, max_bytes) for offset in offsets]


def _fetch_frame(topic: str, offset: int, max_bytes: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return encode_request(FETCH_VERSION, 7, "bench", request)


def _full_fetch(least: int) -> Callable[[memoryview], None]:
    def check(reply: memoryview) -> None:
        _, response = decode_response(reply, FetchRequest, FETCH_VERSION)
        (partition,) = cast(FetchResponse, response).responses[0].partitions
        if partition.error_code or len(partition.records or b"") < least:
            raise RuntimeError(f"fetch failed: {partition.error_code}, {len(partition.records or b'')} bytes")

    return check


def metered_tool(broker: Broker, main_class: str, *arguments: str) -> tuple[str, float]:
    """Run one of Kafka's tools; return its output, and the broker's processor time in seconds."""
    before = cpu_seconds(broker)
    printed = measured_tool(main_class, *arguments, "--bootstrap-server", broker.bootstrap, timeout_s=300)
    return printed, cpu_seconds(broker) - before


def producer_performance(count: int, size: int) -> Callable[[Broker], Sample]:
    """Return a workload of Kafka's ProducerPerformance; its figure is records a second."""

    def measure(broker: Broker) -> Sample:
        with topic_of(broker, "perf") as topic:
            printed, used = metered_tool(
                broker,
                "org.apache.kafka.tools.ProducerPerformance",
                *("--topic", topic, "--num-records", str(count), "--record-size", str(size), "--throughput", "-1"),
            )
        rates: Sequence[str] = re.findall(rf"^{count} records sent, ([\d.]+) records/sec", printed, re.MULTILINE)
        return Sample(float(rates[-1]), 1e6 * used / count)

    return measure


def end_to_end_latency(count: int) -> Callable[[Broker], Sample]:
    """Return a workload of Kafka's EndToEndLatency; its figure is the mean in milliseconds."""

    def measure(broker: Broker) -> Sample:
        with topic_of(broker, "latency") as topic:
            printed, used = metered_tool(
                broker,
                "org.apache.kafka.tools.EndToEndLatency",
                *("--topic", topic, "--num-records", str(count), "--record-size", "100", "--producer-acks", "all"),
            )
        means: Sequence[str] = re.findall(r"^Avg latency: ([\d.]+) ms", printed, re.MULTILINE)
        return Sample(float(means[-1]), 1e6 * used / count)

    return measure


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


WORKLOADS = (
    Workload("raw produce, 1 x 100 B, 1 connection x 1", "requests/s", 1.3, True, raw_produce(1, 1, 1)),
    Workload("raw produce, 1 x 100 B, 32 connections x 5", "requests/s", 1.3, True, raw_produce(1, 32, 5)),
    Workload("raw produce, 16 KB of 100 B, 4 x 5", "requests/s", 1.3, True, raw_produce(145, 4, 5)),
    Workload("raw produce, 900 KB of 100 B, 4 x 2", "requests/s", 1.0, True, raw_produce(8300, 4, 2), True),
    Workload(
        "produce with flush.messages=1, 32 connections", "requests/s", 5.0, True, raw_produce(1, 32, 1, synced=True)
    ),
    Workload("raw fetch, 1 MiB, 4 x 2", "MB/s", 1.0, True, raw_fetch(1 << 20)),
    Workload("raw fetch, 16 KiB, 4 x 2", "MB/s", 1.3, True, raw_fetch(1 << 14)),
    Workload("ProducerPerformance, 1,000,000 x 100 B", "records/s", 1.0, True, producer_performance(1_000_000, 100)),
    Workload("ProducerPerformance, 500,000 x 1 KB", "records/s", 1.0, True, producer_performance(500_000, 1024)),
    Workload("EndToEndLatency, mean of 10,000 x 100 B", "ms", 0.7, False, end_to_end_latency(10_000)),
)
