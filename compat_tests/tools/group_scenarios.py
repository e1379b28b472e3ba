"""Lists of commands of Kafka's tool for consumer groups, and their topics, groups and members.

Scenarios with a group of their own create it by resetting its offsets. `test_group_tools` runs them with Kafka's tool
on Ottla and on Kafka, `test_shims` with Ottla's imitation of it and with Kafka's tool.
"""

import contextlib
import re
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Self

import confluent_kafka
import kafka

from compat_tests.support.brokers import Broker
from compat_tests.support.clients import PATIENCE_S, create_topic
from compat_tests.support.tools import Runs

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SETTINGS = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1"]
FILES = {
    "plan.csv": '"filled",0,2\n"filled",1,1\n',
    "plan-of-groups.csv": '"file-one","filled",0,2\n"file-two","filled",1,1\n',
    "plan-beyond.csv": '"filled",0,99\n"filled",1,0\n',
    "plan-broken.csv": "filled;0;2\n",
}
SCENARIOS = {
    "groups are listed": """
        consumer-groups --list
        consumer-groups --list --state
        consumer-groups --list --state Stable
        consumer-groups --list --state stable,empty
        consumer-groups --list --state dead
        consumer-groups --list --type
        consumer-groups --list --type classic
        consumer-groups --list --type Classic
        consumer-groups --list --type consumer
        consumer-groups --list --state Empty --type classic
        consumer-groups --list --type consumer --state Stable
    """,
    "groups are described": """
        consumer-groups --describe --group stable
        consumer-groups --describe --group stable --offsets
        consumer-groups --describe --group stable --offsets --verbose
        consumer-groups --describe --group stable --members
        consumer-groups --describe --group stable --members --verbose
        consumer-groups --describe --group stable --state
        consumer-groups --describe --group stable --state --verbose
        consumer-groups --describe --group static
        consumer-groups --describe --group static --members --verbose
        consumer-groups --describe --group static --state
        consumer-groups --describe --group simple
        consumer-groups --describe --group simple --verbose
        consumer-groups --describe --group simple --members
        consumer-groups --describe --group simple --state
        consumer-groups --describe --group left
        consumer-groups --describe --group left --members
        consumer-groups --describe --group left --state
        consumer-groups --describe --group gone
        consumer-groups --describe --group gone --members
        consumer-groups --describe --group gone --state
        consumer-groups --describe --group stable --group simple
        consumer-groups --describe --group stable --group gone
        consumer-groups --describe --all-groups --state
        consumer-groups --describe --all-groups --members
        consumer-groups --describe --all-groups
    """,
    "offsets are reset": """
        consumer-groups --reset-offsets --group no-group-yet --topic filled --to-earliest
        consumer-groups --reset-offsets --group no-group-yet --topic filled --to-earliest --dry-run
        consumer-groups --describe --group no-group-yet
        consumer-groups --reset-offsets --group fresh --topic filled --to-latest --execute
        consumer-groups --describe --group fresh
        consumer-groups --reset-offsets --group fresh --topic filled --to-earliest --execute
        consumer-groups --describe --group fresh
        consumer-groups --reset-offsets --group fresh --topic filled --to-offset 3 --execute
        consumer-groups --reset-offsets --group fresh --topic filled --to-offset 99 --execute
        consumer-groups --reset-offsets --group fresh --topic filled --to-offset -7 --execute
        consumer-groups --reset-offsets --group fresh --topic filled:0 --shift-by 2 --execute
        consumer-groups --describe --group fresh
        consumer-groups --reset-offsets --group fresh --topic filled:0 --shift-by -1 --execute
        consumer-groups --reset-offsets --group fresh --topic filled --shift-by 100
        consumer-groups --reset-offsets --group fresh --topic filled --shift-by -100
        consumer-groups --reset-offsets --group fresh --topic filled --to-current --execute
        consumer-groups --reset-offsets --group fresh --topic filled:0,1 --to-current
        consumer-groups --reset-offsets --group fresh --all-topics --to-earliest --execute
        consumer-groups --describe --group fresh
        consumer-groups --reset-offsets --group fresh --topic filled --topic other --to-latest --execute
        consumer-groups --describe --group fresh
        consumer-groups --describe --group fresh --state
        consumer-groups --reset-offsets --group fresh --all-topics --shift-by -1 --dry-run
    """,
    "offsets are reset to a time": """
        consumer-groups --reset-offsets --group timed --topic filled --to-datetime 2023-11-14T22:13:22.000Z --execute
        consumer-groups --describe --group timed
        consumer-groups --reset-offsets --group timed --topic filled --to-datetime 2023-11-15T00:13:23.000+02:00
        consumer-groups --reset-offsets --group timed --topic filled --to-datetime 1999-12-31T23:59:59.000Z
        consumer-groups --reset-offsets --group timed --topic filled --to-datetime 2035-01-01T00:00:00.000Z
        consumer-groups --reset-offsets --group timed --topic filled --to-datetime yesterday
        consumer-groups --reset-offsets --group timed --topic filled --by-duration PT1H
        consumer-groups --reset-offsets --group timed --topic filled --by-duration P9999D --execute
        consumer-groups --describe --group timed
        consumer-groups --reset-offsets --group timed --topic filled --by-duration soon
    """,
    "offsets are reset from a file": """
        consumer-groups --reset-offsets --group file --from-file plan.csv
        consumer-groups --reset-offsets --group file --from-file plan.csv --execute
        consumer-groups --describe --group file
        consumer-groups --reset-offsets --group file-one --group file-two --from-file plan-of-groups.csv --execute
        consumer-groups --describe --group file-one
        consumer-groups --describe --group file-two
        consumer-groups --reset-offsets --group file --from-file plan-beyond.csv --execute
        consumer-groups --reset-offsets --group file --from-file plan-broken.csv --execute
        consumer-groups --reset-offsets --group file --from-file no-such-file.csv --execute
        consumer-groups --reset-offsets --group file --topic filled --to-earliest --export
        consumer-groups --reset-offsets --group file-one --group file-two --topic filled --to-earliest --export
        consumer-groups --describe --group file
    """,
    "offsets that cannot be reset are refused": """
        consumer-groups --reset-offsets --group stable --topic filled --to-earliest --execute
        consumer-groups --reset-offsets --group stable --topic filled --to-earliest
        consumer-groups --describe --group stable
        consumer-groups --reset-offsets --group refused --topic gone --to-earliest --execute
        consumer-groups --reset-offsets --group refused --topic filled:7 --to-earliest --execute
        consumer-groups --reset-offsets --group refused --topic filled --to-current --execute
        consumer-groups --reset-offsets --group refused --topic filled --shift-by 1
        consumer-groups --reset-offsets --group refused --all-topics --to-earliest
        consumer-groups --reset-offsets --all-groups --topic other --to-latest --dry-run
        consumer-groups --describe --group refused
    """,
    "offsets are deleted": """
        consumer-groups --reset-offsets --group forgetful --topic filled --topic other --to-latest --execute
        consumer-groups --delete-offsets --group forgetful --topic other
        consumer-groups --describe --group forgetful
        consumer-groups --delete-offsets --group forgetful --topic filled:1
        consumer-groups --describe --group forgetful
        consumer-groups --delete-offsets --group forgetful --topic filled:1
        consumer-groups --delete-offsets --group forgetful --topic filled:7
        consumer-groups --delete-offsets --group forgetful --topic gone
        consumer-groups --delete-offsets --group forgetful --topic filled:0
        consumer-groups --delete-offsets --group gone --topic filled
        consumer-groups --delete-offsets --group stable --topic filled
        consumer-groups --delete-offsets --group stable --topic other
    """,
    "groups are deleted": """
        consumer-groups --reset-offsets --group doomed --topic filled --to-latest --execute
        consumer-groups --reset-offsets --group doomed-too --topic filled --to-latest --execute
        consumer-groups --delete --group doomed
        consumer-groups --describe --group doomed
        consumer-groups --delete --group doomed
        consumer-groups --delete --group stable
        consumer-groups --delete --group doomed-too --group stable
        consumer-groups --delete --group gone --group stable
        consumer-groups --list
        consumer-groups --delete --group left
        consumer-groups --delete --all-groups
        consumer-groups --list
        consumer-groups --describe --all-groups
    """,
}


