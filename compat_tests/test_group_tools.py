"""Kafka's own tools for consumer groups print against one broker what they print against another, word for word.

As in test_tools.py a scenario is a list of commands that is run against both. Those that name a group of their own make
it: resetting offsets does, where there are none yet.
"""

import contextlib
import re
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Self

import confluent_kafka
import kafka
import kafka.admin
import pytest

from compat_tests.both import Side
from compat_tests.brokers import ApacheKafka, Broker, Ottla, ZooKeeperKafka, running
from compat_tests.clients import PATIENCE_S, create_topic
from compat_tests.tools import Printed, Tools

pytestmark = pytest.mark.slow
SETTINGS = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1"]

CLASSES = {
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "dump": "org.apache.kafka.tools.DumpLogSegments",
}
FILES = {
    "plan.csv": '"filled",0,2\n"filled",1,1\n',
    "plan-of-groups.csv": '"file-one","filled",0,2\n"file-two","filled",1,1\n',
    "plan-beyond.csv": '"filled",0,99\n"filled",1,0\n',
    "plan-broken.csv": "filled;0;2\n",
}
# Kafka 4 tells in a new version of DescribeGroups that a group is not there, which is beyond Ottla's. In the older one
# such a group is dead; what the tool makes of that.
DIFFERENT = {
    "groups --describe --group gone": "Error: Consumer group 'gone' does not exist.",
    "groups --describe --group gone --members": "Error: Consumer group 'gone' does not exist.",
    "groups --describe --group gone --state": "Error: Consumer group 'gone' does not exist.",
    "groups --describe --group stable --group gone": "Error: Consumer group 'gone' does not exist.",
    "groups --describe --group no-group-yet": "Error: Consumer group 'no-group-yet' does not exist.",
    "groups --describe --group doomed": "Error: Consumer group 'doomed' does not exist.",
}

