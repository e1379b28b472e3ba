"""`ottla cluster up`: a ZooKeeper and some brokers on one machine, each a process of its own.

Owns the processes, their directories and ports, and their end. Must not know how a broker works: it starts brokers by
their command line, and sends them requests as a client. Counterpart in Kafka: none.
"""

import fcntl
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final, NamedTuple

import trio
from rich.console import Console
from rich.live import Live

from ottla.broker.loop.clock import thread_offload
from ottla.broker.net.broker_client import Peer
from ottla.commands import zookeeper_process
from ottla.commands.status_table import Process, table
from ottla.embedded.broker import HOST, READY, reserved_port
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

LOCK_FILE: Final = ".lock"
START_SECONDS: Final = 60.0
# A broker moves its leaderships away before it ends; a ZooKeeper ends at once.
STOP_SECONDS: Final = 30.0
LOOK_EVERY_SECONDS: Final = 1.0
_ASK_MS: Final = 2000
_MAX_REPLY: Final = 1 << 30


class Plan(NamedTuple):
    """The options of the command line."""

    brokers: int
    port: int
    data: Path
    zookeeper: str | None
    zookeeper_jars: Path | None
    cache: Path
    overrides: Mapping[str, str]


class ClusterError(Exception):
    """The cluster cannot start or continue; the text is one line with the reason."""


def up(plan: Plan) -> int:
    """Run a cluster until a signal; return the exit code."""
    try:
        plan.data.mkdir(parents=True, exist_ok=True)
        with _locked(plan.data) as lock, ExitStack() as stack:
            ports = _ports(plan, stack)
            return trio.run(_LocalCluster(plan, ports, lock).run)
    except (ClusterError, zookeeper_process.NoZooKeeperError, OSError) as error:
        sys.stderr.write(f"ottla: {' '.join(str(error).split())}\n")
        return 1


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Lock a folder and yield the lock's descriptor: the lock lasts as long as any process that inherits it."""
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        said = os.read(lock, 1000).decode(errors="replace").strip()
        os.close(lock)
        raise ClusterError(f"a cluster runs on {folder} already, of processes {said}") from None
    try:
        yield lock
    finally:
        os.close(lock)


def _ports(plan: Plan, stack: ExitStack) -> list[int]:
    """Return a port for each broker, and one for a ZooKeeper, reserved until `stack` closes."""
    wanted = [plan.port + number if plan.port else 0 for number in range(plan.brokers)]
    found: list[int] = []
    for port in [*wanted, 0]:
        try:
            sock = stack.enter_context(reserved_port(port))
        except OverflowError:
            raise ClusterError(f"there is no port {port} for broker {len(found)}") from None
        except OSError as error:
            raise ClusterError(f"port {port} for broker {len(found)}: {error.strerror}") from error
        found.append(sock.getsockname()[1])
    return found


class _Member:
    """A process of the cluster, from its start on."""

    def __init__(self, name: str, address: str, process: trio.Process, log: Path) -> None:
        self._name = name
        self._address = address
        self.process = process
        self.log = log

    @property
    def shown(self) -> Process:
        """The process as the table shows it."""
        return Process(self._name, self._address, self.process.pid, self._end())

    def _end(self) -> str | None:
        code = self.process.poll()
        if code is None:
            return None
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"

    async def stop(self) -> None:
        """Terminate the process; kill it after STOP_SECONDS."""
        with trio.move_on_after(STOP_SECONDS):
            if self.process.poll() is None:
                self.process.terminate()
            await self.process.wait()
            return
        self.process.kill()
        await self.process.wait()

    def why(self) -> str:
        """Return the last line of the process's log."""
        lines = self.log.read_text(errors="replace").split("\n")
        return next((line.removeprefix("ottla: ") for line in reversed(lines) if line.strip()), "it does not say why")


