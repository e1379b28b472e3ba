"""What is seen of a job that fails while it runs: one line."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from compat_tests.support.clients import create_topic
from ottla import Broker
from tests.harness.measuring import AtMost
from tests.pipeline.spark_command import COMMAND, jar_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]
JOB = """\
[source]
{source}
[sink]
type = "parquet"
path = "{folder}/out"
"""
SQL = '[[steps]]\nkind = "sql"\nquery = "{} FROM records"\n'
RATE = 'type = "rate"\n'


def job(folder: Path, more: str = "", source: str = RATE) -> Path:
    file = folder / "job.toml"
    file.write_text(JOB.format(folder=folder, source=source) + more)
    return file


def lines(said: str) -> list[str]:
    """What a job said, but for its progress and for what the JVM says of its modules."""
    return [line for line in said.splitlines() if not line.startswith(("WARNING: Using incubator", "job: batch"))]


@contextmanager
def running(file: Path) -> Iterator["subprocess.Popen[str]"]:
    """A job that has done a batch; it is killed when it lives too long."""
    command = [*COMMAND, "run", str(file), "--jars", str(jar_folder(file.parent))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(100, process.kill)
        timer.start()
        while not list(file.parent.glob("out/*.parquet")) and process.poll() is None:
            time.sleep(0.1)
        yield process
        timer.cancel()


@pytest.mark.parametrize(
    ("source", "more", "line"),
    [
        (RATE, SQL.format("SELECT struct(CAST(raise_error('all is lost') AS STRING) AS a) AS value"), "all is lost"),
        (RATE, SQL.format("SELECT nobody"), "nobody"),
        (f"{RATE}time = 'nonsense('", "", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_what_fails_in_spark_is_one_line(tmp_path: Path, source: str, more: str, line: str) -> None:
    command = [*COMMAND, "run", str(job(tmp_path, more, source)), "--jars", str(jar_folder(tmp_path))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    (said,) = lines(ended.stderr)
    assert said.startswith("ottla: ")
    assert line in said
    assert ended.returncode == 1


def test_a_job_ends_soon_though_its_brokers_are_gone(tmp_path: Path, at_most: AtMost) -> None:
    with Broker() as broker:
        create_topic(broker.bootstrap, "in")
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("in", b"v")
        assert producer.flush(120) == 0
        file = job(tmp_path, source=f'type = "topic"\nbootstrap.servers = "{broker.bootstrap}"\ntopics = ["in"]')
        with running(file) as process:
            broker.kill()
            time.sleep(2)
            process.terminate()
            began = time.monotonic()
            said = process.communicate()[1]
            at_most(time.monotonic() - began, 25)
    assert (lines(said), process.returncode) == ([], 0)


def jvms(pid: int) -> list[int]:
    """The JVMs that a process has begun."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in children if "java" in Path(f"/proc/{child}/exe").readlink().name]


def test_a_job_that_is_interrupted_while_spark_starts_leaves_no_jvm(tmp_path: Path) -> None:
    command = [*COMMAND, "run", str(job(tmp_path)), "--jars", str(jar_folder(tmp_path))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(100, process.kill)
        timer.start()
        while not (begun := jvms(process.pid)) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
        timer.cancel()
    assert (process.returncode, lines(said)) == (0, [])
    assert len(begun) == 1
    deadline = time.monotonic() + 10
    while Path(f"/proc/{begun[0]}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_jvm_that_is_gone_is_said_in_one_line(tmp_path: Path) -> None:
    file = job(tmp_path)
    with running(file) as process:
        for jvm in jvms(process.pid):
            os.kill(jvm, signal.SIGKILL)
        said = process.communicate()[1]
    assert lines(said) == [f"ottla: {file}: Spark is gone: its JVM was killed, or had too little memory"]
    assert process.returncode == 1
