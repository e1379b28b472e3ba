"""A broker with transactions, for all tests of a process."""

from collections.abc import Iterator

import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, running

# One partition each for transactions and groups, which it makes sooner.
SETTINGS = (
    "transaction.state.log.num.partitions=1",
    "offsets.topic.num.partitions=1",
    "auto.create.topics.enable=false",
    # What is too old is soon deleted.
    "log.initial.task.delay.ms=0",
    "log.retention.check.interval.ms=100",
)


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[Broker]:
    """Run Apache Kafka."""
    with running(ApacheKafka, SETTINGS) as broker:
        yield broker
