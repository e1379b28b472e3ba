"""Servers of jobs on a real broker: the life of a job, and servers that come and go."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.brokers import ApacheKafka, running
from ottla import Broker

from .jobs import wait_for
from .servers import Server, Servers, servers

pytestmark = pytest.mark.slow

JOBS = tuple("abcdefgh")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(group_min_session_timeout_ms=1000, offsets_topic_num_partitions=1) as broker:
        yield broker


@pytest.fixture
def group(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Servers]:
    name = re.sub("[^a-z]+", "-", request.node.name)
    with servers(tmp_path, broker.bootstrap, name) as group:
        yield group


def test_the_life_of_a_job(group: Servers) -> None:
    server = group.start()
    assert server.have("GET", "/connectors") == []
    assert len(server.have("GET", "/")["kafka_cluster_id"]) == 22
    wait_for(server.has_joined)
    server.create("a", mark="1")
    group.wait_for_jobs("a")
    for verb, state in (("pause", "PAUSED"), ("stop", "STOPPED")):
        server.have("PUT", f"/connectors/a/{verb}")
        wait_for(lambda state=state: server.states() == {"a": state})  # type: ignore[misc]
        assert group.journal.running() == []
        server.have("PUT", "/connectors/a/resume")
        group.wait_for_jobs("a")
    server.have("PUT", "/connectors/a/config", {"source.type": "topic", "mark": "2"})
    wait_for(lambda: [line.mark for line in group.journal.lines("start")] == ["1", "1", "1", "2"])
    server.have("POST", "/connectors/a/restart")
    wait_for(lambda: [line.mark for line in group.journal.lines("start")] == ["1", "1", "1", "2", "2"])
    group.wait_for_jobs("a")
    assert server.have("GET", "/connectors/a/status")["tasks"][0]["worker_id"].endswith(f":{server.port}")
    server.have("DELETE", "/connectors/a")
    wait_for(lambda: group.journal.running() == [])
    assert server.ask("GET", "/connectors/a/status")[0] == 404


def test_a_failed_job_tells_why_until_it_is_restarted(group: Servers) -> None:
    server = group.start()
    server.create("a", does="fail")
    wait_for(lambda: server.states() == {"a": "FAILED"})
    assert "there is nothing to do" in server.have("GET", "/connectors/a/status")["connector"]["trace"]
    assert server.have("POST", "/connectors/a/restart?onlyFailed=true&includeTasks=true")["name"] == "a"
    wait_for(lambda: len(group.journal.lines("start")) == 2)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_server_that_is_started_again_has_all_jobs_again(group: Servers, how: str) -> None:
    group.directory.mkdir()
    file = group.directory / "filed.properties"
    file.write_text("source.type=topic\nmark=1\n")
    server = group.start()
    server.create("a", "b")
    server.create("paused", "done", does="end")
    server.have("PUT", "/connectors/paused/pause")
    group.wait_for_jobs("a", "b", "filed")
    wait_for(lambda: server.states()["done"] == "STOPPED")
    getattr(group, how)(server)
    wait_for(lambda: group.journal.running() == [])
    assert list((group.directory / "locks").iterdir()) != []
    file.write_text("source.type=topic\nmark=2\n")
    again = group.start()
    group.wait_for_jobs("a", "b", "filed")
    assert [line.mark for line in group.journal.lines("start", "filed")] == ["1", "2"]
    assert {name: again.states()[name] for name in ("paused", "done")} == {"paused": "PAUSED", "done": "STOPPED"}
    assert len(group.journal.lines("start", "done")) == 1


def starts(group: Servers) -> dict[str, int]:
    return {name: len(group.journal.lines("start", name)) for name in JOBS}


def share(group: Servers) -> tuple[Server, Server]:
    """Start two servers, each with some of the jobs."""
    first = group.start()
    first.create(*JOBS)
    group.wait_for_jobs(*JOBS)
    second = group.start()
    wait_for(lambda: set(first.workers().values()) == {worker(first), worker(second)})
    group.wait_for_jobs(*JOBS)
    return first, second


def worker(server: Server) -> str:
    told = server.have("GET", "/connectors?expand=status")
    workers = {each["status"]["connector"]["worker_id"] for each in told.values()}
    return next((name for name in workers if name.endswith(f":{server.port}")), f"nobody at {server.port}")


def wait_until_all_are_with(group: Servers, server: Server) -> None:
    here = worker(server)
    wait_for(lambda: server.workers() == dict.fromkeys(JOBS, here))
    group.wait_for_jobs(*JOBS)


def test_servers_share_jobs_and_each_answers_for_all(group: Servers) -> None:
    first, second = share(group)
    moved = {name: count for name, count in starts(group).items() if count > 1}
    stayed = set(JOBS) - set(moved)
    assert len(moved) == len(stayed)
    # Only what the second server has by now was stopped for it.
    assert {name for name, host in first.workers().items() if host == worker(first)} == stayed
    (of_first, *_), (of_second, *_) = sorted(stayed), sorted(moved)
    first.have("PUT", f"/connectors/{of_second}/pause")
    second.have("PUT", f"/connectors/{of_first}/stop")
    wait_for(lambda: second.states()[of_second] == "PAUSED" and first.states()[of_first] == "STOPPED")
    assert group.journal.running() == sorted(set(JOBS) - {of_first, of_second})
    before = starts(group)
    group.stop(second)
    group.wait_for_jobs(*sorted(set(JOBS) - {of_first, of_second}))
    # Nobody waited for a session to run out: what was moved was moved by the time it was asked for.
    assert {name: count for name, count in starts(group).items() if count > before[name]} == {
        name: before[name] + 1 for name in moved if name != of_second
    }


def test_jobs_of_a_killed_server_move(group: Servers) -> None:
    first, second = share(group)
    group.kill(first)
    wait_until_all_are_with(group, second)


def test_jobs_move_from_a_server_that_is_paused_and_do_not_come_back_with_it(group: Servers) -> None:
    first, second = share(group)
    group.running.remove(first)
    first.pause()
    wait_until_all_are_with(group, second)
    first.go_on()
    group.running.append(first)
    wait_for(lambda: set(second.workers().values()) == {worker(first), worker(second)})
    group.wait_for_jobs(*JOBS)
    # Half of them three times: to the second server, to it with the others, and back. None was stopped but for that.
    assert sum(starts(group).values()) == len(JOBS) + 3 * len(JOBS) // 2


@pytest.mark.trials(few=10, soak=50)
@pytest.mark.once
def test_servers_that_come_and_go_never_run_a_job_twice(group: Servers, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    group.start().create(*JOBS)
    paused: list[Server] = []
    for _ in range(trials):
        deed = chance.choice(["start", "stop", "kill", "pause"])
        if deed == "start" or len(group.running) < 2:
            if len(group.running) < 3:
                group.start()
        elif deed == "pause":
            paused.append(group.running.pop(chance.randrange(len(group.running))))
            paused[-1].pause()
        else:
            getattr(group, deed)(chance.choice(group.running))
        if paused and chance.random() < 0.5:
            group.running.append(paused.pop())
            group.running[-1].go_on()
        # Not until all is well again: the next deed often comes in the middle of it.
        if chance.random() < 0.3:
            group.wait_for_jobs(*JOBS)
    for server in paused:
        server.go_on()
        group.running.append(server)
    group.wait_for_jobs(*JOBS)


def test_jobs_move_on_apache_kafka_too(tmp_path: Path) -> None:
    with (
        running(ApacheKafka, ["group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000"]) as kafka,
        servers(tmp_path, kafka.bootstrap, "moving") as group,
    ):
        first, second = share(group)
        group.kill(first)
        wait_until_all_are_with(group, second)


def test_a_broker_that_is_away_for_a_while_stops_no_job(group: Servers, broker: Broker) -> None:
    server = group.start()
    server.create(*JOBS)
    group.wait_for_jobs(*JOBS)
    broker.kill()
    assert server.have("GET", "/connectors") == list(JOBS)
    broker.start()
    server.create("later")
    group.wait_for_jobs(*JOBS, "later")
    assert set(starts(group).values()) == {1}


def test_a_server_without_word_from_the_coordinator_stops_its_jobs_until_there_is_one(
    group: Servers, broker: Broker
) -> None:
    server = group.start(rebalance_timeout_ms=3_000)
    server.create("a", "b")
    group.wait_for_jobs("a", "b")
    broker.kill()
    wait_for(lambda: group.journal.running() == [])
    assert server.ask("GET", "/health")[0] == 500
    assert server.have("GET", "/connectors/a/config")["name"] == "a"
    broker.start()
    group.wait_for_jobs("a", "b")
    wait_for(server.has_joined)


def refusal(options: dict[str, Any]) -> str:
    """Why a server does not start: the last line of stderr."""
    command = [sys.executable, "-m", "tests.pipeline.server.server_process", json.dumps(options)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Traceback" not in ended.stderr
    return ended.stderr.splitlines()[-1]


def test_a_server_that_cannot_serve_says_why_in_one_line(group: Servers) -> None:
    group.directory.mkdir()
    server = group.start()
    options = {**group.options, "client": {"bootstrap_timeout_ms": 1000}}
    assert "is to be HOST:PORT" in refusal({**options, "listen": "8083"})
    assert "in use" in refusal({**options, "listen": f"127.0.0.1:{server.port}"})
    nobody = refusal({**options, "bootstrap": "127.0.0.1:1"})
    assert nobody.startswith("ottla pipeline: cannot use the brokers at 127.0.0.1:1: ")
    file = group.directory / "wrong.properties"
    file.write_text("colour=red\n")
    assert refusal(options).startswith(f"ottla pipeline: {file}: wrong: colour is unknown")
    file.write_text("name=b\nsource.type=topic\n")
    other = group.directory / "b.properties"
    other.write_text("source.type=topic\n")
    assert refusal(options) == f"ottla pipeline: {file}: {other} is a job of the name b too"
    slots = f"{group.options['group_id']}-slots"
    assert refusal({**options, "config_topic": slots}) == (
        f"ottla pipeline: topic {slots} has 64 partitions; it is to have one"
    )
