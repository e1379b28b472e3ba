"""The effect of one slow log directory (300 ms a write) on other requests: `python -m benchmarks.slow_disk`.

Eight connections write to eight topics of the slow directory all the time. One more connection writes to a topic of the
other directory, one to another topic of the slow directory, and one requests metadata. Each has one request in flight.
Both brokers run in turn, and the table has the medians of all rounds.
"""

import argparse
import contextlib
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.raw_client import Check
from benchmarks.workloads import address, batch_of, no_produce_error, produce_frame
from compat_tests.support.brokers import Broker, MeasuredKafka, Ottla, running
from compat_tests.support.clients import create_topic
from compat_tests.support.slow_writes import QUICK, SLOW, SlowWrites, directory_of
from ottla.wire.codec import encode_request
from ottla.wire.messages.metadata import MetadataRequest

SYSTEMS: Final = (MeasuredKafka, Ottla)
WRITE_MS: Final = 300
SLOW_WRITERS: Final = 8
TOPICS: Final = "trial-"
SECONDS: Final = 8.0
WARM_UP_S: Final = 10.0
RECORDS: Final = 10
METADATA_VERSION: Final = 9
OTHER, SAME, METADATA, BUSY = (
    "a topic in another directory",
    "a topic in the slow directory",
    "Metadata",
    "the topics that are written to all the time",
)


class Client(threading.Thread):
    """A connection that sends one frame after the other and notes how long each reply takes."""

    def __init__(self, broker: Broker, frame: bytes, check: Check | None = no_produce_error) -> None:
        super().__init__(daemon=True)
        self._check = check
        self._socket = socket.create_connection(address(broker))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frame = frame
        self._is_over = threading.Event()
        self.took: list[float] = []

    def run(self) -> None:
        """Send until `end`. RuntimeError for a Produce response with an error."""
        with contextlib.closing(self._socket), self._socket.makefile("rb") as stream:
            while not self._is_over.is_set():
                began = time.perf_counter()
                self._socket.sendall(self._frame)
                size = int.from_bytes(stream.read(4), "big")
                reply = stream.read(size)
                self.took.append(time.perf_counter() - began)
                if len(reply) < size:
                    raise RuntimeError("the broker closed the connection")
                if self._check is not None:
                    self._check(memoryview(reply))
                self._is_over.wait(0.002)

    def end(self) -> list[float]:
        """Stop, and return the times of all requests."""
        self._is_over.set()
        self.join()
        return self.took


def measure(broker: Broker, seconds: float) -> dict[str, float]:
    """Return the median time of each kind of request, in milliseconds."""
    in_slow, in_quick = _topics(broker)
    clients = {
        OTHER: [Client(broker, _produce(in_quick))],
        SAME: [Client(broker, _produce(in_slow[0]))],
        METADATA: [Client(broker, encode_request(METADATA_VERSION, 7, "bench", MetadataRequest(topics=[])), None)],
        BUSY: [Client(broker, _produce(topic)) for topic in in_slow[1:]],
    }
    for each in clients.values():
        for client in each:
            client.start()
    time.sleep(seconds)
    took = {kind: [t for client in each for t in client.end()] for kind, each in clients.items()}
    return {kind: 1000 * statistics.median(found) for kind, found in took.items()}


def _produce(topic: str) -> bytes:
    return produce_frame(topic, 0, batch_of(RECORDS, time.time_ns() // 1_000_000))


def _topics(broker: Broker) -> tuple[list[str], str]:
    """Return topics in the slow directory, and one in the other directory."""
    names = [f"{TOPICS}{number}" for number in range(2 * (SLOW_WRITERS + 1))]
    with contextlib.suppress(Exception):
        for name in names:
            create_topic(broker.bootstrap, name)
    by_directory: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_directory[directory_of(broker, name)].append(name)
    return by_directory[SLOW][: SLOW_WRITERS + 1], by_directory[QUICK][0]


def rounds(count: int, seconds: float) -> Iterator[tuple[str, str, str, float]]:
    """Yield rows: system, whether the disk is slow, kind of request, milliseconds."""
    with tempfile.TemporaryDirectory(prefix="slow-disk-") as folder:
        writes = SlowWrites(Path(folder))
        for number in range(count):
            for system in SYSTEMS if number % 2 else reversed(SYSTEMS):
                writes.take(0)
                with running(writes.broker(system, TOPICS)) as broker:
                    measure(broker, WARM_UP_S)
                    for state, milliseconds in (("quick", 0), ("slow", WRITE_MS)):
                        writes.take(milliseconds)
                        for kind, median in measure(broker, seconds).items():
                            yield system.name, state, kind, median
                    writes.take(0)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    figures: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for system, state, kind, median in rounds(given.rounds, given.seconds):
        print(f"{system:6} {state:5} {kind:45} p50 {median:9.2f} ms", file=sys.stderr, flush=True)
        figures[system, state, kind].append(median)
    print("| p50, ms | Kafka, quick disk | Kafka, slow disk | Ottla, quick disk | Ottla, slow disk |")
    print("|---|---|---|---|---|")
    for kind in (OTHER, SAME, METADATA, BUSY):
        cells = [
            f"{statistics.median(figures[system.name, state, kind]):.2f}"
            for system in SYSTEMS
            for state in ("quick", "slow")
        ]
        print(f"| {kind} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
