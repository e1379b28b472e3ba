"""Stock admin clients and Kafka's own tools add partitions."""

from collections.abc import Iterator

import kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from compat_tests.brokers import Broker, Ottla, run_tool, running
from compat_tests.clients import PATIENCE_S, create_topic

pytestmark = pytest.mark.slow
TOPICS_TOOL = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Return a broker for all tests here; each has its own topic."""
    with running(Ottla) as running_broker:
        yield running_broker


def count_partitions(broker: Broker, topic: str) -> int:
    """Return how many partitions clients see, each with a leader."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    partitions = admin.list_topics(topic, PATIENCE_S).topics[topic].partitions
    assert all(each.leader >= 0 for each in partitions.values())
    return len(partitions)


def test_librdkafka_adds_partitions(broker: Broker) -> None:
    create_topic(broker.bootstrap, "librdkafka")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions("librdkafka", 3)])["librdkafka"].result(PATIENCE_S)
    assert count_partitions(broker, "librdkafka") == 3
    with pytest.raises(KafkaException, match="higher than the requested 2"):
        admin.create_partitions([NewPartitions("librdkafka", 2)])["librdkafka"].result(PATIENCE_S)


def test_kafka_python_adds_partitions(broker: Broker) -> None:
    create_topic(broker.bootstrap, "kafka-python")
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_partitions({"kafka-python": kafka.admin.NewPartitions(2)})
    admin.close()
    assert count_partitions(broker, "kafka-python") == 2


def test_kafkas_tool_adds_partitions(broker: Broker) -> None:
    create_topic(broker.bootstrap, "tool")
    arguments = ("--bootstrap-server", broker.bootstrap, "--alter", "--topic", "tool", "--partitions")
    assert run_tool(TOPICS_TOOL, *arguments, "4") == ""
    assert count_partitions(broker, "tool") == 4
    with pytest.raises(RuntimeError, match="which is higher than the requested 1"):
        run_tool(TOPICS_TOOL, *arguments, "1")
