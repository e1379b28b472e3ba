"""Three brokers on one loop: records are on all of them, and no acknowledged record is lost when a broker ends."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.embedded.cluster import Brokers
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.schema import Request, Response
from tests.broker.support.client import client
from tests.broker.test_node import values

TOPIC = "t"
IDS = (0, 1, 2)
PATIENCE_S = 120.0
# Values for tests, because tests cannot wait for the defaults.
QUICK = {
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.wait.max.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
}


class Cluster:
    """Three brokers, with checks of their state."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers

    def place(self, broker_id: int) -> str:
        return self.brokers.bootstrap.split(",")[broker_id]

    async def ask(self, broker_id: int, request: Request, version: int) -> Response:
        async with client(self.place(broker_id)) as one:
            return await one.ask(request, version)

    async def metadata(self, by: int) -> MetadataResponse:
        response = await self.ask(
            by, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False), 12
        )
        assert isinstance(response, MetadataResponse)
        return response

    async def partition(self, by: int, index: int = 0) -> MetadataResponsePartition:
        """Return the metadata of a partition from one broker."""
        (topic,) = (await self.metadata(by)).topics
        return next(each for each in topic.partitions if each.partition_index == index)

    async def wait_for(self, by: int, what: Callable[[MetadataResponsePartition], bool]) -> MetadataResponsePartition:
        """Wait until the metadata of one broker fits."""
        with trio.fail_after(PATIENCE_S):
            while True:
                (topic,) = (await self.metadata(by)).topics
                found = [each for each in topic.partitions if each.partition_index == 0 and what(each)]
                if found:
                    return found[0]
                await trio.sleep(0.02)

    async def create(self, partitions: int = 1, replicas: int = 3) -> None:
        """Create the topic, and wait until every broker knows it."""
        wanted = CreatableTopic(
            name=TOPIC, num_partitions=partitions, replication_factor=replicas, assignments=(), configs=()
        )
        with trio.fail_after(PATIENCE_S):
            while (controller := (await self.metadata(0)).controller_id) not in IDS:
                await trio.sleep(0.02)
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
        response = await self.ask(controller, request, 7)
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0].error_message
        for each in IDS:
            await self.wait_for(each, lambda partition: partition.leader_id in IDS)

    async def produce(self, to: int, *texts: bytes) -> ErrorCode:
        batch = build_batch([NewRecord(value=text, timestamp=time.time_ns() // 1_000_000) for text in texts])
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
        response = await self.ask(to, request, 9)
        assert isinstance(response, ProduceResponse)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    async def read(self, by: int) -> Sequence[bytes]:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=TOPIC, partitions=[partition])
        return values(await self.ask(by, FetchRequest(max_wait_ms=100, min_bytes=1, topics=[topic]), 12))


@asynccontextmanager
async def running(folder: Path, **overrides: str) -> AsyncIterator[Cluster]:
    """Run a cluster during a `with` block."""
    given = QUICK | {name.replace("_", "."): value for name, value in overrides.items()}
    brokers = Brokers(len(IDS), folder, given)
    is_ready = trio.Event()
    with trio.fail_after(4 * PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(brokers.run, lambda bootstrap: is_ready.set())
            await is_ready.wait()
            yield Cluster(brokers)
            brokers.stop()


def logs(folder: Path, index: int = 0) -> list[bytes]:
    """Return the log of a partition on each broker."""
    return [
        b"".join(file.read_bytes() for file in sorted(folder.glob(f"broker-{each}/{TOPIC}-{index}/*.log")))
        for each in IDS
    ]


def others(*ids: int) -> list[int]:
    return [each for each in IDS if each not in ids]


async def test_all_brokers_know_each_other_and_one_controller(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        with trio.fail_after(PATIENCE_S):
            while True:
                told = [await cluster.metadata(each) for each in IDS]
                known = [sorted(broker.node_id for broker in each.brokers) for each in told]
                if known == [list(IDS)] * 3:
                    break
                await trio.sleep(0.02)
        assert len({each.controller_id for each in told}) == 1


@pytest.mark.once
async def test_acknowledged_records_are_on_every_broker(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.create()
        leader = (await cluster.partition(0)).leader_id
        assert sorted((await cluster.partition(leader)).isr_nodes) == list(IDS)
        for number in range(20):
            assert await cluster.produce(leader, b"%d" % number) == ErrorCode.NONE
        assert await cluster.read(leader) == [b"%d" % number for number in range(20)]
        assert await cluster.produce(others(leader)[0], b"elsewhere") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    first, *rest = logs(tmp_path)
    assert first
    assert rest == [first, first]


async def test_a_killed_leader_is_replaced_and_comes_back_as_a_follower(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.create()
        first = (await cluster.partition(0)).leader_id
        acknowledged = [b"%d" % number for number in range(10)]
        assert await cluster.produce(first, *acknowledged) == ErrorCode.NONE
        await cluster.brokers.kill_broker(first)
        witness = others(first)[0]
        second = (await cluster.wait_for(witness, lambda it: it.leader_id in others(first))).leader_id
        assert await cluster.produce(second, b"later") == ErrorCode.NONE
        assert await cluster.read(second) == [*acknowledged, b"later"]
        await cluster.brokers.start_broker(first)
        back = await cluster.wait_for(witness, lambda it: len(it.isr_nodes) == 3)
        assert back.leader_id == second
        assert await cluster.produce(second, b"last") == ErrorCode.NONE
    one, *rest = logs(tmp_path)
    assert rest == [one, one]


async def test_a_broker_whose_only_disk_fails_ends_and_another_leads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, replica_high_watermark_checkpoint_interval_ms="200") as cluster:
        await cluster.create()
        first = (await cluster.partition(0)).leader_id
        assert await cluster.produce(first, b"a") == ErrorCode.NONE
        # At once: it writes there now and then.
        (tmp_path / f"broker-{first}").rename(tmp_path / "lost")
        witness = others(first)[0]
        second = (await cluster.wait_for(witness, lambda it: it.leader_id in others(first))).leader_id
        assert await cluster.read(second) == [b"a"]
        with trio.fail_after(PATIENCE_S):
            while "Shutdown broker because all log dirs in" not in caplog.text:
                await trio.sleep(0.02)
        # A new disk.
        await cluster.brokers.start_broker(first)
        await cluster.wait_for(witness, lambda it: len(it.isr_nodes) == 3)
    assert logs(tmp_path)[first] == logs(tmp_path)[second] != b""


async def test_a_killed_controller_is_replaced(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.create()
        first = (await cluster.metadata(0)).controller_id
        await cluster.brokers.kill_broker(first)
        witness = others(first)[0]
        with trio.fail_after(PATIENCE_S):
            while (second := (await cluster.metadata(witness)).controller_id) == first:
                await trio.sleep(0.02)
        assert second in others(first)
        leader = (await cluster.wait_for(witness, lambda it: it.leader_id in others(first))).leader_id
        assert await cluster.produce(leader, b"a") == ErrorCode.NONE
        await cluster.brokers.start_broker(first)
        await cluster.wait_for(first, lambda it: len(it.isr_nodes) == 3)


async def test_a_stopped_follower_leaves_the_isr_and_comes_back(tmp_path: Path) -> None:
    async with running(tmp_path, min_insync_replicas="2") as cluster:
        await cluster.create()
        leader = (await cluster.partition(0)).leader_id
        one, other = others(leader)
        await cluster.brokers.kill_broker(one)
        await cluster.wait_for(leader, lambda it: sorted(it.isr_nodes) == sorted([leader, other]))
        assert await cluster.produce(leader, b"a") == ErrorCode.NONE
        await cluster.brokers.kill_broker(other)
        await cluster.wait_for(leader, lambda it: list(it.isr_nodes) == [leader])
        assert await cluster.produce(leader, b"too few") == ErrorCode.NOT_ENOUGH_REPLICAS
        await cluster.brokers.start_broker(other)
        await cluster.brokers.start_broker(one)
        await cluster.wait_for(leader, lambda it: len(it.isr_nodes) == 3)
        assert await cluster.produce(leader, b"b") == ErrorCode.NONE
        assert await cluster.read(leader) == [b"a", b"b"]


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_every_broker_can_restart_in_turn(tmp_path: Path, how: str) -> None:
    async with running(tmp_path) as cluster:
        await cluster.create()
        expected = []
        for round_number in range(2):
            for each in IDS:
                await getattr(cluster.brokers, f"{how}_broker")(each)
                witness = others(each)[0]
                leader = (await cluster.wait_for(witness, lambda it, each=each: it.leader_id in others(each))).leader_id  # type: ignore[misc]
                text = b"%d without %d" % (round_number, each)
                assert await cluster.produce(leader, text) == ErrorCode.NONE
                expected.append(text)
                await cluster.brokers.start_broker(each)
                await cluster.wait_for(witness, lambda it: len(it.isr_nodes) == 3)
        assert await cluster.read((await cluster.partition(0)).leader_id) == expected
    one, *rest = logs(tmp_path)
    assert rest == [one, one]


async def test_every_replica_deletes_its_old_segments(tmp_path: Path) -> None:
    often = {"log_initial_task_delay_ms": "0", "log_retention_check_interval_ms": "50"}
    async with running(tmp_path, log_retention_ms="1500", log_segment_delete_delay_ms="0", **often) as cluster:
        await cluster.create()
        leader = (await cluster.partition(0)).leader_id
        assert await cluster.produce(leader, b"a", b"b", b"c") == ErrorCode.NONE
        with trio.fail_after(PATIENCE_S):
            while [path.name for path in tmp_path.glob(f"broker-*/{TOPIC}-0/*.log")] != [f"{3:020d}.log"] * 3:
                await trio.sleep(0.02)
        assert await cluster.produce(leader, b"d") == ErrorCode.NONE
        assert len((await cluster.partition(leader)).isr_nodes) == 3
