"""A whole broker: it starts, serves, stops cleanly, and starts again where it was."""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.node import Node
from ottla.log.state.meta_properties import read_meta_properties
from ottla.wire.codec import encode_request
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import NewRecord, build_batch, iter_batches, iter_records
from ottla.wire.schema import Response
from tests.broker.support.client import Client, client
from tests.harness.measuring import AtMost

CLEAN = ".kafka_cleanshutdown"


def config(folder: Path, **overrides: str) -> BrokerConfig:
    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder)}
    texts |= {name.replace("_", "."): value for name, value in overrides.items()}
    return BrokerConfig.load(None, texts, {})[0]


@asynccontextmanager
async def running(settings: BrokerConfig) -> AsyncIterator[str]:
    """A broker in this process; gives the place where it is found."""
    places: list[str] = []
    is_ready = trio.Event()

    def ready(bootstrap: str) -> None:
        places.append(bootstrap)
        is_ready.set()

    node = Node(settings)
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run, ready)
            await is_ready.wait()
            yield places[0]
            node.stop()


def creation(topic: str, partitions: int = 1) -> CreateTopicsRequest:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
    return CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)


def production(topic: str, *values: bytes) -> ProduceRequest:
    batch = build_batch([NewRecord(value=value, timestamp=time.time_ns() // 1_000_000) for value in values])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])


def fetching(topic: str, offset: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[partition])])


def values(response: Response) -> list[bytes]:
    assert isinstance(response, FetchResponse)
    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.NONE
    records = partition.records
    assert isinstance(records, memoryview)
    return [bytes(record.value) for _, batch in iter_batches(records) for record in iter_records(batch) if record.value]


async def create(one: Client, topic: str) -> None:
    response = await one.ask(creation(topic), 7)
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == ErrorCode.NONE


async def produce(one: Client, topic: str, *records: bytes) -> int:
    response = await one.ask(production(topic, *records), 9)
    assert isinstance(response, ProduceResponse)
    (partition,) = response.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NONE
    return partition.base_offset


async def test_produced_records_are_fetched(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        assert await produce(one, "t", b"a", b"b") == 0
        assert await produce(one, "t", b"c") == 2
        assert values(await one.ask(fetching("t"), 12)) == [b"a", b"b", b"c"]
        assert values(await one.ask(fetching("t", 2), 12)) == [b"c"]


async def test_a_fetch_waits_for_records_from_another_connection(tmp_path: Path, at_most: AtMost) -> None:
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one, client(bootstrap) as other:
        await create(one, "t")
        request = fetching("t")
        request.max_wait_ms = 10_000
        got: list[bytes] = []

        async def fetch() -> None:
            got.extend(values(await other.ask(request, 12)))

        started = time.monotonic()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert not got
            await produce(one, "t", b"late")
        assert got == [b"late"]
        at_most(time.monotonic() - started, 5)


async def test_every_advertised_api_is_answered_by_its_handler(tmp_path: Path) -> None:
    """A handler that is bound to the wrong things fails at its first call: here.

    Those of groups: groups/test_group_apis. Those of transactions: transactions/test_transaction_apis.
    """
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
        told = await one.ask(ApiVersionsRequest(), 0)
        assert isinstance(told, ApiVersionsResponse)
        assert [each.api_key for each in told.api_keys] == [
            *(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22),
            *(23, 24, 25, 26, 27, 28, 32, 33, 34, 35, 37, 42, 43, 44, 45, 46, 47, 56, 60, 61, 65, 66, 67, 75),
        ]
        await create(one, "t")
        await produce(one, "t", b"a")
        producer = await one.ask(
            InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
            ),
            4,
        )
        assert isinstance(producer, InitProducerIdResponse)
        assert producer.error_code == ErrorCode.NONE
        latest = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        offsets = await one.ask(ListOffsetsRequest(replica_id=-1, topics=[latest]), 7)
        assert isinstance(offsets, ListOffsetsResponse)
        assert offsets.topics[0].partitions[0].offset == 1
        await ask_what_only_tells(one, tmp_path)
        await ask_as_a_broker_that_is_not_there(one)
        kept_from = DeleteRecordsPartition(partition_index=0, offset=-1)
        topic = DeleteRecordsTopic(name="t", partitions=[kept_from])
        deletion = await one.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), 2)
        assert isinstance(deletion, DeleteRecordsResponse)
        assert deletion.topics[0].partitions[0].low_watermark == 1
        more = CreatePartitionsTopic(name="t", count=2, assignments=None)
        added = await one.ask(CreatePartitionsRequest(topics=[more], timeout_ms=10_000, validate_only=False), 3)
        assert isinstance(added, CreatePartitionsResponse)
        assert added.results[0].error_code == ErrorCode.NONE
        about = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=["retention.ms"])
        described = await one.ask(DescribeConfigsRequest(resources=[about]), 4)
        assert isinstance(described, DescribeConfigsResponse)
        assert [config.value for config in described.results[0].configs] == ["604800000"]
        for request, version in ((AlterConfigsRequest, 2), (IncrementalAlterConfigsRequest, 1)):
            altered = await one.ask(request(resources=(), validate_only=False), version)
            assert isinstance(altered, AlterConfigsResponse | IncrementalAlterConfigsResponse)
            assert not altered.responses
        deleted = await one.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000), 6)
        assert isinstance(deleted, DeleteTopicsResponse)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        gone = await one.ask(MetadataRequest(topics=None), 12)
        assert isinstance(gone, MetadataResponse)
        assert not gone.topics


