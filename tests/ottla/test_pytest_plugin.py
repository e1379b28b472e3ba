"""The fixture `kafka_broker`, as any project gets it that has Ottla installed."""

import socket

import pytest

from ottla import Broker


@pytest.mark.slow
def test_the_fixture_gives_a_broker_that_serves(kafka_broker: Broker) -> None:
    host, port = kafka_broker.bootstrap.rsplit(":", 1)
    socket.create_connection((host, int(port)), 5).close()


@pytest.mark.slow
def test_the_fixture_gives_one_broker_for_the_whole_run(kafka_broker: Broker, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue("kafka_broker") is kafka_broker
