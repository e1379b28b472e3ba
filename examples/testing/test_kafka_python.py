"""A test with kafka-python: `pip install ottla pytest kafka-python`, then `pytest test_kafka_python.py`.

`kafka_broker` is one broker for the whole run. `kafka_topic` is a new topic for each test.
"""

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def place_orders(bootstrap, topic, orders):
    """Write orders: a part of the service under test."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for customer, amount in orders:
        producer.send(topic, key=customer.encode(), value=str(amount).encode())
    producer.close()


def total_by_customer(bootstrap, topic, count):
    """Read so many orders as a member of a group: the other part."""
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest")
    totals = {}
    for _ in range(count):
        record = next(consumer)
        customer = record.key.decode()
        totals[customer] = totals.get(customer, 0) + int(record.value)
    consumer.close()
    return totals


def test_orders_are_added_up_for_each_customer(kafka_broker, kafka_topic):
    """What was written comes back, whichever of the three partitions it is in."""
    place_orders(kafka_broker.bootstrap, kafka_topic, [("Milena", 3), ("Max", 5), ("Milena", 4)])
    assert total_by_customer(kafka_broker.bootstrap, kafka_topic, 3) == {"Milena": 7, "Max": 5}


def test_each_test_has_a_new_topic_with_the_partitions_of_the_settings(kafka_broker, kafka_topic):
    """pytest.ini says `num.partitions=3`; the orders of the other test are not here."""
    consumer = KafkaConsumer(bootstrap_servers=kafka_broker.bootstrap)
    partitions = [TopicPartition(kafka_topic, number) for number in range(3)]
    assert consumer.partitions_for_topic(kafka_topic) == {0, 1, 2}
    assert set(consumer.end_offsets(partitions).values()) == {0}
    consumer.close()
