"""Several brokers on one loop, with one store: a whole cluster in one process.

Owns their settings, starts and ends each of them, and cuts them off from each other and from the store. Must not know
how a broker works. Counterpart in Kafka: KafkaClusterTestKit.
"""

import logging
import math
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio

from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.loop.clock import thread_offload
from ottla.broker.net.broker_client import open_socket
from ottla.broker.node import Node, run_store
from ottla.embedded.broker import DONE, HOST, reserved_port
from ottla.log.state.directory_failures import NoLogDirectoryError
from ottla.zk.embedded import EmbeddedLink, EmbeddedStore

logger = logging.getLogger("kafka.Kafka$")

STORE_FILE = "metadata.db"
# Tests stop brokers often, and must not wait minutes until the cluster notices.
QUICK = {
    "controlled.shutdown.retry.backoff.ms": "100",
    "controller.socket.timeout.ms": "5000",
    "replica.lag.time.max.ms": "5000",
    "zookeeper.session.timeout.ms": "2000",
}


class _Network:
    """The connections between brokers: those of a cut broker break, and new ones are refused."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._broker_of = {port: broker_id for broker_id, port in enumerate(ports)}
        self._cut: set[int] = set()
        self._connections: list[tuple[set[int], socket.socket]] = []

    async def connect(self, broker_id: int, host: str, port: int) -> socket.socket:
        """Return a socket from one broker to another; ConnectionRefusedError if one of them is cut off."""
        ends = {broker_id, self._broker_of.get(port, broker_id)}
        self._refuse_cut(ends)
        sock = await open_socket(host, port)
        try:
            self._refuse_cut(ends)
        except ConnectionRefusedError:
            sock.close()
            raise
        self._connections = [*(each for each in self._connections if each[1].fileno() >= 0), (ends, sock)]
        return sock

    def _refuse_cut(self, ends: set[int]) -> None:
        if cut := ends & self._cut:
            raise ConnectionRefusedError(f"broker {min(cut)} is cut off")

    def cut(self, broker_id: int) -> None:
        """Cut a broker off from all others."""
        self._cut.add(broker_id)
        for ends, sock in self._connections:
            if broker_id in ends:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def mend(self, broker_id: int) -> None:
        """Allow connections from and to a broker again."""
        self._cut.discard(broker_id)

    def is_cut(self, broker_id: int) -> bool:
        """Return whether a broker is cut off."""
        return broker_id in self._cut


class _Running:
    """A broker that runs."""

    def __init__(self, node: Node, link: EmbeddedLink) -> None:
        self.node = node
        self.link = link
        self.scope = trio.CancelScope()
        self.is_ready = trio.Event()
        self.has_ended = trio.Event()


class Brokers:
    """The brokers 0 to `count` - 1 of a cluster, from `run` until `stop`."""

    def __init__(self, count: int, folder: Path, overrides: Mapping[str, str]) -> None:
        self._ids = range(count)
        self._folder = folder
        self._overrides = overrides
        self._store = EmbeddedStore(folder / STORE_FILE, thread_offload(1))
        self._stopping = trio.Event()
        self._running: dict[int, _Running] = {}
        # The port of a stopped broker stays reserved, because clients would reach another process.
        self._ports = [reserved_port() for _ in self._ids]
        self._network = _Network(each.getsockname()[1] for each in self._ports)
        self._nursery: trio.Nursery
        self._token: trio.lowlevel.TrioToken
        self._said, self._commands = trio.open_memory_channel[str](math.inf)

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve with all brokers until `stop`; call `ready` with the bootstrap addresses."""
        self._token = trio.lowlevel.current_trio_token()
        await self._store.open()
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(run_store, self._store, self._folder)
                async with trio.open_nursery() as nursery:
                    for broker_id in self._ids:
                        nursery.start_soon(self.start_broker, broker_id)
                ready(self.bootstrap)
                self._nursery.start_soon(self._obey)
                await self._stopping.wait()
                for broker_id in list(self._running):
                    await self.heal_broker(broker_id)
                for broker_id in list(self._running):
                    await self.stop_broker(broker_id)
                self._nursery.cancel_scope.cancel()
        finally:
            await self._store.close()
            for each in self._ports:
                each.close()

    def stop(self) -> None:
        """End `run`: all brokers stop, one after the other."""
        self._stopping.set()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, running or not."""
        return ",".join(map(self._place, self._ids))

    def _place(self, broker_id: int) -> str:
        return f"{HOST}:{self._ports[broker_id].getsockname()[1]}"

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker on its port and data; return when it serves."""
        folder = self._folder / f"broker-{broker_id}"
        texts = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self._place(broker_id)}",
            "log.dirs": str(folder),
            **QUICK,
            **self._overrides,
        }
        folder.mkdir(exist_ok=True)
        config = BrokerConfig.load(None, texts, {})[0]
        link = EmbeddedLink(self._store, config.values["zookeeper.session.timeout.ms"])
        node = Node(config, begin=link.begin, connect=partial(self._network.connect, broker_id))
        running = self._running[broker_id] = _Running(node, link)
        self._nursery.start_soon(self._run, broker_id, running)
        await running.is_ready.wait()

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a broker, with a controlled shutdown; return when it has ended."""
        running = self._running[broker_id]
        running.node.stop()
        await running.has_ended.wait()

    async def kill_broker(self, broker_id: int) -> None:
        """End a broker at once: its log is as after kill -9, and its session is over."""
        running = self._running[broker_id]
        running.scope.cancel()
        await running.has_ended.wait()

    async def partition_broker(self, broker_id: int) -> None:
        """Cut a broker off from the others and from the store. Its clients still reach it."""
        await self.part_broker(broker_id)
        self._nursery.start_soon(self._running[broker_id].link.cut)

    async def part_broker(self, broker_id: int) -> None:
        """Cut a broker off from the others, not from the store."""
        self._network.cut(broker_id)

    async def heal_broker(self, broker_id: int) -> None:
        """Undo `partition_broker` or `part_broker`."""
        self._network.mend(broker_id)
        if (running := self._running.get(broker_id)) is not None:
            running.link.mend()

    async def _run(self, broker_id: int, running: _Running) -> None:
        try:
            with running.scope:
                await running.node.run(lambda place: running.is_ready.set())
        except* NoLogDirectoryError as errors:
            # This broker ends as a process of its own would, and the others continue.
            if not running.is_ready.is_set():
                raise
            logger.critical("broker %d ends: %s", broker_id, _first(errors))
        finally:
            del self._running[broker_id]
            running.has_ended.set()

    # Commands of the parent

    def hear(self, said: bytes) -> None:
        """Queue a command, a verb and the number of a broker, from any thread; its answer is printed."""
        self._token.run_sync_soon(self._said.send_nowait, said.decode())

    async def _obey(self) -> None:
        verbs = {
            "start": self.start_broker,
            "stop": self.stop_broker,
            "kill": self.kill_broker,
            "partition": self.partition_broker,
            "part": self.part_broker,
            "heal": self.heal_broker,
        }
        async for command in self._commands:
            try:
                verb, number = command.split()
                self._check(verb, int(number))
                await verbs[verb](int(number))
                answer = DONE
            except (KeyError, ValueError) as error:
                answer = f"no: {error}"
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()

    def _check(self, verb: str, broker_id: int) -> None:
        if broker_id not in self._ids or ((verb == "start") == (broker_id in self._running) and verb != "heal"):
            raise ValueError(f"cannot {verb} broker {broker_id}")
        if verb == "start" and self._network.is_cut(broker_id):
            raise ValueError(f"broker {broker_id} is cut off, and would find no store; heal it first")


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
