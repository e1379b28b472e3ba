"""The pytest fixtures, as in any project with Ottla installed."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import Broker
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.raw import RawClient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "testing"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "KAFKA_"))}


def partitions(bootstrap: str, topic: str) -> list[int]:
    """Return the number of replicas of each partition of a topic; an empty list if the topic does not exist."""
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found: list[int] = []
    for address in bootstrap.split(","):
        with RawClient(address) as client:
            answer = client.ask(wanted, 9)
        assert isinstance(answer, MetadataResponse)
        found = max(found, [len(each.replica_nodes) for each in answer.topics[0].partitions])
    return found


def run_pytest(folder: Path, *options: str, **files: str) -> tuple[int, str]:
    """Run pytest on a project with these Python files; return its exit code and output."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:trio", *options]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_fixture_gives_a_broker_that_serves(kafka_broker: Broker) -> None:
    host, port = kafka_broker.bootstrap.rsplit(":", 1)
    socket.create_connection((host, int(port)), 5).close()


@pytest.mark.slow
def test_the_fixture_gives_one_broker_for_the_whole_run(kafka_broker: Broker, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue("kafka_broker") is kafka_broker


@pytest.mark.slow
@pytest.mark.parametrize("of", ["a.b c", "größe/", "x" * 300])
def test_a_topic_that_exists_bears_the_name_of_its_test(kafka_broker: Broker, kafka_topic: str, of: str) -> None:
    assert re.fullmatch(r"test_a_topic_that_exists_bears_the_name_of_its_test-[\w-]{0,160}-[0-9a-f]{8}", kafka_topic)
    assert partitions(kafka_broker.bootstrap, kafka_topic) == [1]


PROJECT = """
from tests.ottla.test_pytest_plugin import partitions
import pytest
seen = set()

@pytest.fixture(scope="session")
def ottla_settings():
    return {"num_partitions": 5, "log.retention.hours": "1"}

@pytest.mark.parametrize("number", range(2))
def test_topic(kafka_broker, kafka_topic, number):
    assert kafka_topic not in seen
    seen.add(kafka_topic)
    assert partitions(kafka_broker.bootstrap, kafka_topic) == [1] * 5

def test_cluster(kafka_cluster):
    kafka_cluster.create_topic("t")
    assert kafka_cluster.bootstrap.count(",") == 2
    assert partitions(kafka_cluster.bootstrap, "t") == [3] * 5
"""


@pytest.mark.slow
def test_a_fixture_of_the_project_configures_broker_and_cluster(tmp_path: Path) -> None:
    code, printed = run_pytest(tmp_path, test_it=PROJECT)
    assert (code, "3 passed" in printed) == (0, True), printed


@pytest.mark.slow
def test_a_wrong_setting_is_refused_in_one_line(tmp_path: Path) -> None:
    test = "def test_it(kafka_broker): pass"
    code, printed = run_pytest(tmp_path, "-o", "ottla_settings=num.partitions", test_it=test)
    assert (code, printed.strip()) == (4, "ERROR: ottla_settings takes KEY=VALUE lines, not 'num.partitions'")
    code, printed = run_pytest(tmp_path, "-o", "ottla_settings=num.partition=3", test_it=test)
    lines = re.findall("^(?:E .*|Broker: .*)$", printed, re.MULTILINE)
    assert (code, lines) == (1, ["Broker: unknown keyword num.partition; did you mean num.partitions?"]), printed


@pytest.mark.slow
def test_a_broker_that_ended_by_itself_is_an_error_at_the_end_of_the_run(tmp_path: Path) -> None:
    test = "import os, signal\ndef test_it(kafka_broker): os.kill(kafka_broker.pid, signal.SIGKILL)"
    code, printed = run_pytest(tmp_path, test_it=test)
    assert (code, "1 passed, 1 error" in printed) == (1, True), printed
    assert "Broker: the broker ended with -9:\n" in printed


@pytest.mark.slow
def test_each_worker_of_xdist_has_a_broker_of_its_own(tmp_path: Path) -> None:
    test = """
import pathlib, pytest
@pytest.mark.parametrize("number", range(2))
def test_it(kafka_broker, worker_id, number):
    pathlib.Path(worker_id).write_text(kafka_broker.bootstrap)
"""
    code, printed = run_pytest(tmp_path, "-n", "2", "--dist", "each", test_it=test)
    assert code == 0, printed
    assert len({(tmp_path / worker).read_text() for worker in ("gw0", "gw1")}) == 2


@pytest.mark.slow
def test_the_examples_pass_as_they_stand(tmp_path: Path) -> None:
    for path in EXAMPLES.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    code, printed = run_pytest(tmp_path)
    assert (code, "5 passed" in printed) == (0, True), printed
