"""The same requests about consumer groups have the same answers from Ottla and Apache Kafka 3.9.2.

Not from Apache Kafka 4, because its coordinator was rewritten and has some other answers.
"""

from collections.abc import Iterator

import pytest

from compat_tests.differential.both import Both, unexplained
from compat_tests.differential.scenarios import GROUP_SCENARIOS, Scenario, groups, offsets
from compat_tests.support.brokers import Ottla, ZooKeeperKafka, running

pytestmark = pytest.mark.slow
assert {groups, offsets}  # that they were imported is what fills GROUP_SCENARIOS
SETTINGS = ["broker.id=1", "group.initial.rebalance.delay.ms=0", "group.max.size=4"]


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    """Run both brokers on fresh data, for these tests only."""
    with running(Ottla, SETTINGS) as ottla, running(ZooKeeperKafka, SETTINGS) as kafka:
        both = Both(ottla, kafka)
        have_coordinators(both)
        yield both
        both.close()


def have_coordinators(both: Both) -> None:
    """Make both brokers create the topic of offsets, and wait until they coordinate groups."""
    both.ask_without_comparing("FindCoordinator", 4, key_type=0, coordinator_keys=["any"])
    groups.wait_for(both, "no-such-group", "Dead", 0)


@pytest.mark.parametrize("scenario", GROUP_SCENARIOS, ids=[each.run.__name__ for each in GROUP_SCENARIOS])
def test_both_coordinate_alike(both: Both, scenario: Scenario) -> None:
    both.differences.clear()
    for version in both.common_versions(scenario.api):
        both.begin(scenario.api, version)
        scenario.run(both)
    found = unexplained(both.differences, scenario.deviations)
    assert not found, "\n".join(found)
