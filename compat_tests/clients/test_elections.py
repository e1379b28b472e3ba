"""Stock admin clients and Kafka's tool request leader elections; on one broker no election is needed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.support.brokers import Broker, Ottla, run_tool, running
from compat_tests.support.clients import PATIENCE_S, create_topic

# Its types do not tell what it exports.
librdkafka: Any = confluent_kafka
pytestmark = pytest.mark.slow
TOOL = "org.apache.kafka.tools.LeaderElectionCommand"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Return a broker with one topic of two partitions, all led by their preferred replica."""
    with running(Ottla) as running_broker:
        create_topic(running_broker.bootstrap, "t", partitions=2)
        yield running_broker


def tool(broker: Broker, *arguments: str) -> list[str]:
    """Return the tool's output, which would be the same after a retry."""
    return run_tool(TOOL, "--bootstrap-server", broker.bootstrap, *arguments).splitlines()


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_kafkas_tool_is_told_that_no_election_is_needed(broker: Broker, kind: str, tmp_path: Path) -> None:
    assert tool(broker, "--election-type", kind, "--all-topic-partitions") == []
    one = tool(broker, "--election-type", kind, "--topic", "t", "--partition", "1")
    assert one == ["Valid replica already elected for partitions t-1"]
    file = tmp_path / "partitions.json"
    file.write_text(json.dumps({"partitions": [{"topic": "t", "partition": index} for index in range(2)]}))
    (both,) = tool(broker, "--election-type", kind, "--path-to-json-file", str(file))
    assert sorted(both.replace(",", "").split()[-2:]) == ["t-0", "t-1"]
    assert both.startswith("Valid replica already elected for partitions ")


def test_kafkas_tool_is_told_of_a_partition_that_there_is_not(broker: Broker) -> None:
    with pytest.raises(RuntimeError) as caught:
        tool(broker, "--election-type", "preferred", "--topic", "t", "--partition", "7")
    error = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: No such partition as t-7"
    assert f"Error completing leader election (PREFERRED) for partition: t-7: {error}\n" in str(caught.value)


def test_librdkafka_is_told_that_no_election_is_needed(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    named = [TopicPartition("t", 0), TopicPartition("t", 9)]
    found = admin.elect_leaders(librdkafka.ElectionType.PREFERRED, named).result(PATIENCE_S)
    errors = {each.partition: error.code() for each, error in found.items()}
    assert errors == {0: librdkafka.KafkaError.ELECTION_NOT_NEEDED, 9: librdkafka.KafkaError.UNKNOWN_TOPIC_OR_PART}
    assert admin.elect_leaders(librdkafka.ElectionType.UNCLEAN).result(PATIENCE_S) == {}


def test_kafka_python_is_told_that_no_election_is_needed(broker: Broker) -> None:
    admin: Any = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        answer = admin.elect_leaders(0, {"t": [0, 1]})
        with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
            admin.elect_leaders(0, {"t": [7]})
    finally:
        admin.close()
    (topic,) = answer.replica_election_results
    assert [each.error_code for each in topic.partition_result] == [84, 84]
