"""Ottla's commands on Apache Kafka 4.3 for objects that Ottla's broker lacks: quotas, users, client metrics, groups."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, running
from tests.scripts.running import Ended, environment, ottla, ottla_on_a_terminal

pytestmark = pytest.mark.slow
PATIENCE_S = 60


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with running(ApacheKafka) as broker:
        yield broker


class Commands:
    """Commands on one broker, with JSON as their output."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        self.server = ("-b", bootstrap)
        self.env = {**environment(home), "PASSWORD": "secret"}

    def __call__(self, *arguments: str, code: int = 0) -> Ended:
        ended = ottla(*arguments, *self.server, "-o", "json", env=self.env)
        assert ended.code == code, ended
        return ended

    def until(self, holds: Callable[[list[dict[str, Any]]], bool], *arguments: str) -> list[dict[str, Any]]:
        """Run a command until its items are right, because a KRaft broker applies changes after its response."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(items := self(*arguments).items):
            assert time.monotonic() < deadline, items
        return items


@pytest.fixture
def run(kafka: Broker, tmp_path: Path) -> Commands:
    return Commands(kafka.bootstrap, tmp_path)


def test_quotas_are_set_listed_and_applied(run: Commands, tmp_path: Path) -> None:
    dry = run("quotas", "set", "--user", "alice", "producer_byte_rate=1000", "--dry-run")
    assert (dry.document["dry_run"], dry.items[0]["after"]) == (True, 1000.0)
    assert run("quotas", "list").items == []
    run("quotas", "set", "--user", "alice", "producer_byte_rate=1000", "consumer_byte_rate=2e6")
    run("quotas", "set", "--user-default", "--client-id", "app", "request_percentage=50")
    run("quotas", "set", "--ip-default", "connection_creation_rate=9")
    items = run.until(lambda items: len(items) == 3, "quotas", "list")
    by_user = {item["user"]: item for item in items}
    assert (by_user["alice"]["consumer_byte_rate"], by_user["alice"]["client_id"]) == (2e6, None)
    assert (by_user["<default>"]["client_id"], by_user["<default>"]["request_percentage"]) == ("app", 50.0)
    assert (by_user[None]["ip"], by_user[None]["connection_creation_rate"]) == ("<default>", 9.0)
    file = tmp_path / "quotas.json"
    file.write_text(run("quotas", "list").stdout)
    removed = run("quotas", "unset", "--user", "alice").items
    assert {item["quota"]: (item["before"], item["after"]) for item in removed} == {
        "producer_byte_rate": (1000.0, None),
        "consumer_byte_rate": (2e6, None),
    }
    run.until(lambda items: len(items) == 2, "quotas", "list")
    applied = run("quotas", "apply", str(file)).items
    assert {(item["user"], item["quota"], item["after"]) for item in applied} == {
        ("alice", "producer_byte_rate", 1000.0),
        ("alice", "consumer_byte_rate", 2e6),
    }
    assert run.until(lambda found: len(found) == 3, "quotas", "list") == items
    assert run("quotas", "apply", str(file)).items == []
    wrong = run("quotas", "set", "--ip", "10.0.0.1", "producer_byte_rate=1", code=1).items
    assert wrong[0]["error"] == "INVALID_REQUEST"


def test_users_are_added_listed_and_deleted(run: Commands) -> None:
    both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")
    run("users", "add", "alice", "--password-env", "PASSWORD", *both, "--iterations", "5000")
    run("users", "add", "bob", "--password-env", "PASSWORD")
    items = run.until(lambda items: len(items) == 3, "users", "list")
    assert [(item["user"], item["mechanism"], item["iterations"]) for item in items] == [
        ("alice", "SCRAM-SHA-256", 5000),
        ("alice", "SCRAM-SHA-512", 5000),
        ("bob", "SCRAM-SHA-512", 4096),
    ]
    assert [item["user"] for item in run("users", "list", "b*").items] == ["bob"]
    assert run("users", "list", "carol", code=1).items[0]["error"] == "RESOURCE_NOT_FOUND"
    refused = ottla("users", "delete", "bob", *run.server, env=run.env)
    assert (refused.code, "--yes" in refused.stderr) == (2, True)
    dry = run("users", "delete", "alice", "--dry-run").items
    assert [(item["mechanism"], item["deleted"]) for item in dry] == [
        ("SCRAM-SHA-256", False),
        ("SCRAM-SHA-512", False),
    ]
    asked = ottla_on_a_terminal("users", "delete", "bob", *run.server, typed=[("[y/N]", "y\n")], env=run.env)
    assert asked.code == 0
    run("users", "delete", "alice", "--mechanism", "SCRAM-SHA-256", "--yes")
    left = run.until(lambda items: len(items) == 1, "users", "list")
    assert (left[0]["user"], left[0]["mechanism"]) == ("alice", "SCRAM-SHA-512")


def test_subscriptions_to_client_metrics_are_set_described_and_deleted(run: Commands) -> None:
    made = ("client-metrics", "set", "m1", "--interval-ms", "30000", "--metric", "a.", "--metric", "b.")
    changed = run(*made, "--match", "client_id=x").items
    assert [(item["key"], item["after"]) for item in changed] == [
        ("interval.ms", "30000"),
        ("metrics", "a.,b."),
        ("match", "client_id=x"),
    ]
    run.until(lambda items: [item["name"] for item in items] == ["m1"], "client-metrics", "list")
    items = run("client-metrics", "describe", "m1", "m2", code=1).items
    assert items[0] == {
        "name": "m1",
        "interval_ms": 30000,
        "metrics": ["a.", "b."],
        "match": {"client_id": "x"},
        "error": None,
        "message": None,
    }
    assert items[1]["error"] == "RESOURCE_NOT_FOUND"
    assert run("client-metrics", "delete", "m1", "--dry-run").items[0]["deleted"] is False
    assert run("client-metrics", "delete", "m1", "--yes").items[0]["deleted"] is True
    run.until(lambda items: items == [], "client-metrics", "list")


def test_groups_have_configs(run: Commands) -> None:
    change = ("configs", "set", "group/g", "consumer.session.timeout.ms=46000")
    assert [(item["before"], item["after"]) for item in run(*change).items] == [("45000", "46000")]
    items = run.until(bool, "configs", "describe", "group/*", "--changed")
    assert [(item["resource"], item["value"], item["default"]) for item in items] == [("group/g", "46000", "45000")]
    run("configs", "unset", "group/g", "consumer.session.timeout.ms")