async def ask_as_a_broker_that_is_not_there(one: Client) -> None:
    altered = await one.ask(AlterPartitionRequest(broker_id=9, topics=()), 3)
    assert isinstance(altered, AlterPartitionResponse)
    assert altered.error_code == ErrorCode.STALE_BROKER_EPOCH
    shutdown = await one.ask(ControlledShutdownRequest(broker_id=9), 3)
    assert isinstance(shutdown, ControlledShutdownResponse)
    assert shutdown.error_code == ErrorCode.BROKER_NOT_AVAILABLE
    producers = await one.ask(AllocateProducerIdsRequest(broker_id=9), 0)
    assert isinstance(producers, AllocateProducerIdsResponse)
    assert producers.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def ask_what_only_tells(one: Client, folder: Path) -> None:
    epoch = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    ends = await one.ask(
        OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[epoch])]), 4
    )
    assert isinstance(ends, OffsetForLeaderEpochResponse)
    assert ends.topics[0].partitions[0].end_offset == 1
    stays = AlterReplicaLogDir(path=str(folder), topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
    moved = await one.ask(AlterReplicaLogDirsRequest(dirs=[stays]), 2)
    assert isinstance(moved, AlterReplicaLogDirsResponse)
    assert moved.results[0].partitions[0].error_code == ErrorCode.NONE
    directories = await one.ask(DescribeLogDirsRequest(topics=None), 4)
    assert isinstance(directories, DescribeLogDirsResponse)
    assert [(each.log_dir, each.topics[0].name) for each in directories.results] == [(str(folder), "t")]
    reassignments = await one.ask(ListPartitionReassignmentsRequest(topics=None), 0)
    assert isinstance(reassignments, ListPartitionReassignmentsResponse)
    assert (reassignments.error_code, reassignments.topics) == (ErrorCode.NONE, ())
    cluster = await one.ask(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
    assert isinstance(cluster, DescribeClusterResponse)
    assert cluster.cluster_id == (read_meta_properties(folder) or {})["cluster.id"]
    assert [each.broker_id for each in cluster.brokers] == [cluster.controller_id]
    producers = await one.ask(DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]), 0)
    assert isinstance(producers, DescribeProducersResponse)
    assert producers.topics[0].partitions[0].error_code == ErrorCode.NONE
    page = await one.ask(DescribeTopicPartitionsRequest(topics=()), 0)
    assert isinstance(page, DescribeTopicPartitionsResponse)
    assert [(topic.name, len(topic.partitions)) for topic in page.topics] == [("t", 1)]


