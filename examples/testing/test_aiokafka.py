"""A test with aiokafka: `pip install ottla pytest aiokafka`, then `pytest test_aiokafka.py`."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def shout(bootstrap, source, target, count):
    """Copy so many records from one topic to another in capitals: the service under test."""
    consumer = AIOKafkaConsumer(source, bootstrap_servers=bootstrap, group_id="shout", auto_offset_reset="earliest")
    async with consumer, AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for _ in range(count):
            record = await consumer.getone()
            await producer.send_and_wait(target, record.value.upper())
        await consumer.commit()


async def write(bootstrap, topic, values):
    """Write records one after the other."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def read(bootstrap, topic, count):
    """Read so many records from the beginning."""
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        return [(await consumer.getone()).value for _ in range(count)]


def test_records_are_copied_in_capitals(kafka_broker, kafka_topic):
    """A second topic is made beside the one of the fixture."""
    target = f"{kafka_topic}-loud"
    kafka_broker.create_topic(target, partitions=1)

    async def scenario():
        await write(kafka_broker.bootstrap, kafka_topic, [b"one", b"two"])
        await shout(kafka_broker.bootstrap, kafka_topic, target, 2)
        return await read(kafka_broker.bootstrap, target, 2)

    assert sorted(asyncio.run(scenario())) == [b"ONE", b"TWO"]