SCENARIOS = {
    "groups are listed": """
        groups --list
        groups --list --state
        groups --list --state Stable
        groups --list --state stable,empty
        groups --list --state dead
        groups --list --type
        groups --list --type classic
        groups --list --type Classic
        groups --list --type consumer
        groups --list --state Empty --type classic
        groups --list --type consumer --state Stable
    """,
    "groups are described": """
        groups --describe --group stable
        groups --describe --group stable --offsets
        groups --describe --group stable --offsets --verbose
        groups --describe --group stable --members
        groups --describe --group stable --members --verbose
        groups --describe --group stable --state
        groups --describe --group stable --state --verbose
        groups --describe --group static
        groups --describe --group static --members --verbose
        groups --describe --group static --state
        groups --describe --group simple
        groups --describe --group simple --verbose
        groups --describe --group simple --members
        groups --describe --group simple --state
        groups --describe --group left
        groups --describe --group left --members
        groups --describe --group left --state
        groups --describe --group gone
        groups --describe --group gone --members
        groups --describe --group gone --state
        groups --describe --group stable --group simple
        groups --describe --group stable --group gone
        groups --describe --all-groups --state
        groups --describe --all-groups --members
        groups --describe --all-groups
    """,
    "offsets are reset": """
        groups --reset-offsets --group no-group-yet --topic filled --to-earliest
        groups --reset-offsets --group no-group-yet --topic filled --to-earliest --dry-run
        groups --describe --group no-group-yet
        groups --reset-offsets --group fresh --topic filled --to-latest --execute
        groups --describe --group fresh
        groups --reset-offsets --group fresh --topic filled --to-earliest --execute
        groups --describe --group fresh
        groups --reset-offsets --group fresh --topic filled --to-offset 3 --execute
        groups --reset-offsets --group fresh --topic filled --to-offset 99 --execute
        groups --reset-offsets --group fresh --topic filled --to-offset -7 --execute
        groups --reset-offsets --group fresh --topic filled:0 --shift-by 2 --execute
        groups --describe --group fresh
        groups --reset-offsets --group fresh --topic filled:0 --shift-by -1 --execute
        groups --reset-offsets --group fresh --topic filled --shift-by 100
        groups --reset-offsets --group fresh --topic filled --shift-by -100
        groups --reset-offsets --group fresh --topic filled --to-current --execute
        groups --reset-offsets --group fresh --topic filled:0,1 --to-current
        groups --reset-offsets --group fresh --all-topics --to-earliest --execute
        groups --describe --group fresh
        groups --reset-offsets --group fresh --topic filled --topic other --to-latest --execute
        groups --describe --group fresh
        groups --describe --group fresh --state
        groups --reset-offsets --group fresh --all-topics --shift-by -1 --dry-run
    """,
    "offsets are reset to a time": """
        groups --reset-offsets --group timed --topic filled --to-datetime 2023-11-14T22:13:22.000Z --execute
        groups --describe --group timed
        groups --reset-offsets --group timed --topic filled --to-datetime 2023-11-15T00:13:23.000+02:00
        groups --reset-offsets --group timed --topic filled --to-datetime 1999-12-31T23:59:59.000Z
        groups --reset-offsets --group timed --topic filled --to-datetime 2035-01-01T00:00:00.000Z
        groups --reset-offsets --group timed --topic filled --to-datetime yesterday
        groups --reset-offsets --group timed --topic filled --by-duration PT1H
        groups --reset-offsets --group timed --topic filled --by-duration P9999D --execute
        groups --describe --group timed
        groups --reset-offsets --group timed --topic filled --by-duration soon
    """,
    "offsets are reset from a file": """
        groups --reset-offsets --group file --from-file plan.csv
        groups --reset-offsets --group file --from-file plan.csv --execute
        groups --describe --group file
        groups --reset-offsets --group file-one --group file-two --from-file plan-of-groups.csv --execute
        groups --describe --group file-one
        groups --describe --group file-two
        groups --reset-offsets --group file --from-file plan-beyond.csv --execute
        groups --reset-offsets --group file --from-file plan-broken.csv --execute
        groups --reset-offsets --group file --from-file no-such-file.csv --execute
        groups --reset-offsets --group file --topic filled --to-earliest --export
        groups --reset-offsets --group file-one --group file-two --topic filled --to-earliest --export
        groups --describe --group file
    """,
    "offsets that cannot be reset are refused": """
        groups --reset-offsets --group stable --topic filled --to-earliest --execute
        groups --reset-offsets --group stable --topic filled --to-earliest
        groups --describe --group stable
        groups --reset-offsets --group refused --topic gone --to-earliest --execute
        groups --reset-offsets --group refused --topic filled:7 --to-earliest --execute
        groups --reset-offsets --group refused --topic filled --to-current --execute
        groups --reset-offsets --group refused --topic filled --shift-by 1
        groups --reset-offsets --group refused --all-topics --to-earliest
        groups --reset-offsets --all-groups --topic other --to-latest --dry-run
        groups --describe --group refused
    """,
    "offsets are deleted": """
        groups --reset-offsets --group forgetful --topic filled --topic other --to-latest --execute
        groups --delete-offsets --group forgetful --topic other
        groups --describe --group forgetful
        groups --delete-offsets --group forgetful --topic filled:1
        groups --describe --group forgetful
        groups --delete-offsets --group forgetful --topic filled:1
        groups --delete-offsets --group forgetful --topic filled:7
        groups --delete-offsets --group forgetful --topic gone
        groups --delete-offsets --group forgetful --topic filled:0
        groups --delete-offsets --group gone --topic filled
        groups --delete-offsets --group stable --topic filled
        groups --delete-offsets --group stable --topic other
    """,
    "groups are deleted": """
        groups --reset-offsets --group doomed --topic filled --to-latest --execute
        groups --reset-offsets --group doomed-too --topic filled --to-latest --execute
        groups --delete --group doomed
        groups --describe --group doomed
        groups --delete --group doomed
        groups --delete --group stable
        groups --delete --group doomed-too --group stable
        groups --delete --group gone --group stable
        groups --list
        groups --delete --group left
        groups --delete --all-groups
        groups --list
        groups --describe --all-groups
    """,
}


