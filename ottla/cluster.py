"""Several brokers on one loop, with one store: a whole cluster in one process.

Owns their settings, and starts and ends each of them. Must not know what a broker does.
"""

import logging
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import trio

from ottla.broker.clock import thread_offload
from ottla.broker.config import BrokerConfig
from ottla.broker.node import Node
from ottla.embed import DONE, HOST, reserved_port
from ottla.zk.embedded import EmbeddedStore

logger = logging.getLogger("kafka.Kafka$")

STORE_FILE = "metadata.db"
# Whoever tests stops brokers often, and does not wait for minutes until one that is gone is missed.
QUICK = {"controlled.shutdown.retry.backoff.ms": "100", "replica.lag.time.max.ms": "5000"}


class _Running:
    """A broker that runs."""

    def __init__(self, node: Node) -> None:
        self.node = node
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
        # Nobody else gets the port of a broker that does not run: clients of this cluster would ask a stranger.
        self._ports = [reserved_port() for _ in self._ids]
        self._nursery: trio.Nursery
        self._token: trio.lowlevel.TrioToken
        self._said, self._commands = trio.open_memory_channel[str](math.inf)

    async def run(self, ready: Callable[[str], None]) -> None:
        """Serve with all brokers; `ready` is told where clients connect."""
        self._token = trio.lowlevel.current_trio_token()
        await self._store.open()
        try:
            async with trio.open_nursery() as self._nursery:
                async with trio.open_nursery() as nursery:
                    for broker_id in self._ids:
                        nursery.start_soon(self.start_broker, broker_id)
                ready(self.bootstrap)
                self._nursery.start_soon(self._obey)
                await self._stopping.wait()
                for broker_id in list(self._running):
                    await self.stop_broker(broker_id)
                self._nursery.cancel_scope.cancel()
        finally:
            await self._store.close()
            for each in self._ports:
                each.close()

    def stop(self) -> None:
        """Have `run` end: all brokers stop, one after the other."""
        self._stopping.set()

    @property
    def bootstrap(self) -> str:
        """Where clients connect: all brokers, whether they run or not."""
        return ",".join(map(self._place, self._ids))

    def _place(self, broker_id: int) -> str:
        return f"{HOST}:{self._ports[broker_id].getsockname()[1]}"

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker, where it was and with what it had; return when it serves."""
        folder = self._folder / f"broker-{broker_id}"
        texts = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self._place(broker_id)}",
            "log.dirs": str(folder),
            **QUICK,
            **self._overrides,
        }
        folder.mkdir(exist_ok=True)
        running = self._running[broker_id] = _Running(Node(BrokerConfig.load(None, texts, {})[0], store=self._store))
        self._nursery.start_soon(self._run, broker_id, running)
        await running.is_ready.wait()

    async def stop_broker(self, broker_id: int) -> None:
        """Have a broker end as an operator would."""
        running = self._running[broker_id]
        running.node.stop()
        await running.has_ended.wait()

    async def kill_broker(self, broker_id: int) -> None:
        """Have a broker end without a word: its log is as after kill -9, and its session is over."""
        running = self._running[broker_id]
        running.scope.cancel()
        await running.has_ended.wait()

    async def _run(self, broker_id: int, running: _Running) -> None:
        try:
            with running.scope:
                await running.node.run(lambda place: running.is_ready.set())
        finally:
            del self._running[broker_id]
            running.has_ended.set()

    # What another process says

    def hear(self, said: bytes) -> None:
        """Take a verb and the number of a broker, in any thread; what comes of it is printed."""
        self._token.run_sync_soon(self._said.send_nowait, said.decode())

    async def _obey(self) -> None:
        verbs = {"start": self.start_broker, "stop": self.stop_broker, "kill": self.kill_broker}
        async for command in self._commands:
            try:
                verb, number = command.split()
                broker_id = int(number)
                if broker_id not in self._ids or (verb == "start") == (broker_id in self._running):
                    raise ValueError(f"cannot {verb} broker {number}")
                await verbs[verb](broker_id)
                answer = DONE
            except (KeyError, ValueError) as error:
                answer = f"no: {error}"
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()
