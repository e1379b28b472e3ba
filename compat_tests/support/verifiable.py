"""Kafka's programs for tests with faults: each is a JVM that prints its events, line by line.

VerifiableProducer prints each acknowledged record, VerifiableConsumer each received record and each commit.
ReplicaVerificationTool fetches from all replicas of a topic, and prints their largest lag. TransactionalMessageCopier
copies from topic to topic in transactions. All are of release 3.9.2, unless a caller chooses another one.
"""

import contextlib
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from compat_tests.support.brokers import LAST_WITH_ZOOKEEPER, tool_command

PATIENCE_S = 60.0
KEYS = 10
# Settings with which a client continues soon after a broker is gone.
QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 50,
    "metadata.max.age.ms": 500,
}
LAG = re.compile(r"max lag is (-?\d+) for partition \S+ at offset (-?\d+) among (\d+) partitions")


class Place(NamedTuple):
    """The place of a record."""

    partition: int
    offset: int


class Program:
    """A JVM that prints lines until it is ended."""

    main_class = "?"

    def __init__(self, folder: Path, name: str, *arguments: str, jars: Sequence[str] = LAST_WITH_ZOOKEEPER) -> None:
        self.errors = folder / f"{name}.err"
        command = tool_command(self.main_class, *arguments, jars=jars)
        with self.errors.open("ab") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def hear(self, line: str) -> None:
        """Take one of its lines."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it by SIGTERM, and take its lines until then."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)
        self._listener.join(PATIENCE_S)

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Pause it by SIGSTOP during the block."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._listener.join(PATIENCE_S)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.hear(line.decode())

    def wait_until(self, what: Callable[[], bool]) -> None:
        """Wait until `what` returns True."""
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert self._process.poll() is None, f"{self.main_class} has ended: {self.complaints()}"
            assert time.monotonic() < deadline, f"{self.main_class}: {self}: {self.complaints()}"
            time.sleep(0.02)

    def complaints(self) -> str:
        """Return its last lines on stderr."""
        return self.errors.read_text()[-3000:]


class VerifiableProducer(Program):
    """Writes records with acks=all at a low rate; the values are a prefix, a dot and a number."""

    main_class = "org.apache.kafka.tools.VerifiableProducer"

    def __init__(
        self, folder: Path, bootstrap: str, topic: str, prefix: int, a_second: int, config: Mapping[str, object]
    ) -> None:
        self.acknowledged: dict[str, Place] = {}
        self.refused = 0
        self.complete = False
        file = folder / f"producer-{prefix}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in {**QUICK, **config}.items()))
        super().__init__(
            folder,
            f"producer-{prefix}",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--acks", "-1", "--value-prefix", str(prefix)),
            # With keys, so that all partitions get records.
            *("--repeating-keys", str(KEYS), "--throughput", str(a_second), "--producer.config", str(file)),
        )

    def hear(self, line: str) -> None:
        told: dict[str, Any] = json.loads(line)
        if told["name"] == "producer_send_success":
            self.acknowledged[told["value"]] = Place(told["partition"], told["offset"])
        self.refused += told["name"] == "producer_send_error"
        self.complete |= told["name"] == "shutdown_complete"

    def wait_for_acknowledgements(self, count: int = KEYS) -> None:
        """Wait until so many more records are acknowledged."""
        wanted = len(self.acknowledged) + count
        self.wait_until(lambda: len(self.acknowledged) >= wanted)

    def __str__(self) -> str:
        return f"{len(self.acknowledged)} acknowledged, {self.refused} refused"


class VerifiableConsumer(Program):
    """Reads a topic as the only member of a group, and commits after each poll."""

    main_class = "org.apache.kafka.tools.VerifiableConsumer"

    def __init__(self, folder: Path, bootstrap: str, topic: str, group: str, session_timeout_ms: int) -> None:
        self.consumed: dict[Place, str] = {}
        self.committed: dict[int, int] = {}
        # Records before the committed offset, or with another value than before.
        self.read_again: list[str] = []
        file = folder / f"consumer-{group}.properties"
        config = {**QUICK, "heartbeat.interval.ms": 200, "fetch.max.wait.ms": 100}
        file.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        super().__init__(
            folder,
            f"consumer-{group}",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"),
            *("--session-timeout", str(session_timeout_ms), "--reset-policy", "earliest"),
            *("--consumer.config", str(file)),
        )

    def hear(self, line: str) -> None:
        told: dict[str, Any] = json.loads(line)
        if told["name"] == "record_data":
            self._got(Place(told["partition"], told["offset"]), told["value"])
        elif told["name"] == "offsets_committed" and told["success"]:
            for each in told["offsets"]:
                self.committed[each["partition"]] = each["offset"]

    def _got(self, place: Place, value: str) -> None:
        if place.offset < self.committed.get(place.partition, 0) or self.consumed.get(place, value) != value:
            self.read_again.append(f"{place}: {value}, was {self.consumed.get(place)}; {self.committed}")
        self.consumed[place] = value

    def wait_for(self, places: Iterable[Place]) -> None:
        """Wait until it has read and committed these records."""
        last = {each.partition: each.offset for each in sorted(places)}
        self.wait_until(lambda: all(self.committed.get(partition, 0) > offset for partition, offset in last.items()))

    def __str__(self) -> str:
        return f"{len(self.consumed)} consumed, committed {self.committed}"


class Verification(Program):
    """Reads a topic from all its replicas, from the beginning on, and compares them."""

    main_class = "org.apache.kafka.tools.ReplicaVerificationTool"

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self.said: list[str] = []
        super().__init__(
            folder,
            "verification",
            *("--broker-list", bootstrap, "--topics-include", topic, "--time", "-2"),
            *("--max-wait-ms", "100", "--report-interval-ms", "100"),
        )

    def hear(self, line: str) -> None:
        self.said.append(line.strip())

    def wait_for_no_lag(self) -> None:
        """Wait until it prints from now on that all replicas are equal."""
        heard = len(self.said)
        self.wait_until(lambda: any(found and found[1] == "0" for found in map(LAG.search, self.said[heard + 1 :])))

    def mismatches(self) -> list[str]:
        """Return the differences of replicas below the high watermark."""
        return [line for line in self.said if "match" in line]

    def __str__(self) -> str:
        return "\n".join(self.said[-5:])


class TransactionalMessageCopier(Program):
    """Copies a topic to another one, as a member of a group, with the offsets in its transactions.

    It aborts a third of the transactions, by chance, and ends when it has copied what there was when it got its
    partitions.
    """

    main_class = "org.apache.kafka.tools.TransactionalMessageCopier"

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        transactional_id: str,
        topics: tuple[str, str],
        group: str,
        records_a_transaction: int,
        jars: Sequence[str] = LAST_WITH_ZOOKEEPER,
    ) -> None:
        """`topics` are the input and the output."""
        self.copied = 0
        self.left = -1
        source, target = topics
        super().__init__(
            folder,
            transactional_id,
            *("--broker-list", bootstrap, "--transactional-id", transactional_id, "--consumer-group", group),
            # In a group it ignores the partition, which it wants nevertheless.
            *("--input-topic", source, "--input-partition", "-1", "--output-topic", target),
            *("--transaction-size", str(records_a_transaction)),
            *("--group-mode", "--use-group-metadata", "--enable-random-aborts"),
            jars=jars,
        )

    def hear(self, line: str) -> None:
        told: dict[str, Any] = json.loads(line)
        self.copied, self.left = told["totalProcessed"], told["remaining"]

    def __str__(self) -> str:
        return f"{self.copied} copied, {self.left} left"
