"""Stock admin clients and Kafka's tools add partitions; configs of topics survive a kill."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from compat_tests.support.brokers import Broker, Ottla, run_tool, running
from compat_tests.support.clients import PATIENCE_S, create_topic

# Its types do not tell what it exports.
librdkafka: Any = confluent_kafka.admin
pytestmark = pytest.mark.slow
TOPICS_TOOL = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Return a broker for all tests here; each has its own topic."""
    with running(Ottla) as running_broker:
        yield running_broker


def count_partitions(broker: Broker, topic: str) -> int:
    """Return the count of partitions with a leader in a client's metadata."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    partitions = admin.list_topics(topic, PATIENCE_S).topics[topic].partitions
    assert all(each.leader >= 0 for each in partitions.values())
    return len(partitions)


def test_librdkafka_adds_partitions(broker: Broker) -> None:
    create_topic(broker.bootstrap, "librdkafka")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions("librdkafka", 3)])["librdkafka"].result(PATIENCE_S)
    assert count_partitions(broker, "librdkafka") == 3
    with pytest.raises(KafkaException, match="2 would not be an increase"):
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
    with pytest.raises(RuntimeError, match="1 would not be an increase"):
        run_tool(TOPICS_TOOL, *arguments, "1")


def test_librdkafka_changes_configs_and_reads_them(broker: Broker) -> None:
    create_topic(broker.bootstrap, "librdkafka-configs", config={"segment.ms": "9"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    change = librdkafka.ConfigEntry("retention.ms", "5", incremental_operation=librdkafka.AlterConfigOpType.SET)
    wanted = librdkafka.ConfigResource(
        librdkafka.ResourceType.TOPIC, "librdkafka-configs", incremental_configs=[change]
    )
    for future in admin.incremental_alter_configs([wanted]).values():
        future.result(PATIENCE_S)
    asked = librdkafka.ConfigResource(librdkafka.ResourceType.TOPIC, "librdkafka-configs")
    (described,) = admin.describe_configs([asked]).values()
    configs = described.result(PATIENCE_S)
    assert {configs[name].value for name in ("retention.ms", "segment.ms")} == {"5", "9"}
    assert configs["retention.ms"].source == librdkafka.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert configs["preallocate"].source == librdkafka.ConfigSource.DEFAULT_CONFIG.value
    assert list(configs["retention.ms"].synonyms) == ["retention.ms"]


def test_librdkafka_replaces_configs_that_are_in_effect_at_once_and_survive_a_kill(tmp_path: Path) -> None:
    broker = Ottla(tmp_path)
    broker.start()
    try:
        create_topic(broker.bootstrap, "t", config={"segment.ms": "9"})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topic = (librdkafka.ResourceType.TOPIC, "t")
        wanted = librdkafka.ConfigResource(*topic, set_config={"max.message.bytes": "200"})
        with pytest.warns(DeprecationWarning, match="alter_configs"):
            futures = admin.alter_configs([wanted]).values()
        for future in futures:
            future.result(PATIENCE_S)
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
        producer.send("t", b"small").get(PATIENCE_S)
        with pytest.raises(kafka.errors.MessageSizeTooLargeError):
            producer.send("t", b"x" * 1000).get(PATIENCE_S)
        producer.close(PATIENCE_S)
        broker.kill()
        broker.start()
        (described,) = admin.describe_configs([librdkafka.ConfigResource(*topic)]).values()
        configs = described.result(PATIENCE_S)
        assert configs["max.message.bytes"].value == "200"
        assert configs["segment.ms"].source == librdkafka.ConfigSource.DEFAULT_CONFIG.value
    finally:
        broker.stop()
