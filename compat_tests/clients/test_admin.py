"""Admin clients and Kafka's tools describe a cluster, and delete records."""

import json
import re
from pathlib import Path

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from compat_tests.support.brokers import Broker, run_tool
from compat_tests.support.clients import CONSUMERS, PATIENCE_S, PRODUCERS, Sent, create_topic

RECORDS = [Sent(b"k", b"%d" % number) for number in range(5)]

pytestmark = pytest.mark.slow


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """Create a topic of three partitions with five records in the first one; return its name."""
    create_topic(broker.bootstrap, topic, 3)
    PRODUCERS["kafka-python"](broker.bootstrap, topic, RECORDS, "none")
    return topic


def tool(broker: Broker, main_class: str, *arguments: str) -> str:
    return run_tool(f"org.apache.kafka.tools.{main_class}", "--bootstrap-server", broker.bootstrap, *arguments)


def test_the_cluster_is_described_alike_by_all(broker: Broker) -> None:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    described = client.describe_cluster(include_authorized_operations=True).result(PATIENCE_S)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    found = admin.describe_cluster()
    admin.close()
    assert found["cluster_id"] == described.cluster_id
    assert [(each["host"], each["port"]) for each in found["brokers"]] == [("127.0.0.1", broker.port)]
    assert [each.port for each in described.nodes] == [broker.port]
    assert {each.name for each in described.authorized_operations} == set(found["authorized_operations"])
    assert {"CREATE", "ALTER", "DESCRIBE"} <= set(found["authorized_operations"])
    printed = run_tool("org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", broker.bootstrap)
    assert printed.strip() == f"Cluster ID: {found['cluster_id']}"


def test_the_tool_lists_the_replicas_of_the_log_directory(broker: Broker, filled: str) -> None:
    printed = tool(broker, "LogDirsCommand", "--describe", "--topic-list", filled)
    ((described,),) = [each["logDirs"] for each in json.loads(printed.splitlines()[-1])["brokers"]]
    assert (described["logDir"], described["error"]) == (str(broker.data / "log"), None)
    sizes = {each["partition"]: each["size"] for each in described["partitions"]}
    assert set(sizes) == {f"{filled}-{index}" for index in range(3)}
    assert sizes[f"{filled}-0"] > sizes[f"{filled}-1"] == 0
    assert not any(each["isFuture"] or each["offsetLag"] for each in described["partitions"])


def test_the_tool_lists_idempotent_producers(broker: Broker, filled: str) -> None:
    printed = tool(broker, "TransactionsCommand", "describe-producers", "--topic", filled, "--partition", "0")
    ((producer, epoch, coordinator_epoch, sequence, *_, transaction),) = [
        line.split() for line in printed.splitlines()[1:]
    ]
    assert producer.isdigit()
    assert (epoch, coordinator_epoch, sequence, transaction) == ("0", "-1", "4", "None")


def test_the_tool_finds_no_reassignment(broker: Broker) -> None:
    printed = tool(broker, "reassign.ReassignPartitionsCommand", "--list")
    assert printed.strip() == "No partition reassignments found."


def test_a_position_with_a_leader_epoch_is_confirmed_and_read_from(broker: Broker, filled: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(filled, 0, 3, leader_epoch=0)])
    (record,) = consumer.consume(1, PATIENCE_S)
    consumer.close()
    assert (record.error(), record.offset()) == (None, 3)


def offsets(broker: Broker, topic: str, time: str) -> list[int]:
    """Return the tool's output for each partition."""
    printed = tool(broker, "GetOffsetShell", "--topic", topic, "--time", time)
    return [int(each) for each in re.findall(rf"^{topic}:\d+:(\d+)$", printed, re.MULTILINE)]


def test_records_are_deleted_by_the_tool(broker: Broker, filled: str, tmp_path: Path) -> None:
    def delete(offset: int) -> str:
        wanted = {"partitions": [{"topic": filled, "partition": 0, "offset": offset}], "version": 1}
        (tmp_path / "offsets.json").write_text(json.dumps(wanted))
        return tool(broker, "DeleteRecordsCommand", "--offset-json-file", str(tmp_path / "offsets.json"))

    assert offsets(broker, filled, "earliest") == [0, 0, 0]
    assert f"partition: {filled}-0\tlow_watermark: 2" in delete(2)
    assert offsets(broker, filled, "earliest") == [2, 0, 0]
    assert CONSUMERS["kafka-python"](broker.bootstrap, filled, 3) == RECORDS[2:]
    assert "OffsetOutOfRangeException" in delete(6)
    assert f"partition: {filled}-0\tlow_watermark: 5" in delete(-1)
    assert offsets(broker, filled, "earliest") == offsets(broker, filled, "latest") == [5, 0, 0]


def test_records_are_deleted_by_libraries(broker: Broker, filled: str) -> None:
    create_topic(broker.bootstrap, f"{filled}-compacted", config={"cleanup.policy": "compact"})
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    partition = kafka.TopicPartition(filled, 0)
    assert admin.delete_records({partition: 1})[partition]["low_watermark"] == 1
    admin.close()
    wanted = [(filled, 0, 3), (filled, 1, 1), ("nowhere", 0, 0), (f"{filled}-compacted", 0, 0)]
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    futures = client.delete_records([confluent_kafka.TopicPartition(*each) for each in wanted])
    outcomes = {}
    for each, future in futures.items():
        error = future.exception(PATIENCE_S)
        outcomes[each.topic, each.partition] = future.result().low_watermark if error is None else error.args[0].name()
    assert outcomes == {
        (filled, 0): 3,
        (filled, 1): "OFFSET_OUT_OF_RANGE",
        ("nowhere", 0): "UNKNOWN_TOPIC_OR_PART",
        (f"{filled}-compacted", 0): "POLICY_VIOLATION",
    }
