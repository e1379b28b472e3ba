"""`ottla reassign` on three brokers."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest

from ottla import Broker, Cluster
from tests.scripts.running import COMMAND, PATIENCE_S, Ended, environment, ottla, ottla_on_a_terminal, until

pytestmark = pytest.mark.slow
RECORDS, SIZE = 40, 100_000
# A throttle does not limit a single fetch of a megabyte.


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(auto_leader_rebalance_enable="false") as running:
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


@pytest.fixture
def topic(cluster: Cluster, env: dict[str, str], request: pytest.FixtureRequest) -> str:
    """Create a topic of four partitions on brokers 0 and 1, with records in the first one; return its name."""
    name: str = request.node.name
    assert command(cluster, env, "topics", "create", name, "--assignment", "0:1,0:1,0:1,0:1").code == 0
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), acks="all")
    for _ in range(RECORDS):
        producer.send(name, os.urandom(SIZE), partition=0)
    producer.flush(PATIENCE_S)
    producer.close()
    return name


def command(cluster: Cluster, env: dict[str, str], *arguments: str, stdin: str = "") -> Ended:
    return ottla(*arguments, "-b", cluster.bootstrap, env=env, stdin=stdin)


def replicas(cluster: Cluster, env: dict[str, str], topic: str) -> list[list[int]]:
    return [each["replicas"] for each in command(cluster, env, "topics", "describe", topic, "-o", "json").items]


def undo_file(env: dict[str, str]) -> Path:
    return max((Path(env["XDG_STATE_HOME"]) / "ottla" / "undo").iterdir())


def throttles(cluster: Cluster, env: dict[str, str], topic: str) -> list[str]:
    """Return the keys of throttles of the topic and of broker 0."""
    entities = ("topic", topic), ("broker", "0")
    found = [
        command(cluster, env, "configs", "describe", f"{kind}/{name}", "--changed", "-o", "json")
        for kind, name in entities
    ]
    return [each["key"] for ended in found for each in ended.items if "throttled" in each["key"]]


def to_broker_2(topic: str) -> str:
    """Return a file of Kafka's tool that moves partition 0 to broker 2."""
    return json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [0, 2]}]})


def test_a_plan_is_started_watched_and_undone(cluster: Cluster, env: dict[str, str], topic: str) -> None:
    before = replicas(cluster, env, topic)
    plan = command(cluster, env, "reassign", "plan", topic, "-o", "json")
    assert plan.code == 0
    assert sum(len(each["adding"]) for each in plan.items) == 2
    started = command(cluster, env, "reassign", "start", "-", "--yes", stdin=plan.stdout)
    assert started.code == 0, started
    assert f"the way back: ottla reassign start {undo_file(env)}" in started.stderr
    assert command(cluster, env, "reassign", "watch").code == 0
    after = replicas(cluster, env, topic)
    assert sorted(broker for each in after for broker in each) == [0, 0, 0, 1, 1, 1, 2, 2]
    assert "nothing is to be moved" in command(cluster, env, "reassign", "plan", topic).stderr
    assert command(cluster, env, "reassign", "start", str(undo_file(env)), "--yes").code == 0
    assert command(cluster, env, "reassign", "watch").code == 0
    assert replicas(cluster, env, topic) == before


def test_nothing_moves_without_an_answer_or_in_a_dry_run(cluster: Cluster, env: dict[str, str], topic: str) -> None:
    dry = command(cluster, env, "reassign", "start", "-", "--dry-run", "-o", "json", stdin=to_broker_2(topic))
    assert [(each["current"], each["replicas"], each["started"]) for each in dry.items] == [([0, 1], [0, 2], False)]
    refused = command(cluster, env, "reassign", "start", "-", stdin=to_broker_2(topic))
    assert refused.code == 2
    assert f"{topic}-0: 0,1 → 0,2" in refused.stderr
    assert "There is no terminal to ask" in refused.stderr
    assert replicas(cluster, env, topic)[0] == [0, 1]


