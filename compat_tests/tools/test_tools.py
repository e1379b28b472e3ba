"""Kafka's admin tools have the same output with Ottla as with Apache Kafka, word for word.

A scenario is a list of commands for both brokers. Each changes topics of its own; `prepare` creates topics that all may
describe. After a change the scenario describes it, repeatedly until both brokers agree, because a KRaft broker applies
a change some time after its response.
"""

import contextlib
import json
import re
import shlex
import time
from collections.abc import Iterator

import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running
from compat_tests.support.tools import Printed, Tools, normalized
from compat_tests.tools.tool_scenarios import CLASSES, FILES, HASTY, SCENARIOS, prepare

pytestmark = pytest.mark.slow

# Allowed differences: the command, and the reason.
DIFFERENT = {
    "topics --create --topic refused --replication-factor 2": "speaks of directories that Ottla cannot cordon",
    "get-offsets --topic filled --time -6": "remote storage of Kafka 4.2: a version of ListOffsets beyond Ottla's",
    "get-offsets --topic filled --time earliest-pending-upload": "as the one before",
    "configs --alter --topic misconfigured --add-config segment.bytes=1": "Kafka 4.0 raised the bound from 14 to 1 MiB",
}
# Kafka 4.0 dropped the first three, and changed the default of the last one.
KEYS_OF_KAFKA_3 = (
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
    "message.timestamp.after.max.ms",
)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    folder = tmp_path_factory.mktemp("tools")
    for name, content in FILES.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "hasty.properties").write_text(HASTY)
    with Tools(folder) as running_tools:
        yield running_tools


@pytest.fixture(scope="module")
def brokers(tools: Tools) -> Iterator[list[Broker]]:
    """Run Ottla and Kafka, each alone with the same topics."""
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(running(kind, ["node.id=1"])) for kind in (Ottla, ApacheKafka)]
        for broker in started:
            prepare(tools, broker)
        yield started


def run(tools: Tools, broker: Broker, command: str) -> Printed:
    tool, *arguments = shlex.split(command)
    printed = tools.run(CLASSES[tool], "--bootstrap-server", broker.bootstrap, *arguments)
    code, stdout, stderr = normalized(printed, {broker.bootstrap: "HOST:PORT", str(broker.data): "DATA"})
    return Printed(code, re.sub(rf"^  ({'|'.join(KEYS_OF_KAFKA_3)})=.*\n", "", stdout, flags=re.MULTILINE), stderr)


LOOKS = ("--describe", "--list", "get-offsets")
TRIES = 50


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_tools_print_what_they_print_against_kafka(name: str, tools: Tools, brokers: list[Broker]) -> None:
    for command in filter(None, map(str.strip, SCENARIOS[name].splitlines())):
        for _ in range(TRIES if any(word in command for word in LOOKS) and command not in DIFFERENT else 1):
            ottla, apache_kafka = (run(tools, broker, command) for broker in brokers)
            if ottla == apache_kafka:
                break
            time.sleep(0.1)
        if command in DIFFERENT:
            assert ottla != apache_kafka, f"{command} is no longer different"
        else:
            assert (command, ottla) == (command, apache_kafka)


OF_BROKERS = {
    *("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition", "AllocateProducerIds")
}


def test_the_tool_tells_versions_of_all_that_both_have(tools: Tools, brokers: list[Broker]) -> None:
    # Most requests between brokers with ZooKeeper are too old for the tool, as with Kafka 3.9.
    old = r"\d+ to \d+ \[unusable: node too new\]"
    line = re.compile(rf"\t(\w+)\((\d+)\): (?:UNSUPPORTED|{old}|(\d+)(?: to (\d+))? \[usable: (\d+)\]),?")
    told = []
    for broker in brokers:
        code, printed, complaints = run(tools, broker, "broker-api-versions")
        first, *lines, last = printed.splitlines()
        assert (code, complaints, last) == (0, "", ")")
        assert first == "HOST:PORT (id: 1 rack: null isFenced: false) -> ("
        found = [line.fullmatch(each) for each in lines]
        assert all(found)
        told.append({each[1]: each.groups()[2:] for each in found if each})
    ottla, apache_kafka = told
    assert [name for name in ottla if name not in OF_BROKERS] == list(apache_kafka)
    both = {name for name in apache_kafka if ottla[name][0] is not None}
    assert {"Produce", "Fetch", "Metadata", "CreateTopics", "DescribeConfigs"} <= both
    for name in both:
        lowest, highest, usable = ottla[name]
        assert lowest == apache_kafka[name][0]
        # The tool knows all versions of Kafka 4.3, and Ottla has no later ones.
        assert usable == (highest or lowest)
        assert int(usable) <= int(apache_kafka[name][2])
