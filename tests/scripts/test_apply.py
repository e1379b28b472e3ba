"""`ottla apply`, `ottla diff` and `ottla topics export`: topics as files, on real brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from tests.scripts.running import Ended, environment, ottla, ottla_on_a_terminal

pytestmark = pytest.mark.slow
FILE = """
[topics.orders]
partitions = 3
[topics.orders.configs]
"retention.ms" = 3600000

[topics.audit]
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


def actions(ended: Ended) -> list[tuple[str, str, str | None]]:
    return [(item["topic"], item["action"], item["key"]) for item in ended.items]


def topics(broker: Broker, env: dict[str, str]) -> dict[str, int]:
    found = ottla("topics", "list", "-b", broker.bootstrap, "-o", "json", env=env)
    return {item["topic"]: item["partitions"] for item in found.items}


def test_topics_become_as_a_file_describes_them(broker: Broker, env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "topics.toml"
    file.write_text(FILE)
    apply = ("apply", str(file), "-b", broker.bootstrap, "-o", "json")
    dry = ottla(*apply, "--dry-run", env=env)
    assert (dry.code, dry.document["dry_run"]) == (0, True)
    assert topics(broker, env) == {}
    first = ottla(*apply, env=env)
    assert first.code == 0
    assert actions(first) == actions(dry) == [("orders", "create", None), ("audit", "create", None)]
    assert topics(broker, env) == {"orders": 3, "audit": 1}
    again = ottla(*apply, env=env)
    assert (again.code, again.items) == (0, [])
    file.write_text(FILE.replace("3600000", "7200000").replace("partitions = 3", "partitions = 4"))
    changed = ottla(*apply, env=env)
    assert actions(changed) == [("orders", "add partitions", None), ("orders", "set config", "retention.ms")]
    assert topics(broker, env)["orders"] == 4


def test_nothing_is_removed_without_prune_and_a_confirmation(
    broker: Broker, env: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "topics.toml"
    file.write_text(FILE)
    apply = ("apply", str(file), "-b", broker.bootstrap)
    assert ottla(*apply, env=env).code == 0
    file.write_text("[topics.orders]\n")
    assert ottla(*apply, env=env).rows == []
    refused = ottla(*apply, "--prune", env=env)
    assert refused.code == 2
    assert "audit: delete" in refused.stderr
    assert set(topics(broker, env)) == {"orders", "audit"}
    assert ottla_on_a_terminal(*apply, "--prune", typed=[("[y/N]", "y\n")], env=env).code == 0
    assert set(topics(broker, env)) == {"orders"}
    exported = ottla("topics", "export", "-b", broker.bootstrap, env=env).stdout
    assert "retention.ms" not in exported


def test_a_failed_change_does_not_affect_the_others(broker: Broker, env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "topics.toml"
    file.write_text('[topics.good]\n[topics."bad/name"]\n')
    ended = ottla("apply", str(file), "-b", broker.bootstrap, "-o", "json", env=env)
    assert ended.code == 1
    assert [(item["topic"], item["error"]) for item in ended.items] == [
        ("good", None),
        ("bad/name", "INVALID_TOPIC_EXCEPTION"),
    ]
    assert set(topics(broker, env)) == {"good"}


def test_a_file_that_cannot_be_read_is_wrong_usage(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "topics.toml"
    file.write_text("[topics.orders]\npartitions = 0\n")
    ended = ottla("apply", str(file), "-b", "localhost:1", env=env)
    assert ended.code == 2
    assert "topics.orders.partitions" in ended.stderr


def test_applying_an_export_makes_two_clusters_equal(broker: Broker, env: dict[str, str], tmp_path: Path) -> None:
    create = ("topics", "create", "a.b", "-p", "2", "-c", "cleanup.policy=compact,delete")
    assert ottla(*create, "-b", broker.bootstrap, env=env).code == 0
    file = tmp_path / "topics.toml"
    file.write_text(ottla("topics", "export", "-b", broker.bootstrap, env=env).stdout)
    with Broker() as other:
        compare = ("diff", "-b", broker.bootstrap, "--with-bootstrap-server", other.bootstrap)
        before = ottla(*compare, env=env)
        assert (before.code, before.rows) == (1, [["a.b", "topic", "there", "-"]])
        assert ottla("apply", "-", "-b", other.bootstrap, stdin=file.read_bytes(), env=env).code == 0
        alike = ottla(*compare, env=env)
        assert (alike.code, alike.stdout) == (0, "")
        assert ottla("diff", "-b", other.bootstrap, "--with-file", str(file), env=env).code == 0
        assert ottla("topics", "alter", "a.b", "-p", "3", "-b", other.bootstrap, env=env).code == 0
        assert ottla(*compare, env=env).rows == [["a.b", "partitions", "2", "3"]]
        assert ottla(*compare, "other-*", env=env).code == 0
        with_file = ottla("diff", "-b", other.bootstrap, "--with-file", str(file), env=env)
        assert with_file.rows == [["a.b", "partitions", "3", "2"]]


def test_a_comparison_needs_a_second_side(env: dict[str, str]) -> None:
    assert ottla("diff", "-b", "localhost:1", env=env).code == 2
