"""The broker under test: every test of this folder runs with Ottla and with Apache Kafka."""

import itertools
from collections.abc import Iterator

import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running

_names = itertools.count()


# Two fixtures, because one with the kinds as parameters would restart the brokers with each file.
@pytest.fixture(scope="session")
def ottla_for_all() -> Iterator[Broker]:
    """Run one broker for the whole session."""
    with running(Ottla) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_for_all() -> Iterator[Broker]:
    """Run one broker for the whole session."""
    with running(ApacheKafka) as broker:
        yield broker


@pytest.fixture(params=["ottla", "kafka"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Return the session's broker of a kind."""
    found: Broker = request.getfixturevalue(f"{request.param}_for_all")
    return found


@pytest.fixture
def topic() -> str:
    """Return a unique name."""
    return f"topic-{next(_names)}"
