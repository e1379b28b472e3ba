"""The brokers under test, each a process of its own: Ottla and Apache Kafka.

Must not import Ottla: its command line starts it, as a user would.
"""

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from compat_tests.support.jars import QUICK, ZOOKEEPER_BROKER, ZOOKEEPER_TOOLS, classpath
from compat_tests.support.java import java_command
from compat_tests.support.zookeeper import ZooKeeper, free_port

KAFKA = "org.apache.kafka:kafka_2.13:4.3.1"
TOOLS = "org.apache.kafka:kafka-tools:4.3.1"
# The jars of tools: those of the newest release, and of the last one with ZooKeeper.
NEWEST = (TOOLS, KAFKA)
LAST_WITH_ZOOKEEPER = (ZOOKEEPER_TOOLS, ZOOKEEPER_BROKER)
# The options of Kafka's start script, with its heap for a broker.
KAFKA_JVM = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)
# The options for brokers that are not measured.
QUICK_JVM = ("-Xmx1G", *QUICK)
METADATA_V1_OF_NO_TOPICS = b"\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x00\xff\xff\x00\x00\x00\x00"
API_VERSIONS_V0 = b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"


class Broker:
    """A broker process, on loopback unless it has another host; stopped at the end of the `with` block."""

    name = "?"
    host = "127.0.0.1"
    start_timeout_s = 120.0

    def __init__(self, data: Path, overrides: Sequence[str] = ()) -> None:
        self.data = data
        self.overrides = list(overrides)
        self.port = free_port()
        self.bootstrap = f"{self.host}:{self.port}"
        self.started_in_s = 0.0
        self.names: dict[str, str] = {}
        """Names in commands for values that differ between brokers, and the values of this broker."""
        self.log_file = data / "process.log"

    def command(self) -> list[str]:
        """Return the command line of the broker."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the process and wait for its first reply."""
        command = self.command()
        with self.log_file.open("ab") as log:
            began = time.perf_counter()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.data)
        while not answers(self.host, self.port):
            if self.process.poll() is not None or time.perf_counter() - began > self.start_timeout_s:
                self.kill()
                raise RuntimeError(f"{self.name} did not start:\n{self.output()[-4000:]}")
            time.sleep(0.002)
        self.started_in_s = time.perf_counter() - began

    def stop(self) -> None:
        """End the process by SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.process.kill()
        self.process.wait()

    def output(self) -> str:
        """Return the output of the process."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def resident_bytes(self) -> int:
        """Return the resident memory of the process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")


class Ottla(Broker):
    """Ottla, by its command line."""

    name = "Ottla"

    def command(self) -> list[str]:
        settings = [f"listeners=PLAINTEXT://{self.bootstrap}", f"log.dirs={self.data / 'log'}", *self.overrides]
        return [sys.executable, "-P", "-m", "ottla", "serve", *(a for s in settings for a in ("--override", s))]


class ApacheKafka(Broker):
    """Apache Kafka 4.3.1: one KRaft node with its defaults."""

    name = "Kafka"
    jvm: Sequence[str] = QUICK_JVM
    features: Sequence[str] = ()
    """Levels of features that differ from those of the release, such as `transaction.version=0`."""

    def command(self) -> list[str]:
        properties = self.data / "server.properties"
        controller = free_port()
        lines = [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller}",
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={self.data / 'log'}",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            *self.overrides,
        ]
        java = java_command(classpath(KAFKA), *self.jvm)
        if not (self.data / "log" / "meta.properties").exists():
            properties.write_text("\n".join(lines) + "\n")
            cluster_id = "bWVhc3VyZWRIZXJlMDAwMA"
            features = [each for level in self.features for each in ("--feature", level)]
            subprocess.run(
                [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties), *features],
                check=True,
                capture_output=True,
                timeout=120,
            )
        return [*java, "kafka.Kafka", str(properties)]


class MeasuredKafka(ApacheKafka):
    """The same with the options of its start script."""

    jvm = KAFKA_JVM


class Kafka39(Broker):
    """Apache Kafka 3.9.2, the last release with ZooKeeper, which its overrides name."""

    name = "Kafka 3.9"
    jvm: Sequence[str] = KAFKA_JVM

    def start(self) -> None:
        """Start the broker."""
        super().start()
        # It answers before its own metadata has it.
        self._wait_until_it_knows_itself()

    def _wait_until_it_knows_itself(self) -> None:
        deadline = time.perf_counter() + self.start_timeout_s
        with socket.create_connection(("127.0.0.1", self.port), self.start_timeout_s) as client:
            brokers = 0
            while not brokers:
                assert time.perf_counter() < deadline, self.output()[-4000:]
                client.sendall(METADATA_V1_OF_NO_TOPICS)
                size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
                brokers = int.from_bytes(client.recv(size, socket.MSG_WAITALL)[4:8], "big")
                time.sleep(0.02)

    def command(self) -> list[str]:
        properties = self.data / "server.properties"
        lines = [
            "broker.id=1",
            f"listeners=PLAINTEXT://127.0.0.1:{self.port}",
            f"log.dirs={self.data / 'log'}",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            *self.overrides,
        ]
        properties.write_text("\n".join(lines) + "\n")
        return [*java_command(classpath(ZOOKEEPER_BROKER), *self.jvm), "kafka.Kafka", str(properties)]


class QuickKafka(Kafka39):
    """The same with the fastest start."""

    jvm: Sequence[str] = QUICK_JVM


class ZooKeeperKafka(QuickKafka):
    """The same with a ZooKeeper of its own. It is Ottla's reference."""

    def __init__(self, data: Path, overrides: Sequence[str] = ()) -> None:
        self.zookeeper = ZooKeeper(data / "zookeeper")
        super().__init__(data, [f"zookeeper.connect={self.zookeeper.connect}", *overrides])

    def start(self) -> None:
        """Start ZooKeeper and the broker, which waits for it."""
        self.zookeeper.launch()
        try:
            super().start()
        except BaseException:
            self.zookeeper.kill()
            raise

    def stop(self) -> None:
        """End the broker, then ZooKeeper."""
        super().stop()
        self.zookeeper.kill()


