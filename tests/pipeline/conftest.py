"""Brokers with transactions, for all tests of a process."""

from collections.abc import Iterator

import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running

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


@pytest.fixture(scope="session")
def ottla_with_transactions() -> Iterator[Broker]:
    """Run Ottla."""
    with running(Ottla, SETTINGS) as broker:
        yield broker


@pytest.fixture(params=["apache_kafka", "ottla_with_transactions"])
def transactional(request: pytest.FixtureRequest) -> Broker:
    """Return one broker after the other."""
    found: Broker = request.getfixturevalue(request.param)
    return found
