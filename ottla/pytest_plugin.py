"""The pytest fixtures: a broker, a cluster, their settings, and a topic for each test.

pytest imports this module at the start of every run, so each fixture imports the broker's code itself.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from ottla.embedded.broker import Broker, Cluster

    Child = TypeVar("Child", Broker, Cluster)

# Kafka allows 249 characters.
_LONGEST_TEST_NAME = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option."""
    parser.addini(
        "ottla_settings", "Kafka's keys for kafka_broker and kafka_cluster: KEY=VALUE lines.", type="linelist"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Raise a UsageError for a malformed ini option, before any test runs."""
    for line in config.getini("ottla_settings"):
        if "=" not in line:
            raise pytest.UsageError(f"ottla_settings takes KEY=VALUE lines, not {line!r}")


@pytest.fixture(scope="session")
def ottla_settings(pytestconfig: pytest.Config) -> dict[str, Any]:
    """Return the settings of `kafka_broker` and `kafka_cluster`, from the ini option of this name.

    A conftest.py may override this fixture, with `scope="session"`, and return the keywords of a `Broker`.
    """
    pairs = (line.partition("=") for line in pytestconfig.getini("ottla_settings"))
    return {name.strip(): value.strip() for name, _, value in pairs}


@pytest.fixture(scope="session")
def kafka_broker(ottla_settings: Mapping[str, Any]) -> "Iterator[Broker]":
    """One broker for the whole run, for each worker of pytest-xdist; clients connect to `kafka_broker.bootstrap`."""
    from ottla.embedded.broker import Broker

    yield from _running(Broker, ottla_settings)


@pytest.fixture(scope="session")
def kafka_cluster(ottla_settings: Mapping[str, Any]) -> "Iterator[Cluster]":
    """Three brokers for the whole run, for each worker of pytest-xdist; topics have three replicas unless set."""
    from ottla.embedded.broker import Cluster

    yield from _running(Cluster, {"default.replication.factor": 3, **ottla_settings})


@pytest.fixture
def kafka_topic(kafka_broker: "Broker", request: pytest.FixtureRequest) -> str:
    """Return the name of a new topic of `kafka_broker`: the test's name and a random suffix."""
    # No dots: Kafka refuses a topic whose name differs from another topic's only in dots and underscores.
    test = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name)[:_LONGEST_TEST_NAME]
    name = f"{test}-{os.urandom(4).hex()}"
    kafka_broker.create_topic(name)
    return name


def _running(kind: "type[Child]", settings: Mapping[str, Any]) -> "Iterator[Child]":
    """Run a broker or a cluster; fail with one line, without a traceback, if it does not start or stop."""
    from ottla.embedded.broker import BrokerError

    try:
        with kind(**settings) as child:
            yield child
    except (BrokerError, TypeError) as error:
        pytest.fail(f"{kind.__name__}: {error}", pytrace=False)
