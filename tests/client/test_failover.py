"""While brokers crash, each record is appended once, in order, and read in that order."""

from collections.abc import Iterator

import pytest
import trio

from ottla import Cluster
from ottla.client.admin.topics import NewTopic, create_topics, describe_topics
from ottla.client.cluster import Client, open_client
from ottla.client.config import ClientConfig
from ottla.client.consuming.consumer import open_consumer
from ottla.client.producing.batches import Delivery
from ottla.client.producing.producer import open_producer
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.once]
PATIENCE_S = 120
TOPIC = "t"
PARTITIONS = [TopicPartition(TOPIC, index) for index in range(2)]
BROKERS = (0, 1)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(len(BROKERS)) as running:
        yield running


async def all_in_sync(client: Client) -> None:
    """Wait until every replica of every partition is in sync, so that any broker may crash."""
    while True:
        topic = (await describe_topics(client, [TOPIC]))[TOPIC]
        if not isinstance(topic, KafkaError) and all(len(each.isr_nodes) == 2 for each in topic.partitions):
            return
        await trio.sleep(0.05)


async def test_records_are_written_once_and_read_in_order_while_brokers_crash(cluster: Cluster) -> None:
    config = ClientConfig({"bootstrap.servers": cluster.bootstrap})
    delivered: list[Delivery] = []
    found: dict[TopicPartition, list[int]] = {each: [] for each in PARTITIONS}
    crashes_over = trio.Event()
    sent = 0

    async def crash() -> None:
        async with open_client(config) as client:
            for broker_id in BROKERS:
                await all_in_sync(client)
                before = len(delivered)
                while len(delivered) < before + 200:
                    await trio.sleep(0.01)
                await trio.to_thread.run_sync(cluster.kill, broker_id)
                before = len(delivered)
                while len(delivered) < before + 200:
                    await trio.sleep(0.01)
                await trio.to_thread.run_sync(cluster.start, broker_id)
        crashes_over.set()

    async def produce() -> None:
        nonlocal sent
        async with open_client(config) as client, open_producer(client) as producer:
            while not crashes_over.is_set():
                partition = sent % len(PARTITIONS)
                await producer.send(TOPIC, b"%d" % sent, partition=partition, on_completion=delivered.append)
                sent += 1
                await trio.sleep(0.001)

    async def consume() -> None:
        async with open_client(config) as client, open_consumer(client) as consumer:
            consumer.assign(dict.fromkeys(PARTITIONS, 0))
            while not crashes_over.is_set() or sum(map(len, found.values())) < sent:
                chunk = await consumer.next()
                found[chunk.partition] += [int(record.value or b"") for _, record in chunk.records()]

    with trio.fail_after(PATIENCE_S):
        async with open_client(config) as client:
            await create_topics(client, [NewTopic(TOPIC, len(PARTITIONS), len(BROKERS))])
        async with trio.open_nursery() as nursery:
            for task in (crash, produce, consume):
                nursery.start_soon(task)
    assert [each.error for each in delivered] == [None] * sent
    assert found == {each: list(range(each.partition, sent, len(PARTITIONS))) for each in PARTITIONS}
