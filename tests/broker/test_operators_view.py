"""What an operator reads of a broker's life, under the names of Kafka's loggers."""

import logging
import re
from pathlib import Path

import pytest

from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.groups.test_group_apis import find
from tests.broker.support.client import client
from tests.broker.test_node import CLEAN, config, create, fetching, produce, running

LIFE = [
    ("kafka.server.KafkaServer", r"starting"),
    ("kafka.server.KafkaServer", r"Cluster ID = \S{22}"),
    ("kafka.log.LogManager", r"Loading 0 logs from [^ ,]*"),
    ("kafka.log.LogManager", r"Loaded 0 logs in \d+ ms"),
    ("kafka.zk.KafkaZkClient", r"Registered broker 1001 at /brokers/ids/1001 with PLAINTEXT://127.0.0.1:\d+ and .*"),
    ("kafka.controller.KafkaController", r"\[Controller id=1001\] Elected as the controller, with epoch 1"),
    ("kafka.controller.KafkaController", r"\[Controller id=1001\] Ready, with epoch 1"),
    ("kafka.server.KafkaServer", r"\[KafkaServer id=1001\] started"),
    ("kafka.network.DataPlaneAcceptor", r"Awaiting connections of listener PLAINTEXT on 127.0.0.1:\d+"),
    ("kafka.zk.AdminZkClient", r"Created topic t with id \S{22}, 1 partitions, configs {}"),
    ("kafka.controller.KafkaController", r"Topics: new \['t'\], gone \[\]"),
    ("state.change.logger", r"\[Controller epoch=1\] Partition t-0 is online, was new: leader 1001 with epoch 0, .*"),
    ("kafka.log.LogManager", r"Created log for partition t-0 in .*/t-0"),
    ("state.change.logger", r"\[Broker id=1001\] Leading t-0 from leader epoch 0 on, at offset 0, .*"),
    ("kafka.server.ZkConfigManager", r"Topic t has new configs: {'retention.ms': '7'}"),
    ("kafka.cluster.Partition", r"t-0 begins at offset 1 now, records were deleted"),
    ("kafka.controller.TopicDeletionManager", r"Deleting the topics \['t'\]"),
    ("state.change.logger", r"\[Broker id=1001\] Stopped replica of t-0, to delete it: True"),
    ("kafka.log.LogManager", r".*/t-0 is renamed to t-0\.\w+-delete, to be deleted"),
    ("kafka.controller.TopicDeletionManager", r"Topic t is deleted"),
    ("kafka.server.KafkaServer", r"\[KafkaServer id=1001\] shutting down"),
    ("kafka.network.SocketServer", r"Stopping: closing [01] connections"),
    ("kafka.network.SocketServer", r"Stopped"),
    ("kafka.log.LogManager", r"Closed 0 logs"),
    ("kafka.server.KafkaServer", r"\[KafkaServer id=1001\] shut down completed"),
]


async def test_a_brokers_life_is_told_and_nothing_for_each_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    deletion = DeleteRecordsPartition(partition_index=0, offset=1)
    retention = AlterableConfig(name="retention.ms", config_operation=0, value="7")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[retention])
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        await produce(one, "t", b"a", b"b")
        for _ in range(5):
            await one.ask(fetching("t"), 12)
        await one.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        topics = [DeleteRecordsTopic(name="t", partitions=[deletion])]
        await one.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
        await one.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000), 6)
    said = [(each.name, each.getMessage()) for each in caplog.records]
    for (name, message), (wanted_name, pattern) in zip(said, LIFE, strict=True):
        assert name == wanted_name, message
        assert re.fullmatch(pattern, message), message


async def test_a_start_after_a_kill_tells_what_is_recovered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        await produce(one, "t", b"a", b"b")
    (tmp_path / CLEAN).unlink()
    caplog.set_level(logging.INFO, "kafka.log")
    caplog.clear()
    async with running(config(tmp_path)):
        pass
    assert [re.sub(r"\d+ ms", "N ms", each.getMessage()).replace(str(tmp_path), "D") for each in caplog.records] == [
        "Loading 1 logs from D, recovering them, as there was no clean shutdown",
        "Recovering unflushed segment 0. 0/1 recovered for t-0.",
        "Loaded D/t-0 with 1 segments, log start offset 0 and log end offset 2 in N ms (1/1 completed in D)",
        "Loaded 1 logs in N ms",
        "Closed 1 logs",
    ]


async def test_many_partitions_at_once_are_told_in_sum_and_each_of_them_at_debug(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(config(tmp_path, offsets_topic_num_partitions="50")) as bootstrap, client(bootstrap) as one:
        await find(one)
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.INFO]
    of_offsets = [re.sub(r"id \S{22}", "id I", message) for message in said if "__consumer_offsets" in message]
    assert [message.split(", ")[0] for message in of_offsets] == [
        "Created topic __consumer_offsets with id I",
        "Topics: new ['__consumer_offsets']",
        "[Controller epoch=1] 50 partitions of __consumer_offsets are online",
        "[Broker id=1001] Asked to lead 50 and to follow 0 partitions of __consumer_offsets",
    ]
    details = [each.getMessage() for each in caplog.records if each.levelno == logging.DEBUG]
    for beginning in (
        *("[Controller epoch=1] Partition __consumer_offsets-7 is online", "Loaded 0 groups of __consumer_offsets-7"),
        *("Created log for partition __consumer_offsets-7 in", "[Broker id=1001] Leading __consumer_offsets-7 from"),
    ):
        assert sum(detail.startswith(beginning) for detail in details) == 1, beginning
