"""The whole table in all versions, also beside Apache Kafka 4.3.1 at level 0 of transaction.version."""

from collections.abc import Iterator

import pytest

from compat_tests.differential.generated.codec import Codec
from compat_tests.differential.generated.controllers import fresh_pair
from compat_tests.differential.generated.pair import Pair
from compat_tests.support.brokers import ApacheKafka, Ottla, running
from compat_tests.transactions.illegal import states
from compat_tests.transactions.illegal.allowed import FROM_3_9, FROM_4_3
from compat_tests.transactions.illegal.scenarios import SCENARIOS
from compat_tests.transactions.illegal.stage import ME_IN_ZOOKEEPER, SETTINGS, Scenario, Stage

pytestmark = [pytest.mark.slow, pytest.mark.compat]


class KafkaAtLevel0(ApacheKafka):
    """Apache Kafka 4.3.1 with the transactions of 3.9."""

    features = ("transaction.version=0",)


@pytest.fixture(scope="module")
def codec() -> Iterator[Codec]:
    """Run the process of Kafka's classes."""
    with Codec() as codec:
        yield codec


@pytest.fixture(scope="module")
def beside_3_9(codec: Codec) -> Iterator[Stage]:
    """Run both brokers."""
    with fresh_pair(codec, [*SETTINGS, *ME_IN_ZOOKEEPER]) as pair:
        yield Stage(pair, FROM_3_9)
        pair.close()


@pytest.fixture(scope="module")
def beside_4_3(codec: Codec) -> Iterator[Stage]:
    """Run both brokers."""
    with running(Ottla, [*SETTINGS, *ME_IN_ZOOKEEPER]) as ottla, running(KafkaAtLevel0, SETTINGS) as kafka:
        pair = Pair(ottla, kafka, codec)
        yield Stage(pair, FROM_4_3)
        pair.close()
        assert "A bug" not in ottla.output()


def _played(stage: Stage, *scenarios: Scenario) -> str:
    found = [stage.play(each, version) for each in scenarios for version in stage.versions(each)]
    return "\n".join(filter(None, found))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name for each in SCENARIOS])
def test_both_answer_alike(beside_3_9: Stage, scenario: Scenario) -> None:
    found = _played(beside_3_9, scenario)
    assert not found, found


@pytest.mark.parametrize("api", states.APIS)
@pytest.mark.parametrize("state", [*states.STATES, *states.HELD])
def test_both_answer_alike_in_every_state(beside_3_9: Stage, state: str, api: str) -> None:
    found = _played(beside_3_9, *states.scenarios(state, api))
    assert not found, found


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name for each in SCENARIOS])
def test_4_3_answers_alike(beside_4_3: Stage, scenario: Scenario) -> None:
    found = _played(beside_4_3, scenario)
    assert not found, found


@pytest.mark.parametrize("api", states.APIS)
@pytest.mark.parametrize("state", states.STATES)
def test_4_3_answers_alike_in_every_state(beside_4_3: Stage, state: str, api: str) -> None:
    found = _played(beside_4_3, *states.scenarios(state, api))
    assert not found, found


def test_each_allowed_difference_is_met(beside_3_9: Stage, beside_4_3: Stage) -> None:
    anywhere = [each for state in states.STATES for api in states.APIS for each in states.scenarios(state, api)]
    everywhere = [*SCENARIOS, *anywhere]
    held = [each for state in states.HELD for api in states.APIS for each in states.scenarios(state, api)]
    left = beside_3_9.never_met([*everywhere, *held]), beside_4_3.never_met(everywhere)
    if None in left:
        pytest.skip("not all scenarios were run")
    assert left == ([], [])


@pytest.mark.parametrize("scenario", states.EPOCHS, ids=[each.name for each in states.EPOCHS])
@pytest.mark.parametrize("beside", ["beside_3_9", "beside_4_3"])
def test_both_answer_alike_at_the_last_epochs(request: pytest.FixtureRequest, beside: str, scenario: Scenario) -> None:
    stage: Stage = request.getfixturevalue(beside)
    found = stage.play(scenario, stage.versions(scenario)[-1])
    assert found is None, found