def test_an_impossible_move_is_refused(cluster: Cluster, env: dict[str, str], topic: str) -> None:
    plan = json.loads(to_broker_2(topic))
    plan["partitions"][0]["replicas"] = [0, 7]
    unknown = command(cluster, env, "reassign", "start", "-", "--yes", stdin=json.dumps(plan))
    assert (unknown.code, "broker 7 is not in the cluster, which has 0, 1, 2" in unknown.stderr) == (2, True)
    gone = command(cluster, env, "reassign", "start", "-", "--yes", "-o", "json", stdin=to_broker_2("gone"))
    assert (gone.code, gone.items[0]["error"]) == (1, "UNKNOWN_TOPIC_OR_PARTITION")
    few = command(cluster, env, "reassign", "plan", topic, "--brokers", "2")
    assert (few.code, "2 replicas of a partition need as many brokers" in few.stderr) == (2, True)


def test_a_plan_for_more_replicas_adds_them(cluster: Cluster, env: dict[str, str], topic: str) -> None:
    plan = command(cluster, env, "reassign", "plan", f"{topic}:1", "-r", "3", "-o", "json")
    assert [each["adding"] for each in plan.items] == [[2]]


def test_watching_ends_by_ctrl_c_and_cancelling_restores_the_replicas(
    cluster: Cluster, env: dict[str, str], topic: str
) -> None:
    started = command(cluster, env, "reassign", "start", "-", "--yes", "--throttle", "1kB", stdin=to_broker_2(topic))
    assert started.code == 0, started
    assert [row[:5] for row in command(cluster, env, "reassign", "list").rows] == [[topic, "0", "0,2,1", "2", "1"]]
    assert set(throttles(cluster, env, topic)) >= {"leader.replication.throttled.rate"}
    watched = watched_until_interrupted(cluster, env)
    assert watched.code == 130
    assert "the reassignment continues" in watched.stderr
    assert command(cluster, env, "reassign", "cancel").code == 2
    cancelled = command(cluster, env, "reassign", "cancel", f"{topic}:0", "--yes")
    assert [row[:4] for row in cancelled.rows] == [[topic, "0", "0,1", "true"]]
    until(lambda: not command(cluster, env, "reassign", "list").rows)
    assert replicas(cluster, env, topic)[0] == [0, 1]
    assert "the throttle was removed" in cancelled.stderr
    until(lambda: not throttles(cluster, env, topic))


def watched_until_interrupted(cluster: Cluster, env: dict[str, str]) -> Ended:
    """Send SIGINT to a watch after it shows its bar."""
    ours, theirs = pty.openpty()
    arguments = [*COMMAND, "reassign", "watch", "-b", cluster.bootstrap]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=theirs, env={**env, "TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        while b"copying" not in shown:
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        try:
            while data := os.read(ours, 65536):
                shown += data
        except OSError:
            pass  # the other end is closed
        code = process.wait(PATIENCE_S)
    os.close(ours)
    return Ended(code, "", shown.decode())


def test_the_question_has_the_bytes_to_copy(cluster: Cluster, env: dict[str, str], tmp_path: Path, topic: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(to_broker_2(topic))
    arguments = ("reassign", "start", str(file), "-b", cluster.bootstrap)
    ended = ottla_on_a_terminal(*arguments, typed=[("[y/N]", "n\n")], env=env)
    assert "Move a partition, copying 4.0 MB?" in ended.stdout
    assert (ended.code, replicas(cluster, env, topic)[0]) == (1, [0, 1])


def test_a_replica_moves_into_another_directory_of_its_broker(tmp_path: Path, env: dict[str, str]) -> None:
    dirs = [tmp_path / name for name in ("one", "two")]
    with Broker(log_dirs=",".join(map(str, dirs))) as broker:
        broker.create_topic("moved")
        here = Path(stored(broker, env)["log_dir"])
        there = dirs[1 - dirs.index(here)]
        plan = {"partitions": [{"topic": "moved", "partition": 0, "replicas": [stored(broker, env)["broker_id"]]}]}
        arguments = ("-", "--log-dir", f"{stored(broker, env)['broker_id']}:{there}", "--yes", "-b", broker.bootstrap)
        started = ottla("reassign", "start", *arguments, stdin=json.dumps(plan), env=env)
        assert started.code == 0, started
        assert ottla("reassign", "watch", "-b", broker.bootstrap, env=env).code == 0
        assert stored(broker, env)["log_dir"] == str(there)
        back = json.loads(undo_file(env).read_text())
        assert back["partitions"][0]["log_dirs"] == [str(here)]


def stored(broker: Broker, env: dict[str, str]) -> dict[str, Any]:
    ended = ottla("log-dirs", "moved", "--replicas", "-b", broker.bootstrap, "-o", "json", env=env)
    assert len(ended.items) == 1
    return ended.items[0]
