"""Bad input to Apache Kafka 3.9.2 and to Ottla: both have the same answers but for the deviations in this module."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from compat_tests.hostile.hostile import BATCHES, OLD_VERSIONS, PROBES, codes, refused
from compat_tests.hostile.hostile_bodies import MALFORMED
from compat_tests.hostile.hostile_requests import REQUESTS
from compat_tests.support.brokers import Broker, Ottla, ZooKeeperKafka, running
from compat_tests.support.talking import CLOSED, FIND_COORDINATOR, HEARTBEAT, INIT_PRODUCER_ID, Answer, Probe, ask

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Deviation(NamedTuple):
    """Ottla's answer that differs from Kafka's, and the reason."""

    answer: Answer
    reason: str


_FAILS = "Kafka fails on it: an error that means a bug, or no answer at all"
_MALFORMED = "a count below -1 is malformed; Kafka takes it for null, or for none"
_AS_KRAFT = "as Kafka in KRaft mode: a topic that cannot work is not created"
_ONCE = "as Kafka 4: told once"
_FLOORS = "versions that Kafka 4.0 dropped are not served"
_INVALID, _ASSIGNMENT = codes(42), codes(39)

DEVIATIONS = (
    {
        "Metadata 1: -2 topics": Deviation(CLOSED, _MALFORMED),
        "Metadata 9: a huge number of tags": Deviation(CLOSED, _MALFORMED),
        "API 9 v5: -2 elements": Deviation(CLOSED, _MALFORMED),
        "API 12 v4: a huge number of tags": Deviation(CLOSED, _MALFORMED),
        "API 35 v1: -2 elements": Deviation(CLOSED, _MALFORMED),
        "create of API 19 v5: a broker that is not there": Deviation(_ASSIGNMENT, _AS_KRAFT),
        "create of API 19 v5: one partition assigned twice": Deviation(_ASSIGNMENT, _AS_KRAFT),
        "create of API 19 v5: no broker": Deviation(_ASSIGNMENT, _AS_KRAFT),
        "create of API 19 v5: broker -1": Deviation(_ASSIGNMENT, _AS_KRAFT),
        "create of API 19 v5: partition -1": Deviation(_ASSIGNMENT, _FAILS),
        "delete of API 20 v6: neither name nor id": Deviation(_INVALID, "as KRaft: nobody lacks a permission here"),
        "enlarge of API 37 v3: a path": Deviation(codes(3), _FAILS),
        "cluster of API 3 v12: neither name nor id": Deviation(_INVALID, _FAILS),
        "look-up of API 2 v9: one partition twice": Deviation(codes(42), _ONCE),
        "configs of API 33 v2: type 2 '../up'": Deviation(codes(17), "as KRaft: the name is what is wrong"),
        "configs of API 33 v2: one topic twice": Deviation(codes(42, 42), _FAILS),
        "configs of API 44 v1: operation 4": Deviation(_INVALID, _FAILS),
        "configs of API 44 v1: operation -1": Deviation(_INVALID, _FAILS),
        "configs of API 44 v1: append to an unknown config": Deviation(codes(40), _FAILS),
    }
    | {
        f"Produce: {what}": Deviation(refused(87), _FAILS)
        for what in (
            "length huge",
            "null records",
            "unknown codec",
            *(each for each in BATCHES if "junk behind " in each),
        )
        if what != "junk behind a batch"
    }
    | {what: Deviation(CLOSED, _FLOORS) for what in OLD_VERSIONS}
)

_ALL: dict[str, tuple[Probe, Answer]] = PROBES | REQUESTS | MALFORMED


@pytest.fixture(scope="module", params=[Ottla, ZooKeeperKafka], ids=["ottla", "kafka-3.9"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with running(request.param, ["broker.id=1", "offsets.topic.num.partitions=1"]) as broker:
        # Kafka makes the first clients retry until it has fetched producer ids.
        while ask(broker.bootstrap, INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=1) == codes(14):
            pass
        have_coordinator(broker)
        yield broker
        assert ask(broker.bootstrap, 18, 0) == codes(0)
        assert "A bug" not in broker.output()


def have_coordinator(broker: Broker) -> None:
    """Wait until the broker coordinates groups."""
    while ask(broker.bootstrap, FIND_COORDINATOR, 2, key="any", key_type=0) != codes(0):
        pass
    nobody = {"group_id": "any", "generation_id": 1, "member_id": "nobody"}
    while ask(broker.bootstrap, HEARTBEAT, 2, **nobody) != codes(25):
        pass


def test_every_deviation_is_one() -> None:
    assert all(deviation.answer != _ALL[what][1] for what, deviation in DEVIATIONS.items())


@pytest.mark.parametrize("what", _ALL)
def test_bad_input_is_answered_as_by_kafka(broker: Broker, what: str) -> None:
    probe, expected = _ALL[what]
    if isinstance(broker, Ottla) and what in DEVIATIONS:
        expected = DEVIATIONS[what].answer
    assert probe(broker.bootstrap, f"probe-{list(_ALL).index(what)}") == expected
