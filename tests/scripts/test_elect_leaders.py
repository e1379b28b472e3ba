"""`ottla elect-leaders` on three brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Cluster
from tests.scripts.running import Ended, environment, ottla, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(auto_leader_rebalance_enable="false") as running:
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


def command(cluster: Cluster, env: dict[str, str], *arguments: str) -> Ended:
    return ottla(*arguments, "-b", cluster.bootstrap, env=env)


def leader(cluster: Cluster, env: dict[str, str], topic: str) -> str:
    return command(cluster, env, "topics", "describe", topic).rows[0][2]


def in_sync(cluster: Cluster, env: dict[str, str], topic: str) -> str:
    return ",".join(sorted(command(cluster, env, "topics", "describe", topic).rows[0][5].split(",")))


def test_the_first_replica_leads_again_when_it_is_back(cluster: Cluster, env: dict[str, str]) -> None:
    assert command(cluster, env, "topics", "create", "led", "--assignment", "2:1").code == 0
    cluster.stop(2)
    until(lambda: leader(cluster, env, "led") == "1")
    assert command(cluster, env, "elect-leaders", "led:0").rows[0][4] == "PREFERRED_LEADER_NOT_AVAILABLE"
    cluster.start(2)
    until(lambda: in_sync(cluster, env, "led") == "1,2")
    dry = command(cluster, env, "elect-leaders", "--dry-run", "-o", "json")
    assert [(each["topic"], each["leader"], each["elected"]) for each in dry.items] == [("led", 1, False)]
    ended = command(cluster, env, "elect-leaders", "-o", "json")
    assert (ended.code, ended.items[0]["leader"], ended.items[0]["elected"]) == (0, 2, True)
    again = command(cluster, env, "elect-leaders", "led", "gone", "-o", "json")
    assert again.code == 1
    found = [(each["topic"], each["leader"], each["elected"], each["error"]) for each in again.items]
    assert found == [("gone", None, False, "UNKNOWN_TOPIC_OR_PARTITION"), ("led", 2, False, None)]


def test_a_replica_that_is_not_in_sync_is_elected_only_with_unclean(cluster: Cluster, env: dict[str, str]) -> None:
    assert command(cluster, env, "topics", "create", "lost", "--assignment", "1:2").code == 0
    cluster.stop(2)
    until(lambda: in_sync(cluster, env, "lost") == "1")
    cluster.kill(1)
    cluster.start(2)
    until(lambda: leader(cluster, env, "lost") == "-")
    refused = command(cluster, env, "elect-leaders", "lost", "--unclean")
    assert refused.code == 2
    assert "Elect leaders that are not in sync for lost-0? Records may be lost." in refused.stderr
    assert leader(cluster, env, "lost") == "-"
    ended = command(cluster, env, "elect-leaders", "lost", "--unclean", "--yes", "-o", "json")
    assert (ended.code, ended.items[0]["elected"]) == (0, True)
    until(lambda: leader(cluster, env, "lost") == "2")
