"""Transactional clients of Ottla, which has no transactions: each is refused at once with a reason."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest

from compat_tests.groups.members import wait_until
from compat_tests.support.brokers import Broker, Ottla, running
from compat_tests.support.tools import Tools

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0
WHY = "This broker, Ottla, has no transactions yet: leave transactional.id unset"


@pytest.fixture(scope="module")
def ottla() -> Iterator[Broker]:
    with running(Ottla) as broker:
        yield broker


def is_named_once(broker: Broker, transactional_id: str) -> bool:
    """Wait for the warning about an id, and return whether there is only one."""

    def count() -> int:
        return sum(repr(transactional_id) in line for line in broker.output().splitlines() if "WARN" in line)

    wait_until(lambda: count() > 0)
    return count() == 1


def test_librdkafkas_producer_ends_at_once_and_says_why(ottla: Broker) -> None:
    settings = {"bootstrap.servers": ottla.bootstrap, "transactional.id": "of-librdkafka"}
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        confluent_kafka.Producer(settings).init_transactions(PATIENCE_S)
    assert caught.value.args[0].fatal()
    assert WHY in caught.value.args[0].str()
    assert is_named_once(ottla, "of-librdkafka")


def test_kafka_pythons_producer_ends_at_once(ottla: Broker) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=ottla.bootstrap, transactional_id="of-kafka-python")
    with pytest.raises(kafka.errors.KafkaError, match="ClusterAuthorizationFailed"):
        producer.init_transactions()
    producer.close(PATIENCE_S)
    assert is_named_once(ottla, "of-kafka-python")


def test_aiokafkas_producer_does_not_start(ottla: Broker) -> None:
    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=ottla.bootstrap, transactional_id="of-aiokafka")
        try:
            await asyncio.wait_for(producer.start(), PATIENCE_S)
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError, match="ClusterAuthorizationFailed"):
        asyncio.run(start())
    assert is_named_once(ottla, "of-aiokafka")


def test_javas_producer_and_admin_client_end_at_once(ottla: Broker, tmp_path: Path) -> None:
    producing = [
        *("--topic", "any", "--num-records", "1", "--record-size", "1", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={ottla.bootstrap}", "--transactional-id", "of-java"),
    ]
    with Tools(tmp_path) as tools:
        produced = tools.run("org.apache.kafka.tools.ProducerPerformance", *producing)
        described = tools.run(
            "org.apache.kafka.tools.TransactionsCommand",
            *("--bootstrap-server", ottla.bootstrap, "describe", "--transactional-id", "described-by-java"),
        )
    assert produced.code == 1
    assert WHY in produced.stderr
    assert described.code == 1
    assert "failed due to an unexpected error" in described.stderr
    assert is_named_once(ottla, "of-java")
    assert is_named_once(ottla, "described-by-java")
