"""Ottla continues the groups of Kafka 3.9, on the same directory and ZooKeeper; and the other way round."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.differential.both import Side
from compat_tests.support.brokers import Broker, Ottla, QuickKafka
from compat_tests.support.clients import PATIENCE_S, create_topic
from compat_tests.support.zookeeper import running
from compat_tests.tools.group_scenarios import Members, commit
from compat_tests.tools.test_group_tools import write_all_kinds_of_records

pytestmark = [pytest.mark.once, pytest.mark.slow]
GROUPS = ("stable", "static", "simple", "left", "dumped", "forgotten")
LONG_MS = 60_000


def told(broker: Broker) -> dict[str, Any]:
    """Return a broker's view of groups: members, assignments, committed offsets."""
    with contextlib.closing(Side(broker)) as side:
        groups = side.ask("DescribeGroups", 5, {"groups": list(GROUPS)})["groups"]
        found = {each["group_id"]: each for each in groups}
        asked = [{"group_id": each, "topics": None} for each in GROUPS]
        for each in side.ask("OffsetFetch", 9, {"groups": asked})["groups"]:
            offsets = [(topic["name"], repr(one)) for topic in each["topics"] for one in topic["partitions"]]
            found[each["group_id"]]["offsets"] = sorted(offsets)
        listed = sorted(map(repr, side.ask("ListGroups", 4, {})["groups"]))
    for each in groups:
        each["members"].sort(key=lambda member: member["member_id"])
    return {**found, "listed": listed}


def member_ids(broker: Broker, group: str) -> set[str]:
    """Return the members of a group; none while it is not stable."""
    found = told(broker)[group]
    return {each["member_id"] for each in found["members"] if found["group_state"] == "Stable"}


def wait_for_members(broker: Broker, group: str, count: int) -> set[str]:
    """Wait until a group has so many members, and return them."""
    deadline = time.monotonic() + PATIENCE_S
    while len(found := member_ids(broker, group)) != count:
        assert time.monotonic() < deadline, told(broker)
        time.sleep(0.1)
    return found


def wait_until_told(broker: Broker, expected: dict[str, Any]) -> None:
    """Wait until the broker's view of groups is the expected one."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := told(broker)) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found == expected


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[dict[str, Broker]]:
    """Yield one broker as either kind, not started, with a running ZooKeeper."""
    with running(tmp_path / "zookeeper", ["tickTime=200"]) as zookeeper:
        settings = [
            *("broker.id=1", f"zookeeper.connect={zookeeper.connect}", "offsets.topic.num.partitions=3"),
            *("offsets.topic.replication.factor=1", "group.initial.rebalance.delay.ms=0"),
            "offsets.retention.check.interval.ms=500",
            # A single broker has no other one to move leaders to.
            "controlled.shutdown.enable=false",
        ]
        kinds: dict[str, Broker] = {"kafka": QuickKafka(tmp_path, settings), "ottla": Ottla(tmp_path, settings)}
        for each in kinds.values():
            each.port, each.bootstrap = kinds["kafka"].port, kinds["kafka"].bootstrap
        try:
            yield kinds
        finally:
            for each in kinds.values():
                if hasattr(each, "process"):
                    each.stop()


@pytest.mark.parametrize("order", [("kafka", "ottla"), ("ottla", "kafka")], ids=" then ".join)
def test_with_the_groups_that_one_has_written_the_other_goes_on(
    brokers: dict[str, Broker], order: tuple[str, str]
) -> None:
    first, second = (brokers[each] for each in order)
    first.start()
    create_topic(first.bootstrap, "filled", 3)
    create_topic(first.bootstrap, "other", 1)
    write_all_kinds_of_records(first)
    commit(first, "simple", "filled", {0: 2, 2: 0})
    with Members(first.bootstrap) as leaving:
        leaving.add("left", "leaver", ["other"])
        wait_for_members(first, "left", 1)
    commit(first, "left", "other", {0: 1})
    with Members(first.bootstrap) as members:
        for client in ("one", "two"):
            members.add("stable", client, ["filled"], session_timeout_ms=LONG_MS)
        members.add("static", "three", ["filled"], group_instance_id="first", session_timeout_ms=LONG_MS)
        wait_for_members(first, "static", 1)
        stable = wait_for_members(first, "stable", 2)
        before = told(first)
        first.stop()
        second.start()
        wait_until_told(second, before)
        # The members continue without a rebalance until another one joins.
        members.add("stable", "four", ["filled"], session_timeout_ms=LONG_MS)
        assert stable < wait_for_members(second, "stable", 3)
        commit(second, "simple", "filled", {0: 7})
        after = told(second)
        second.stop()
        first.start()
        wait_until_told(first, after)
