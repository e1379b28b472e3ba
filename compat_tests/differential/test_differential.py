"""The same requests to Ottla and to Apache Kafka 4.3.1 have the same answers, in every version that both advertise."""

from collections.abc import Iterator

import pytest

from compat_tests.differential.both import Both, api_key, unexplained
from compat_tests.differential.generated.specification import key_of
from compat_tests.differential.scenarios import (
    GROUP_SCENARIOS,
    SCENARIOS,
    Scenario,
    cluster,
    groups,
    offsets,
    records,
    topics,
)
from compat_tests.support.brokers import ApacheKafka, Ottla, running
from compat_tests.transactions.illegal.scenarios import SCENARIOS as ILLEGAL_ACTS

pytestmark = pytest.mark.slow
# Requests between brokers, which Kafka 4 does not have any more.
OF_BROKERS = {4, 5, 6, 7, 56, 67}
assert {cluster, groups, offsets, records, topics}  # that they were imported is what fills SCENARIOS


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    """Run both brokers on fresh data, for these tests only."""
    # The same id as Kafka's, because messages contain it.
    with running(Ottla, ["broker.id=1"]) as ottla, running(ApacheKafka) as kafka:
        both = Both(ottla, kafka)
        yield both
        both.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.run.__name__ for each in SCENARIOS])
def test_both_answer_alike(both: Both, scenario: Scenario) -> None:
    both.differences.clear()
    for version in both.common_versions(scenario.api):
        both.begin(scenario.api, version)
        scenario.run(both)
    found = unexplained(both.differences, scenario.deviations)
    assert not found, "\n".join(found)


def test_every_api_that_ottla_advertises_is_asked(both: Both) -> None:
    asked = {api_key(each.api) for each in SCENARIOS + GROUP_SCENARIOS}
    # `test_illegal_acts_in_all_versions` asks Apache Kafka 4.3.1, too.
    asked |= {key_of(each.subject) for each in ILLEGAL_ACTS}
    assert asked == set(both.ottla.versions) - OF_BROKERS