def answers(host: str, port: int) -> bool:
    """Whether a broker at the address answers ApiVersions."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), 1.0) as client:
        client.settimeout(5.0)
        client.sendall(API_VERSIONS_V0)
        return len(client.recv(4096)) > 0
    return False


@contextlib.contextmanager
def running(kind: type[Broker], overrides: Sequence[str] = (), parent: Path | None = None) -> Iterator[Broker]:
    """Run a broker on fresh data during the block; with a `parent` the data stays there."""
    with contextlib.ExitStack() as stack:
        if parent is None:
            made = tempfile.TemporaryDirectory(prefix="compat-", ignore_cleanup_errors=True)
            folder = stack.enter_context(made)
        else:
            folder = tempfile.mkdtemp(dir=parent)
        broker = kind(Path(folder), overrides)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


def tool_command(
    main_class: str, *arguments: str, jars: Sequence[str] = NEWEST, jvm: Sequence[str] = QUICK
) -> list[str]:
    """Return the command line of one of Kafka's tools."""
    return [*java_command(os.pathsep.join(map(classpath, jars)), "-Xmx256M", *jvm), main_class, *arguments]


def run_tool(
    main_class: str, *arguments: str, stdin: bytes = b"", timeout_s: float = 120, jvm: Sequence[str] = QUICK
) -> str:
    """Run one of Kafka's command line tools; return its output."""
    command = tool_command(main_class, *arguments, jvm=jvm)
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout_s)
    text = done.stdout.decode() + done.stderr.decode()
    if done.returncode:
        raise RuntimeError(f"{main_class} ended with {done.returncode}:\n{text}")
    return text


measured_tool = functools.partial(run_tool, jvm=())
"""The same in a JVM with all compilers, for measurements."""
