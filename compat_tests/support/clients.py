"""The clients under test, each with the same two functions: produce a list of records, read them back."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka
import kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.support.brokers import run_tool

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_S = 120.0
SIX_MEGABYTES = 6 * 1024 * 1024


class Sent(NamedTuple):
    """A record of fields that every client supports."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Produce = Callable[[str, str, Sequence[Sent], str], None]
Consume = Callable[[str, str, int], list[Sent]]


def create_topic(
    bootstrap: str,
    topic: str,
    partitions: int = 1,
    config: dict[str, str] | None = None,
    patience_s: float = PATIENCE_S,
    replicas: int = 1,
) -> None:
    """Create a topic and wait until each partition has a leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=config or {})
    options = {"operation_timeout": patience_s, "request_timeout": patience_s}
    admin.create_topics([new], **options)[topic].result(patience_s)
    deadline = time.monotonic() + patience_s

    def leaders() -> int:
        found = admin.list_topics(topic, patience_s).topics[topic].partitions
        return sum(each.leader >= 0 for each in found.values())

    while leaders() < partitions:
        assert time.monotonic() < deadline


def kafka_python_produce(bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
    """Produce with kafka-python's defaults (idempotent, acks=all)."""
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        max_request_size=SIX_MEGABYTES,
        linger_ms=5,
    )
    sent = [producer.send(topic, key=r.key, value=r.value, headers=list(r.headers), partition=0) for r in records]
    producer.flush(PATIENCE_S)
    assert [f.get(PATIENCE_S).offset for f in sent] == list(range(len(records)))
    producer.close(PATIENCE_S)


def kafka_python_consume(bootstrap: str, topic: str, count: int) -> list[Sent]:
    """Read from the beginning with kafka-python, without a group."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found: list[Sent] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        for batch in consumer.poll(timeout_ms=500).values():
            found += [Sent(r.key, r.value, tuple((k, v) for k, v in r.headers)) for r in batch]
    consumer.close()
    return found


def confluent_produce(bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
    """Produce with librdkafka, idempotent."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "message.max.bytes": SIX_MEGABYTES,
            "linger.ms": 5,
        }
    )
    failures: list[Any] = []
    for r in records:
        producer.produce(
            topic, key=r.key, value=r.value, headers=list(r.headers), partition=0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(PATIENCE_S) == 0
    assert not failures


def confluent_consume(bootstrap: str, topic: str, count: int) -> list[Sent]:
    """Read from the beginning with librdkafka, by assignment."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "by-assignment", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[Sent] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            assert message.error() is None
            headers: Any = message.headers()
            found.append(Sent(message.key(), message.value(), tuple(headers or ())))
    consumer.close()
    return found


def aiokafka_produce(bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
    """Produce with aiokafka, idempotent."""

    async def produce() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
            max_request_size=SIX_MEGABYTES,
        ) as producer:
            sent = [
                await producer.send(topic, key=r.key, value=r.value, headers=list(r.headers), partition=0)
                for r in records
            ]
            offsets = [(await f).offset for f in sent]
            assert offsets == list(range(len(records)))

    asyncio.run(asyncio.wait_for(produce(), PATIENCE_S))


def aiokafka_consume(bootstrap: str, topic: str, count: int) -> list[Sent]:
    """Read from the beginning with aiokafka, without a group."""

    async def consume() -> list[Sent]:
        found: list[Sent] = []
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            while len(found) < count:
                for batch in (await consumer.getmany(timeout_ms=500)).values():
                    found += [Sent(r.key, r.value, tuple((k, v) for k, v in r.headers)) for r in batch]
        finally:
            await consumer.stop()
        return found

    return asyncio.run(asyncio.wait_for(consume(), PATIENCE_S))


def console_produce(bootstrap: str, topic: str, records: Sequence[Sent], codec: str) -> None:
    """Produce text with Kafka's console producer; NULL stands for null."""
    lines = []
    for r in records:
        headers = ",".join(f"{k}:{text(v)}" for k, v in r.headers)
        lines.append(f"{headers or 'NULL'}\t{text(r.key)}\t{text(r.value)}\n")
    properties = ["parse.headers=true", "parse.key=true", "null.marker=NULL"]
    run_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec),
        *(word for p in properties for word in ("--reader-property", p)),
        *("--command-property", f"max.request.size={SIX_MEGABYTES}"),
        stdin="".join(lines).encode(),
    )


def console_consume(bootstrap: str, topic: str, count: int) -> list[Sent]:
    """Read partition 0 from the beginning with Kafka's console consumer."""
    properties = ["print.headers=true", "print.key=true", "null.literal=NULL"]
    printed = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(count), "--timeout-ms", "20000"),
        *(word for p in properties for word in ("--formatter-property", p)),
    )
    found = []
    for line in printed.splitlines():
        if line.count("\t") == 2:
            headers, key, value = line.split("\t")
            pairs = [h.split(":", 1) for h in headers.split(",")] if headers != "NO_HEADERS" else []
            found.append(Sent(unnull(key), unnull(value), tuple((k, unnull(v)) for k, v in pairs)))
    return found


def text(value: bytes | None) -> str:
    """Return a value in the form of the console tools."""
    return "NULL" if value is None else value.decode()


def unnull(printed: str) -> bytes | None:
    """Return the value for a text of the console tools."""
    return None if printed == "NULL" else printed.encode()


PRODUCERS: dict[str, Produce] = {
    "kafka-python": kafka_python_produce,
    "confluent-kafka": confluent_produce,
    "aiokafka": aiokafka_produce,
    "console": console_produce,
}
CONSUMERS: dict[str, Consume] = {
    "kafka-python": kafka_python_consume,
    "confluent-kafka": confluent_consume,
    "aiokafka": aiokafka_consume,
    "console": console_consume,
}
