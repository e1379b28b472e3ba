"""The tools of Kafka 3.9.2 have the same output with three brokers of Ottla as with three of Kafka 3.9.2.

As in `test_tools`, a scenario is a list of commands for both clusters, and each changes topics of its own. Between
commands a broker may stop and start, or pause for a while, so that moves to it wait.
"""

import re
from collections.abc import Iterator
from functools import partial

import pytest

from compat_tests.support.brokers import LAST_WITH_ZOOKEEPER, Ottla, QuickKafka
from compat_tests.support.clusters import ClusterOf, running
from compat_tests.support.tools import Printed, Tools
from compat_tests.support.zookeeper import running as zookeeper_running
from compat_tests.tools.cluster_scenarios import SCENARIOS, SETTINGS, fill, in_step, run, write_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Refusals in the words of Kafka 4.3 (whose tools `test_tools` runs), not in those of Kafka with ZooKeeper.
OTHER_WORDS = {
    "topics --alter --topic assigned --partitions 4",
    "topics --alter --topic assigned --partitions 6 --replica-assignment 1:2,2:3",
    "topics --alter --topic assigned --partitions 6 --replica-assignment 1:2,2:3,3:1,1:3,2:1,3:7",
    "topics --create --topic a_b --partitions 2 --replication-factor 2",
    "topics --alter --topic thin --partitions 2 --replica-assignment 3,3",
    "elect --election-type preferred --topic elected --partition 7",
    "elect --election-type preferred --topic gone --partition 0",
}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    with Tools(write_files(tmp_path_factory.mktemp("tools")), LAST_WITH_ZOOKEEPER) as running_tools:
        yield running_tools


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClusterOf]]:
    """Run three brokers of Ottla and three of Kafka, with the same topic."""
    folder = tmp_path_factory.mktemp("clusters")
    with zookeeper_running(folder / "zookeeper", ["maxSessionTimeout=60000"]) as zookeeper:
        both = [
            ClusterOf(kind, folder / name, f"{zookeeper.connect}/{name}", SETTINGS)
            for name, kind in (("ottla", Ottla), ("kafka", QuickKafka))
        ]
        with running(both):
            yield both


@pytest.fixture(scope="module")
def filled(tools: Tools, clusters: list[ClusterOf]) -> list[ClusterOf]:
    for cluster in clusters:
        fill(tools, cluster)
    return clusters


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_tools_print_what_they_print_against_a_cluster_of_kafka(
    name: str, tools: Tools, filled: list[ClusterOf]
) -> None:
    sides = [partial(run, tools, cluster) for cluster in filled]
    for command, ottla, apache_kafka in in_step(name, sides):
        if command in OTHER_WORDS:
            assert ottla != apache_kafka, f"{command} is no longer different"
            ottla, apache_kafka = without_words(ottla), without_words(apache_kafka)
        assert (command, ottla) == (command, apache_kafka)


def without_words(printed: Printed) -> Printed:
    """Leave only the names of errors."""
    return Printed(printed.code, *(" ".join(re.findall(r"\w+Exception\b", text)) for text in printed[1:]))
