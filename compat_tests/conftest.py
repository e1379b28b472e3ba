"""The broker under test: every test of this folder runs against Ottla and against Apache Kafka."""

import itertools
from collections.abc import Iterator

import pytest

from compat_tests.brokers import ApacheKafka, Broker, Ottla, running

_names = itertools.count()


@pytest.fixture(scope="session", params=[Ottla, ApacheKafka], ids=["ottla", "kafka"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Run one broker of each kind for the whole session."""
    with running(request.param) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """Return a name that no other test uses."""
    return f"topic-{next(_names)}"