async def test_a_restart_finds_the_data_and_the_identity(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
        assert not (tmp_path / CLEAN).exists()
        await create(one, "t")
        await produce(one, "t", b"a", b"b")
    assert (tmp_path / CLEAN).exists()
    identity = read_meta_properties(tmp_path)
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
        assert read_meta_properties(tmp_path) == identity
        assert values(await one.ask(fetching("t"), 12)) == [b"a", b"b"]
        assert await produce(one, "t", b"c") == 2


async def test_clients_get_the_address_of_the_listener_they_use(tmp_path: Path) -> None:
    settings = config(
        tmp_path,
        listeners="PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
        advertised_listeners="PLAINTEXT://outside.example:1234,INSIDE://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
        broker_id="7",
    )
    node = Node(settings)
    # Sockets of this process that are not of the broker.
    before = _listening()
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            places: list[str] = []
            nursery.start_soon(node.run, places.append)
            while not places:
                await trio.sleep(0.001)
            assert places == ["outside.example:1234"]
            found = set()
            for port in _listening() - before:
                async with client(f"127.0.0.1:{port}") as one:
                    response = await one.ask(MetadataRequest(topics=()), 12)
                    assert isinstance(response, MetadataResponse)
                    assert [each.node_id for each in response.brokers] == [7]
                    place = response.brokers[0].host, response.brokers[0].port
                    cluster = await one.ask(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
                    assert isinstance(cluster, DescribeClusterResponse)
                    assert [(each.host, each.port) for each in cluster.brokers] == [place]
                    found.add(place)
            node.stop()
    assert ("outside.example", 1234) in found
    assert len(found) == 2


def _listening() -> set[int]:
    """The ports on which this process listens."""
    own = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            own.add(str(entry.readlink()))
        except FileNotFoundError:
            continue
    sockets = map(str.split, Path("/proc/self/net/tcp").read_text().splitlines()[1:])
    return {int(each[1].split(":")[1], 16) for each in sockets if each[3] == "0A" and f"socket:[{each[9]}]" in own}


async def test_a_topic_is_created_when_its_metadata_is_asked_for(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
        # As in Kafka the second one differs while the first one's creation is under way.
        waiting = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error: int = ErrorCode.LEADER_NOT_AVAILABLE
        while error in waiting:
            response = await one.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 12)
            assert isinstance(response, MetadataResponse)
            error = response.topics[0].error_code
        assert error == ErrorCode.NONE
        assert await produce(one, "new", b"a") == 0


async def test_a_broker_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    async def once() -> int:
        async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
            await one.ask(ApiVersionsRequest(), 0)
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    first = await once()
    assert await once() == first


SERVE = """
import sys
from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.node import Node
from ottla.broker.loop.process import serve
from tests.harness.measuring import AtMost
config, _ = BrokerConfig.load(None, {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": sys.argv[1]}, {})
serve(lambda: Node(config), ready=lambda bootstrap: print(bootstrap, flush=True))
"""


@contextmanager
def process(folder: Path, before: str = "") -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A broker in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", before + SERVE, str(folder)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_broker_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path) as (child, bootstrap):
        host, port = bootstrap.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=120) as idle:
            child.send_signal(number)
            assert idle.recv(1) == b""
        assert child.wait(120) == 0
    assert (tmp_path / CLEAN).exists()


def test_the_broker_may_open_as_many_descriptors_as_the_system_allows(tmp_path: Path) -> None:
    lower = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (512, r.getrlimit(r.RLIMIT_NOFILE)[1]))"
    with process(tmp_path, lower) as (child, _):
        soft, hard = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
    assert soft == hard == resource.getrlimit(resource.RLIMIT_NOFILE)[1]


async def test_a_second_signal_ends_the_broker_at_once(tmp_path: Path) -> None:
    """The first one waits for a client that does not read its reply."""
    with process(tmp_path) as (child, bootstrap):
        async with client(bootstrap) as one, client(bootstrap) as lazy:
            await create(one, "t")
            for _ in range(10):
                await produce(one, "t", bytes(900_000))
            lazy.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await lazy.stream.send_all(encode_request(12, 1, None, fetching("t")) * 10)
            # Its replies are on their way when the first byte has come.
            await lazy.stream.receive_some(1)
            child.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.5)
            child.send_signal(signal.SIGTERM)
            assert child.wait(120) == -signal.SIGTERM


async def set_for_broker(one: Client, key: str, value: str) -> None:
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=[config])
    response = await one.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    assert isinstance(response, IncrementalAlterConfigsResponse)
    assert [each.error_message for each in response.responses] == [None]


async def test_configs_set_while_the_broker_ran_apply_after_a_restart(tmp_path: Path) -> None:
    settings = config(tmp_path, broker_id="0")
    async with running(settings) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        await set_for_broker(one, "message.max.bytes", "100")
    async with running(settings) as bootstrap, client(bootstrap) as one:
        response = await one.ask(production("t", b"x" * 1000), 9)
        assert isinstance(response, ProduceResponse)
        error = response.responses[0].partition_responses[0].error_code
        assert error == ErrorCode.MESSAGE_TOO_LARGE
        await set_for_broker(one, "message.max.bytes", "10000")
        assert await produce(one, "t", b"x" * 1000) == 0


async def test_clients_get_the_address_that_is_advertised_now(tmp_path: Path) -> None:
    settings = config(tmp_path, broker_id="0")

    async def place(one: Client) -> tuple[str, int]:
        response = await one.ask(MetadataRequest(topics=None), 12)
        assert isinstance(response, MetadataResponse)
        return response.brokers[0].host, response.brokers[0].port

    async with running(settings) as bootstrap, client(bootstrap) as one:
        assert (await place(one))[0] == "127.0.0.1"
        await set_for_broker(one, "advertised.listeners", "PLAINTEXT://elsewhere:19092")
        with trio.fail_after(120):
            while await place(one) != ("elsewhere", 19092):
                await trio.lowlevel.checkpoint()
    node = Node(settings)
    places: list[str] = []

    def ready(bootstrap: str) -> None:
        places.append(bootstrap)
        node.stop()

    await node.run(ready)
    assert places == ["elsewhere:19092"]
