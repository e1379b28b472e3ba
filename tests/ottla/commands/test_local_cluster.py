"""`ottla cluster up`: starts a ZooKeeper and brokers, each a process of its own, shows them, and stops them."""

import contextlib
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import confluent_kafka
import pytest
from rich.console import Console

from compat_tests.support.clients import create_topic
from compat_tests.support.jars import require
from compat_tests.support.zookeeper import running
from ottla.commands import zookeeper_process
from ottla.commands.status_table import Partitions, Process, count_partitions, table
from ottla.embedded.broker import reserved_port
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.ottla.embedded.test_broker import ends

PATIENCE_S = 60.0
ROW = re.compile(r"^│ (\d.*) │\r?$", re.MULTILINE)


def partition(leader_id: int, replicas: Sequence[int], in_sync: Sequence[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=leader_id, replica_nodes=replicas, isr_nodes=in_sync
    )


def metadata(*partitions: MetadataResponsePartition) -> MetadataResponse:
    topic = MetadataResponseTopic(error_code=0, name="t", partitions=partitions)
    return MetadataResponse(brokers=(), controller_id=1, topics=[topic])


def test_partitions_are_counted_for_each_broker() -> None:
    found = metadata(
        partition(0, [0, 1, 2], [0, 1, 2]),
        partition(0, [0, 1], [0]),
        partition(1, [1, 2], [1]),
        partition(-1, [2], [2]),
    )
    assert count_partitions(found) == {0: Partitions(2, 1, 2), 1: Partitions(1, 1, 3), 2: Partitions(0, 0, 3)}


def test_the_table_shows_the_controller_and_ended_brokers() -> None:
    brokers = {
        0: Process("broker 0", "h:1", 10),
        1: Process("broker 1", "h:2", 11),
        2: Process("broker 2", "h:3", 12, "ended by SIGKILL"),
    }
    assert shown(brokers, metadata(partition(0, [0, 2], [0]))) == [
        ["0", "h:1", "10", "", "1", "1", "1"],
        ["1", "h:2", "11", "controller", "0", "0", "0"],
        ["2", "h:3", "12", "ended by SIGKILL", "0", "0", "1"],
    ]
    assert shown(brokers, None) == [
        ["0", "h:1", "10", "does not answer", "?", "?", "?"],
        ["1", "h:2", "11", "does not answer", "?", "?", "?"],
        ["2", "h:3", "12", "ended by SIGKILL", "?", "?", "?"],
    ]


def shown(brokers: dict[int, Process], found: MetadataResponse | None) -> list[list[str]]:
    console = Console(width=120, force_terminal=False)
    with console.capture() as capture:
        console.print(table("z:2181", brokers, found))
    return rows(capture.get())


def rows(printed: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("│")] for row in ROW.findall(printed)]


def test_fetched_jars_are_kept_in_the_users_cache_folder() -> None:
    assert zookeeper_process.cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/ottla")
    assert zookeeper_process.cache_folder({"XDG_CACHE_HOME": ""}) == Path.home() / ".cache" / "ottla"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-P", "-m", "ottla", "cluster", "up", *map(str, arguments)]


