"""A compacted log under a load: values that rise from one write of a key to the next."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla import Broker
from tests.system.survival.faults import Killed

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "40000", "min.cleanable.dirty.ratio": "0.01"}
QUICK = {"log_cleaner_backoff_ms": 100, "log_segment_delete_delay_ms": 1000}
TOPIC = "latest"
KEYS = 50
PATIENCE_S = 60.0
UNANSWERED = 2000


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def read_all(bootstrap: str) -> dict[int, tuple[bytes, bytes | None]]:
    """Return keys and values by offset, up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = {}
    message: Any = consumer.poll(PATIENCE_S)
    while not message.error():
        found[message.offset()] = message.key(), message.value()
        message = consumer.poll(PATIENCE_S)
    consumer.close()
    return found


class Writes:
    """Values that rise from one write of a key to the next, with tombstones; remembers acknowledgements."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "batch.size": 4000,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self.chance = chance
        self.count = 0
        self.offsets: dict[int, tuple[bytes, bytes | None]] = {}

    def write(self, count: int) -> None:
        for _ in range(count):
            self.count += 1
            key = b"%d" % self.chance.randrange(KEYS)
            value = None if self.chance.random() < 0.05 else b"%d " % self.count + b"v" * 100
            self.producer.produce(
                TOPIC,
                key=key,
                value=value,
                on_delivery=self.acknowledged,
            )
            while self.producer.poll(0) or len(self.producer) > UNANSWERED:
                self.producer.poll(0.01)

    def acknowledged(self, error: object, message: Any) -> None:
        assert error is None
        self.offsets[message.offset()] = message.key(), message.value()

    def flush(self) -> None:
        assert self.producer.flush(PATIENCE_S) == 0

    def newest(self) -> dict[bytes, bytes | None]:
        return {key: value for _, (key, value) in sorted(self.offsets.items())}

    def check(self, found: dict[int, tuple[bytes, bytes | None]]) -> None:
        """Check that each record was written at its offset, and each key has its newest value."""
        assert found.items() <= self.offsets.items()
        latest = {key: value for _, (key, value) in sorted(found.items())}
        wanted = self.newest()
        assert {key for key, value in wanted.items() if value is None} >= wanted.keys() - latest.keys()
        assert latest == {key: wanted[key] for key in latest}


def log_of(broker: Broker) -> Path:
    (path,) = broker.folder.glob(f"**/{TOPIC}-0")
    return path


def stored_bytes(directory: Path) -> int:
    """Return the total size of the existing segments."""
    sizes = []
    for path in directory.glob("*.log"):
        with suppress(FileNotFoundError):
            sizes.append(path.stat().st_size)
    return sum(sizes)


class Newest:
    """A producer that pauses while a check reads."""

    def __init__(self, broker: Broker, chance: random.Random) -> None:
        self.broker = broker
        self.writes = Writes(broker.bootstrap, random.Random(chance.random()))
        self.looking = threading.Lock()
        self.stopping = threading.Event()
        # A test that has failed does not wait for it.
        self.thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        while not self.stopping.is_set():
            with self.looking:
                self.writes.write(200)
            # A lock is not fair, so the pause lets the other thread take it.
            self.stopping.wait(0.001)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        self.stopping.set()
        self.thread.join(PATIENCE_S if kind is None else 0)

    def wait_until_at_work(self) -> None:
        """Wait until more is written."""
        before = self.writes.count
        wait_for(lambda: self.writes.count > before)

    def remember(self) -> None:
        """Do nothing, because all acknowledgements are remembered."""

    def check_now(self) -> None:
        """Check that each key has its newest value."""
        with self.looking:
            self.writes.flush()
            self.writes.check(read_all(self.broker.bootstrap))

    def check(self) -> str:
        """Check the same after a complete cleaning."""
        self.writes.flush()
        wait_for(lambda: stored_bytes(log_of(self.broker)) < 60_000)
        found = read_all(self.broker.bootstrap)
        self.writes.check(found)
        return f"{self.writes.count} records, {len(found)} left"


class KilledWhileItCleans(Killed):
    """The only broker is killed, while cleanings run."""

    between_s = (0.3, 1.5)

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.amid = 0

    def strike(self) -> None:
        """Kill the broker; its cleaner ends, too."""
        cleaner = children(self.broker.pid)
        super().strike()
        wait_for(partial(have_ended, cleaner))
        self.amid += bool([path for path in log_of(self.broker).iterdir() if path.suffix in (".cleaned", ".swap")])

    def check(self) -> str:
        """Return how many kills hit a running cleaning."""
        return f"{super().check()}, {self.amid} of them amid a cleaning"


def children(pid: int) -> list[str]:
    """Return the child processes of all threads of a process."""
    return [pid for path in Path(f"/proc/{pid}/task").glob("*/children") for pid in path.read_text().split()]


def have_ended(pids: Sequence[str]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)
