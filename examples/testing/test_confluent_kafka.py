"""A test with confluent-kafka: `pip install ottla pytest confluent-kafka`, then `pytest test_confluent_kafka.py`.

The broker is stopped and started again in the middle: a client must live with that, and this test shows that it does.
"""

import pytest
from confluent_kafka import Consumer, Producer

from ottla import Broker


@pytest.fixture
def own_broker():
    """Run a broker for one test alone, since the test stops it. Keywords are Kafka's keys."""
    with Broker(log_retention_hours=1) as broker:
        yield broker


def send(bootstrap, topic, values):
    """Write records, and fail unless the broker has confirmed them all: a part of the service under test."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def receive(bootstrap, topic, count):
    """Read so many records as a member of a group: the other part."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    messages = consumer.consume(count, timeout=30)
    consumer.close()
    return [message.value() for message in messages]


def test_what_was_confirmed_is_read(kafka_broker, kafka_topic):
    """The fixtures: one broker for the whole run, a new topic for each test."""
    send(kafka_broker.bootstrap, kafka_topic, [b"one", b"two"])
    assert sorted(receive(kafka_broker.bootstrap, kafka_topic, 2)) == [b"one", b"two"]


def test_what_was_confirmed_outlives_a_crash(own_broker):
    """A kill and a start, on the same port and data."""
    own_broker.create_topic("orders")
    send(own_broker.bootstrap, "orders", [b"before"])
    own_broker.kill()
    own_broker.start()
    send(own_broker.bootstrap, "orders", [b"after"])
    assert receive(own_broker.bootstrap, "orders", 2) == [b"before", b"after"]