def said_by_refused(*arguments: object, **environ: str) -> list[str]:
    """Run a command that fails; return its lines on stderr."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, **environ}
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.splitlines()


def refused(*arguments: object, **environ: str) -> str:
    """Run a command that fails; return its one line on stderr."""
    (line,) = said_by_refused(*arguments, **environ)
    return line


@pytest.mark.slow
def test_an_impossible_cluster_is_refused_in_one_line(tmp_path: Path) -> None:
    data = ("--data", tmp_path / "data")
    with reserved_port() as sock:
        sock.listen()
        port = sock.getsockname()[1]
        assert refused(*data, "--port", port) == f"ottla: port {port} for broker 0: Address already in use"
    assert refused(*data, "--port", 65_535).startswith("ottla: there is no port 65536 for broker 1")
    assert refused(*data, "--port", 0, PATH="").startswith("ottla: there is no java: install Java")
    (tmp_path / "java").touch(mode=0o755)
    without_maven = refused(*data, "--port", 0, PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert without_maven.startswith("ottla: there is no mvn: install Maven")
    (tmp_path / "mvn").write_text("#!/bin/sh\necho '\\033[m[ERROR] Nobody is there.'\necho '[ERROR] Help 1'\nexit 1\n")
    (tmp_path / "mvn").chmod(0o755)
    fetching, why = said_by_refused(*data, "--port", 0, PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert fetching == f"fetching ZooKeeper {zookeeper_process.VERSION} into {tmp_path / 'ottla'}"
    assert why == "ottla: mvn could not fetch ZooKeeper: Nobody is there."
    assert not list((tmp_path / "ottla").iterdir())
    (tmp_path / "empty").mkdir()
    no_jars = refused(*data, "--port", 0, "--zookeeper-jars", tmp_path / "empty", PATH=str(tmp_path))
    assert no_jars == f"ottla: {tmp_path / 'empty'} holds no zookeeper-*.jar"
    (tmp_path / "file").touch()
    assert "File exists" in refused("--data", tmp_path / "file")


class Up:
    """The command and its output."""

    def __init__(self, folder: Path, *arguments: object, is_terminal: bool = False, **environ: str) -> None:
        self.printed = ""
        read, write = pty.openpty() if is_terminal else os.pipe()
        self._fd = read
        self._said = folder / "up.stderr"
        env = {**os.environ, "COLUMNS": "120", "TERM": "xterm", **environ}
        with self._said.open("ab") as said:
            self.process = subprocess.Popen(
                command("--data", folder / "data", "--port", 0, *arguments), stdout=write, stderr=said, env=env
            )
        os.close(write)

    def until(self, condition: Callable[[], object]) -> None:
        """Read the output until the condition holds."""
        os.set_blocking(self._fd, False)
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{self.printed}{self._said.read_text()}"
            try:
                read = os.read(self._fd, 65536)
                assert read, f"{self.printed}{self._said.read_text()}"
                self.printed += read.decode()
            except BlockingIOError:
                time.sleep(0.02)

    @property
    def bootstrap(self) -> str:
        self.until(lambda: "ottla ready" in self.printed and self.printed.endswith("\n"))
        return self.printed.partition("bootstrap=")[2].strip()

    @property
    def pids(self) -> list[int]:
        """The pids of the brokers in the table."""
        return [int(pid) for _, _, pid, *_ in rows(self.printed)]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(PATIENCE_S) == 0

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE_S)
        os.close(self._fd)


@contextlib.contextmanager
def up(folder: Path, *arguments: object, is_terminal: bool = False, **environ: str) -> Iterator[Up]:
    cluster = Up(folder, *arguments, is_terminal=is_terminal, **environ)
    try:
        yield cluster
    finally:
        cluster.close()


def produce(bootstrap: str, value: bytes) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    producer.produce("t", value)
    assert producer.flush(PATIENCE_S) == 0


def consume(bootstrap: str, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe(["t"])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += [message.value() or b"" for message in consumer.consume(100, 0.5)]
    consumer.close()
    return found


def all_pids(folder: Path) -> list[int]:
    """Return the pids of ZooKeeper and the brokers."""
    return [int(pid) for pid in (folder / "data" / ".lock").read_text().split()]


@pytest.mark.slow
def test_a_cluster_serves_outlives_a_broker_ends_and_comes_back(tmp_path: Path) -> None:
    require("java")
    require("mvn")
    cache = str(tmp_path / "cache")
    few = ("--override", "offsets.topic.num.partitions=1")
    with up(tmp_path, *few, XDG_CACHE_HOME=cache) as cluster:
        bootstrap = cluster.bootstrap
        assert len(bootstrap.split(",")) == len(cluster.pids) == 3
        create_topic(bootstrap, "t", replicas=3)
        produce(bootstrap, b"a")
        # The first group needs brokers for all replicas of __consumer_offsets.
        assert consume(bootstrap, 1) == [b"a"]
        taken = f"ottla: a cluster runs on {tmp_path / 'data'} already, of processes "
        assert refused("--data", tmp_path / "data", "--port", 0).startswith(taken)
        os.kill(cluster.pids[1], signal.SIGKILL)
        cluster.until(lambda: f"broker 1, process {cluster.pids[1]}, has ended by SIGKILL\n" in cluster.printed)
        produce(bootstrap, b"b")
        assert consume(bootstrap, 2) == [b"a", b"b"]
        pids = all_pids(tmp_path)
        assert set(cluster.pids) < set(pids)
        cluster.stop()
        assert all(ends(pid) for pid in pids)
    jars = tmp_path / "cache" / "ottla" / f"zookeeper-{zookeeper_process.VERSION}"
    with up(tmp_path, *few, "--zookeeper-jars", jars) as cluster:
        assert consume(cluster.bootstrap, 2) == [b"a", b"b"]
        produce(cluster.bootstrap, b"c")
        cluster.stop()


@pytest.mark.slow
def test_a_terminal_sees_the_table_change(tmp_path: Path) -> None:
    with running(tmp_path / "zookeeper") as zookeeper:
        arguments = ("--brokers", 2, "--zookeeper", f"{zookeeper.connect}/there", "--override", "num.partitions=7")
        with up(tmp_path, *arguments, is_terminal=True) as cluster:
            cluster.until(lambda: "controller" in cluster.printed and len(cluster.pids) >= 2)
            victim, other = cluster.pids[-2:]
            os.kill(victim, signal.SIGKILL)
            cluster.until(lambda: "ended by SIGKILL" in cluster.printed)
            # In the end the other broker is the controller.
            cluster.until(lambda: [str(other), "controller"] in [row[2:4] for row in rows(cluster.printed)])
            os.kill(other, signal.SIGKILL)
            assert cluster.process.wait(PATIENCE_S) == 1
        assert "no broker runs any more" in (tmp_path / "up.stderr").read_text()
        assert zookeeper.serves()


@pytest.mark.slow
def test_the_next_command_names_the_processes_that_a_killed_command_left(tmp_path: Path) -> None:
    with running(tmp_path / "zookeeper") as zookeeper:
        arguments = ("--brokers", 1, "--zookeeper", zookeeper.connect)
        with up(tmp_path, *arguments) as cluster:
            assert cluster.bootstrap
            cluster.process.kill()
            cluster.process.wait()
        (left,) = all_pids(tmp_path)
        try:
            line = refused("--data", tmp_path / "data", "--port", 0, *arguments)
            assert line == f"ottla: a cluster runs on {tmp_path / 'data'} already, of processes {left}"
        finally:
            os.kill(left, signal.SIGTERM)
        assert ends(left)
        with up(tmp_path, *arguments) as cluster:
            assert cluster.bootstrap


@pytest.mark.slow
def test_a_failed_start_of_a_broker_prints_one_line_and_leaves_no_process(tmp_path: Path) -> None:
    with running(tmp_path / "zookeeper") as zookeeper:
        arguments = ("--data", tmp_path / "data", "--port", 0, "--zookeeper", zookeeper.connect)
        line = refused(*arguments, "--override", "no.such.thing=1", "--override", "num.partitions=none")
        assert line.startswith("ottla: broker 0 did not start: Invalid value none for configuration num.partitions")
        assert all(ends(pid) for pid in all_pids(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        nowhere = f"127.0.0.1:{deaf.getsockname()[1]}"
        impatient = ("--override", "zookeeper.connection.timeout.ms=500", "--brokers", 1)
        line = refused("--data", tmp_path / "data", "--port", 0, "--zookeeper", nowhere, *impatient)
        assert "broker 0 did not start: Timed out waiting for connection" in line