class _LocalCluster:
    """The processes of a cluster, from `run` until a signal."""

    def __init__(self, plan: Plan, ports: Sequence[int], lock: int) -> None:
        self._plan = plan
        self._ports = ports
        self._lock = lock
        self._zookeeper: _Member | None = None
        self._brokers: dict[int, _Member] = {}
        self._peers: dict[int, Peer] = {}

    async def run(self) -> int:
        """Start all processes, show them until a signal, and stop them."""
        error: Exception | None = None
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        with trio.open_signal_receiver(*numbers) as signals:
            async with trio.open_nursery() as nursery:
                try:
                    with trio.CancelScope() as scope:
                        nursery.start_soon(self._obey, signals, scope)
                        await self._start()
                        await self._show()
                except (ClusterError, zookeeper_process.NoZooKeeperError, OSError) as raised:
                    error = raised
                finally:
                    with trio.CancelScope(shield=True):
                        await self._stop()
                nursery.cancel_scope.cancel()
        if error is not None:
            raise error
        return 0

    async def _obey(self, signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for _ in signals:
            if scope.cancel_called:
                for member in self._members():
                    if member.process.poll() is None:
                        member.process.kill()
            else:
                sys.stderr.write("stopping; a second signal ends all at once\n")
                scope.cancel()

    def _members(self) -> list[_Member]:
        return [*self._brokers.values(), *([self._zookeeper] if self._zookeeper else [])]

    async def _start(self) -> None:
        connect = self._plan.zookeeper or await self._start_zookeeper()
        for broker_id in range(self._plan.brokers):
            self._brokers[broker_id] = await self._start_broker(broker_id, connect)
        pids = " ".join(str(member.process.pid) for member in self._members())
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, pids.encode(), 0)
        for broker_id, member in self._brokers.items():
            await self._until_ready(f"broker {broker_id}", member)

    async def _start_zookeeper(self) -> str:
        folder = self._plan.data.resolve() / "zookeeper"
        port = self._ports[-1]
        # Checked first, because to fetch the jars takes long.
        zookeeper_process.java()
        if self._plan.zookeeper_jars is not None:
            jars = zookeeper_process.given_jars(self._plan.zookeeper_jars)
        else:
            jars = await zookeeper_process.fetched_jars(self._plan.cache)
        command = zookeeper_process.prepare(folder, HOST, port, jars.resolve())
        address = f"{HOST}:{port}"
        self._zookeeper = await self._start_process("ZooKeeper", address, command, folder / "zookeeper.log")
        deadline = time.monotonic() + START_SECONDS
        while not await zookeeper_process.serves(HOST, port):
            if self._zookeeper.process.poll() is not None:
                raise ClusterError(f"ZooKeeper did not start: {self._zookeeper.why()}")
            if time.monotonic() > deadline:
                raise ClusterError(f"ZooKeeper did not start within {START_SECONDS:.0f} s")
            await trio.sleep(0.05)
        return address

    async def _start_broker(self, broker_id: int, connect: str) -> _Member:
        folder = self._plan.data.resolve() / f"broker-{broker_id}"
        folder.mkdir(exist_ok=True)
        address = f"{HOST}:{self._ports[broker_id]}"
        replicas = min(3, self._plan.brokers)
        settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{address}",
            "log.dirs": str(folder / "data"),
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": "6000",
            "default.replication.factor": str(replicas),
            "offsets.topic.replication.factor": str(replicas),
            "controlled.shutdown.retry.backoff.ms": "500",
            **self._plan.overrides,
        }
        command = [sys.executable, "-P", "-m", "ottla", "serve"]
        command += [part for name, value in settings.items() for part in ("--override", f"{name}={value}")]
        return await self._start_process(f"broker {broker_id}", address, command, folder / "broker.log")

    async def _start_process(self, name: str, address: str, command: Sequence[str], log: Path) -> _Member:
        with log.open("wb") as stream:
            # A group of its own: the terminal's Ctrl-C reaches this process alone, which stops the others in order.
            process = await trio.lowlevel.open_process(
                command, stdin=DEVNULL, stdout=PIPE, stderr=stream, process_group=0, pass_fds=[self._lock]
            )
        return _Member(name, address, process, log)

    async def _until_ready(self, name: str, member: _Member) -> None:
        said = b""
        assert member.process.stdout is not None
        with trio.move_on_after(START_SECONDS):
            while b"\n" not in said:
                received = await member.process.stdout.receive_some()
                if not received:
                    raise ClusterError(f"{name} did not start: {member.why()}")
                said += received
        if not said.startswith(READY):
            raise ClusterError(f"{name} did not start within {START_SECONDS:.0f} s; see {member.log}")

    async def _show(self) -> None:
        bootstrap = ",".join(member.shown.address for member in self._brokers.values())
        console = Console()
        if console.is_terminal:
            console.print(f"bootstrap servers: {bootstrap}\ndata: {self._plan.data}; Ctrl-C stops all")
            with Live(console=console, auto_refresh=False) as live:
                while True:
                    live.update(table(self._zookeeper_text(), self._shown(), await self._ask()), refresh=True)
                    await self._rest()
        # Wide enough for a file.
        console = Console(width=max(console.width, 120))
        console.print(table(self._zookeeper_text(), self._shown(), await self._ask()))
        sys.stdout.write(f"{READY.decode()}{bootstrap}\n")
        sys.stdout.flush()
        before: list[Process] = []
        while True:
            ended = [each.shown for each in self._members() if each.shown.end]
            for process in ended:
                if process not in before:
                    sys.stdout.write(f"{process.name}, process {process.pid}, has {process.end}\n")
                    sys.stdout.flush()
            before = ended
            await self._rest()

    async def _rest(self) -> None:
        if all(member.process.poll() is not None for member in self._brokers.values()):
            raise ClusterError("no broker runs any more")
        await trio.sleep(LOOK_EVERY_SECONDS)

    def _shown(self) -> dict[int, Process]:
        return {broker_id: member.shown for broker_id, member in self._brokers.items()}

    def _zookeeper_text(self) -> str:
        if self._zookeeper is None:
            return str(self._plan.zookeeper)
        shown = self._zookeeper.shown
        return f"{shown.address}, {shown.end or f'process {shown.pid}'}"

    async def _ask(self) -> MetadataResponse | None:
        """Return the metadata from the first broker that answers, or None."""
        for broker_id, process in self._shown().items():
            if process.end is not None:
                continue
            try:
                answer = await self._peer(broker_id).ask_newest(MetadataRequest(topics=None), lowest=1, highest=12)
            except OSError:
                continue
            assert isinstance(answer, MetadataResponse)
            return answer
        return None

    def _peer(self, broker_id: int) -> Peer:
        if broker_id not in self._peers:
            self._peers[broker_id] = Peer(
                lambda: (HOST, self._ports[broker_id]),
                thread_offload(1),
                client_id="ottla-cluster",
                request_timeout_ms=_ASK_MS,
                max_frame=_MAX_REPLY,
            )
        return self._peers[broker_id]

    async def _stop(self) -> None:
        for peer in self._peers.values():
            await peer.close()
        for member in self._members():
            await member.stop()
