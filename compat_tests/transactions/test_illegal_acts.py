"""Illegal acts of transactional clients have the same answers from Ottla and Apache Kafka 3.9.2 with ZooKeeper.

Each named scenario runs in the lowest and the highest version of its API, each act in each state in one version, by
turns. `test_illegal_acts_in_all_versions` runs all in all versions.
"""

from collections.abc import Iterator

import pytest

from compat_tests.differential.generated.codec import Codec
from compat_tests.differential.generated.controllers import fresh_pair
from compat_tests.transactions.illegal import states
from compat_tests.transactions.illegal.allowed import FROM_3_9
from compat_tests.transactions.illegal.scenarios import SCENARIOS
from compat_tests.transactions.illegal.stage import ME_IN_ZOOKEEPER, SETTINGS, Scenario, Stage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Run both brokers."""
    with Codec() as codec, fresh_pair(codec, [*SETTINGS, *ME_IN_ZOOKEEPER]) as pair:
        yield Stage(pair, FROM_3_9)
        pair.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name for each in SCENARIOS])
def test_both_answer_alike(stage: Stage, scenario: Scenario) -> None:
    versions = stage.versions(scenario)
    found = [stage.play(scenario, version) for version in sorted({versions[0], versions[-1]})]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("api", states.APIS)
@pytest.mark.parametrize("state", [*states.STATES, *states.HELD])
def test_both_answer_alike_in_every_state(stage: Stage, state: str, api: str) -> None:
    found = []
    for number, scenario in enumerate(states.scenarios(state, api)):
        versions = stage.versions(scenario)
        found.append(stage.play(scenario, versions[number % len(versions)]))
    assert not any(found), "\n".join(filter(None, found))
