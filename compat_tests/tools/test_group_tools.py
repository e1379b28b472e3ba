"""Kafka's tools for consumer groups have the same output with Ottla as with Kafka, word for word.

As in test_tools.py, a scenario is a list of commands for both brokers; `group_scenarios` has them.
"""

import contextlib
import re
import shlex
import time
from collections.abc import Iterator

import confluent_kafka
import kafka
import kafka.admin
import pytest

from compat_tests.differential.both import Side
from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, ZooKeeperKafka, running
from compat_tests.support.clients import PATIENCE_S, create_topic
from compat_tests.support.tools import Printed, Tools
from compat_tests.tools.group_scenarios import FILES, SCENARIOS, SETTINGS, TOOL, commit, prepared, without_ids

pytestmark = pytest.mark.slow

CLASSES = {
    "consumer-groups": TOOL,
    "dump": "org.apache.kafka.tools.DumpLogSegments",
}
# The tool's output for a group that does not exist: dead in Ottla's version of DescribeGroups, an error in the newer
# version of Kafka 4.
DIFFERENT = {
    "consumer-groups --describe --group gone": "Error: Consumer group 'gone' does not exist.",
    "consumer-groups --describe --group gone --members": "Error: Consumer group 'gone' does not exist.",
    "consumer-groups --describe --group gone --state": "Error: Consumer group 'gone' does not exist.",
    "consumer-groups --describe --group stable --group gone": "Error: Consumer group 'gone' does not exist.",
    "consumer-groups --describe --group no-group-yet": "Error: Consumer group 'no-group-yet' does not exist.",
    "consumer-groups --describe --group doomed": "Error: Consumer group 'doomed' does not exist.",
}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    folder = tmp_path_factory.mktemp("tools")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    with Tools(folder) as running_tools:
        yield running_tools


@pytest.fixture(scope="module")
def brokers(tools: Tools) -> Iterator[list[Broker]]:
    """Run both brokers, each alone with the same topics and groups."""
    with contextlib.ExitStack() as stack:
        started = []
        for kind, settings in ((Ottla, ["broker.id=1"]), (ApacheKafka, [])):
            broker = stack.enter_context(running(kind, [*settings, *SETTINGS]))
            stack.enter_context(prepared(tools, broker))
            started.append(broker)
        yield started


def write_all_kinds_of_records(broker: Broker) -> None:
    """Make a broker write all types of records of groups."""
    create_topic(broker.bootstrap, "read", 2)
    for partition in range(2):
        commit(broker, "dumped", "read", {partition: 7 + partition})
    member = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "dumped",
            "client.id": "reader",
            "group.instance.id": "first",
            "partition.assignment.strategy": "roundrobin",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    member.subscribe(["read"])
    deadline = time.monotonic() + PATIENCE_S
    while len(member.assignment()) < 2:
        assert time.monotonic() < deadline
        member.poll(0.1)
    member.commit(offsets=[confluent_kafka.TopicPartition("read", 0, 3, metadata="so far")], asynchronous=False)
    member.close()
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.remove_group_members("dumped", [kafka.admin.MemberToRemove(group_instance_id="first")])
    admin.delete_group_offsets("dumped", [kafka.TopicPartition("read", 1)])
    admin.delete_groups(["dumped"])
    admin.close()
    commit_for_a_moment(broker, "forgotten", "read")


def commit_for_a_moment(broker: Broker, group: str, topic: str) -> None:
    """Commit an offset with a retention time, and wait until it has expired together with its group."""
    side = Side(broker)
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": 1}
    told = side.ask("OffsetCommit", 4, {**fields, "topics": [{"name": topic, "partitions": [partition]}]})
    assert told["topics"][0]["partitions"][0]["error_code"] == 0
    deadline = time.monotonic() + PATIENCE_S
    while side.ask("DescribeGroups", 5, {"groups": [group]})["groups"][0]["group_state"] != "Dead":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    side.close()


def dumped(tools: Tools, broker: Broker) -> list[str]:
    """Return the keys and values of Kafka's tool for the log of offsets of a stopped broker."""
    segment = broker.data / "log" / "__consumer_offsets-0" / "00000000000000000000.log"
    code, printed, complaints = tools.run(CLASSES["dump"], "--offsets-decoder", "--files", str(segment))
    assert (code, complaints) == (0, "")
    found = [line.split(" key: ", 1)[1] for line in printed.splitlines() if " key: " in line]
    found = [re.sub(r'("\w*[tT]imestamp":)\d+', r"\1T", line) for line in found]
    return [re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", line) for line in found]


def run(tools: Tools, broker: Broker, command: str) -> Printed:
    tool, *arguments = shlex.split(command)
    code, *printed = tools.run(CLASSES[tool], "--bootstrap-server", broker.bootstrap, *arguments)
    return Printed(code, *(normalized(broker, command, text) for text in printed))


def normalized(broker: Broker, command: str, text: str) -> str:
    """Leave out what differs between brokers, and the place in the tool where an error was caught."""
    text = text.replace(broker.bootstrap, "HOST:PORT")
    text = re.sub(r"adminclient-\d+", "adminclient-N", text)
    text = re.sub(r"\n\t(at .*|\.\.\. \d+ more)", "", text)
    return without_ids(text, command)


def test_the_dump_tool_reads_the_offsets_that_were_written(tools: Tools) -> None:
    found = []
    for kind in (Ottla, ZooKeeperKafka):
        with running(kind, ["broker.id=1", "offsets.retention.check.interval.ms=500", *SETTINGS]) as broker:
            write_all_kinds_of_records(broker)
            broker.stop()
            found.append(dumped(tools, broker))
    assert len(found[0]) == 10
    assert found[0] == found[1]


LOOKS = ("--describe", "--list")
TRIES = 50


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_tool_prints_what_it_prints_against_kafka(name: str, tools: Tools, brokers: list[Broker]) -> None:
    for command in filter(None, map(str.strip, SCENARIOS[name].splitlines())):
        for _ in range(TRIES if any(word in command for word in LOOKS) and command not in DIFFERENT else 1):
            measured, apache_kafka = (run(tools, broker, command) for broker in brokers)
            if measured == apache_kafka:
                break
            time.sleep(0.1)
        if command in DIFFERENT:
            assert DIFFERENT[command] in measured.stdout
            assert DIFFERENT[command] not in apache_kafka.stdout
        else:
            assert (command, measured) == (command, apache_kafka)
