"""The broker under test: every test of this folder runs against Ottla and against Apache Kafka."""

import itertools
from collections.abc import Iterator

import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running

_names = itertools.count()


# Two fixtures: one with the kinds as parameters would end a broker, and start it again, with each file.
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
    """Return the session's broker of each kind."""
    found: Broker = request.getfixturevalue(f"{request.param}_for_all")
    return found


@pytest.fixture
def topic() -> str:
    """Return a name that no other test uses."""
    return f"topic-{next(_names)}"
