"""A ZooKeeper server of the release in Kafka 3.9.2, as a process of its own."""

import contextlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from compat_tests.support.jars import QUICK, ZOOKEEPER_BROKER, classpath
from compat_tests.support.java import java_command

# By default Linux assigns higher ports to clients.
PORTS = (15_000, 32_000)
PORTS_TRIED = 1000
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeeper:
    """A server, on loopback unless it has another host; it keeps its data and its port over restarts."""

    host = "127.0.0.1"
    start_timeout_s = 120.0

    def __init__(self, data: Path, settings: Sequence[str] = (), jvm: Sequence[str] = QUICK) -> None:
        self.data = data
        self.settings = list(settings)
        self.jvm = list(jvm)
        self.port = free_port()
        self.connect = f"{self.host}:{self.port}"
        self.log_file = data / "zookeeper.log"

    def launch(self) -> None:
        """Start the process."""
        self.data.mkdir(parents=True, exist_ok=True)
        properties = self.data / "zookeeper.properties"
        lines = [
            f"dataDir={self.data / 'data'}",
            f"clientPort={self.port}",
            f"clientPortAddress={self.host}",
            "admin.enableServer=false",
            "maxClientCnxns=0",
            "4lw.commands.whitelist=srvr",
            *self.settings,
        ]
        properties.write_text("\n".join(lines) + "\n")
        command = self.command(properties)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def command(self, properties: Path) -> list[str]:
        """Return the command line of the server."""
        return [*java_command(classpath(ZOOKEEPER_BROKER), "-Xmx256M", *self.jvm), MAIN_CLASS, str(properties)]

    def start(self) -> None:
        """Start the process and wait until it serves."""
        self.launch()
        deadline = time.perf_counter() + self.start_timeout_s
        while not self.serves():
            if self.process.poll() is not None or time.perf_counter() > deadline:
                self.kill()
                raise RuntimeError(f"ZooKeeper did not start:\n{self.output()[-4000:]}")
            time.sleep(0.02)

    def serves(self) -> bool:
        """Whether the server answers a client."""
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1.0) as client:
            client.settimeout(5.0)
            client.sendall(b"srvr")
            # Not `ruok`, because the server answers it before it answers clients.
            return b"Mode:" in client.makefile("rb").read()
        return False

    def pause(self) -> None:
        """Pause the process by SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.process.kill()
        self.process.wait()

    def output(self) -> str:
        """Return the output of the process."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""


def free_port() -> int:
    """Return a free port outside the range of ports that the system assigns."""
    for _ in range(PORTS_TRIED):
        port = random.randrange(*PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError(f"no free port among {PORTS_TRIED} of {PORTS}")


@contextlib.contextmanager
def running(data: Path, settings: Sequence[str] = (), jvm: Sequence[str] = QUICK) -> Iterator[ZooKeeper]:
    """Run a ZooKeeper during the block."""
    server = ZooKeeper(data, settings, jvm)
    server.start()
    try:
        yield server
    finally:
        server.kill()