class Members:
    """Consumers that stay in their groups, each polled by a thread of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def add(self, group: str, client: str, topics: Sequence[str], **settings: Any) -> None:
        """Have a consumer join."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "client.id": client,
                "enable.auto.commit": False,
                "partition.assignment.strategy": "range",
                "log_level": 0,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        thread = threading.Thread(target=self._poll, args=(consumer, list(topics)))
        self._threads.append(thread)
        thread.start()

    def _poll(self, consumer: confluent_kafka.Consumer, topics: list[str]) -> None:
        consumer.subscribe(topics)
        while not self._over.is_set():
            consumer.poll(0.1)
        consumer.close()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    folder = tmp_path_factory.mktemp("tools")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    with Tools(folder) as running_tools:
        yield running_tools


@pytest.fixture(scope="module")
def brokers(tools: Tools) -> Iterator[list[Broker]]:
    """Two brokers, each alone with the same topics and groups."""
    with contextlib.ExitStack() as stack:
        started = []
        for kind, settings in ((Ottla, ["broker.id=1"]), (ApacheKafka, [])):
            broker = stack.enter_context(running(kind, [*settings, *SETTINGS]))
            stack.enter_context(prepared(tools, broker))
            started.append(broker)
        yield started


@contextlib.contextmanager
def prepared(tools: Tools, broker: Broker) -> Iterator[None]:
    """Make topics and groups, with members for as long as the block lasts."""
    create_topic(broker.bootstrap, "filled", 3, {"retention.ms": "-1"})
    create_topic(broker.bootstrap, "other", 1, {"retention.ms": "-1"})
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(5):
        for topic, partition in (("filled", 0), ("filled", 1), ("other", 0)):
            at = 1_700_000_000_000 + number * 1000
            producer.send(topic, b"v", b"k", partition=partition, timestamp_ms=at).get(PATIENCE_S)
    producer.close(PATIENCE_S)
    commit(broker, "simple", "filled", {0: 2, 2: 0})
    commit(broker, "simple", "other", {0: 5})
    with Members(broker.bootstrap) as leaving:
        leaving.add("left", "leaver", ["other"])
        wait_for_members(tools, broker, "left", 1)
    commit(broker, "left", "other", {0: 1})
    commit(broker, "stable", "filled", {0: 1, 1: 5})
    commit(broker, "stable", "other", {0: 3})
    with Members(broker.bootstrap) as members:
        for client in ("one", "two"):
            members.add("stable", client, ["filled"])
        members.add("static", "three", ["filled", "other"], group_instance_id="first")
        wait_for_members(tools, broker, "stable", 2)
        wait_for_members(tools, broker, "static", 1)
        yield


def commit(broker: Broker, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit offsets as somebody who is in no group."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    parts = [confluent_kafka.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    found = consumer.commit(offsets=parts, asynchronous=False)
    assert found is not None
    assert not any(each.error for each in found)
    consumer.close()


def wait_for_members(tools: Tools, broker: Broker, group: str, count: int) -> None:
    """Wait until a group is stable, with so many members."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        told = run(tools, broker, f"groups --describe --group {group} --state").stdout.split()
        if told[-2:] == ["Stable", str(count)]:
            return
        assert time.monotonic() < deadline, told


def write_all_kinds_of_records(broker: Broker) -> None:
    """Have a broker write of a group all that it can."""
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
    """Commit an offset that says itself when it expires; return when it has, and its group with it."""
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
    """Return the keys and values that Kafka's tool finds in the log of offsets of a broker that has ended."""
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
    """Leave out what no two brokers have in common, and where in the tool an error was caught."""
    text = text.replace(broker.bootstrap, "HOST:PORT")
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    text = re.sub(r"adminclient-\d+", "adminclient-N", text)
    text = re.sub(r"\n\t(at .*|\.\.\. \d+ more)", "", text)
    if any(word in command for word in ("--list", "--all-groups", "--members")):  # in the order of hash maps
        text = "\n".join(sorted(text.splitlines()))
    return text


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