def without_ids(text: str, command: str) -> str:
    """Leave out the ids of members, which differ between brokers, and the order of hash maps."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    if any(word in command for word in ("--list", "--all-groups", "--members")):
        text = "\n".join(sorted(text.splitlines()))
    return text


class Members:
    """Consumers in groups, each polled by a thread of its own."""

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
        """Make a consumer join; a setting of None keeps its default."""
        found = {
            "bootstrap.servers": self._bootstrap,
            "group.id": group,
            "client.id": client,
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        consumer = confluent_kafka.Consumer({key: value for key, value in found.items() if value is not None})
        thread = threading.Thread(target=self._poll, args=(consumer, list(topics)))
        self._threads.append(thread)
        thread.start()

    def _poll(self, consumer: confluent_kafka.Consumer, topics: list[str]) -> None:
        consumer.subscribe(topics)
        while not self._over.is_set():
            consumer.poll(0.1)
        consumer.close()


def make_topics(broker: Broker) -> None:
    """Create topics with a few records."""
    create_topic(broker.bootstrap, "filled", 3, {"retention.ms": "-1"})
    create_topic(broker.bootstrap, "other", 1, {"retention.ms": "-1"})
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(5):
        for topic, partition in (("filled", 0), ("filled", 1), ("other", 0)):
            at = 1_700_000_000_000 + number * 1000
            producer.send(topic, b"v", b"k", partition=partition, timestamp_ms=at).get(PATIENCE_S)
    producer.close(PATIENCE_S)


@contextlib.contextmanager
def prepared(tools: Runs, broker: Broker) -> Iterator[None]:
    """Create topics and groups, with members during the block."""
    make_topics(broker)
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
    """Commit offsets without being a member of the group."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    parts = [confluent_kafka.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    found = consumer.commit(offsets=parts, asynchronous=False)
    assert found is not None
    assert not any(each.error for each in found)
    consumer.close()


def wait_for_members(tools: Runs, broker: Broker, group: str, count: int) -> None:
    """Wait until a group is stable, with so many members."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        arguments = ("--bootstrap-server", broker.bootstrap, "--describe", "--group", group, "--state")
        told = tools.run(TOOL, *arguments).stdout.split()
        if told[-2:] == ["Stable", str(count)]:
            return
        assert time.monotonic() < deadline, told
