"""Copies from topic to topic in transactions, which commit the offsets of their input, and the checks of them.

The copiers are one group, and each is a transactional producer, too (KIP-447). A third of the transactions is aborted,
by chance. A reader of committed records looks on.
"""

import contextlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import confluent_kafka
from confluent_kafka import IsolationLevel

from compat_tests.support.clients import create_topic
from compat_tests.support.verifiable import TransactionalMessageCopier
from tests.system.transactions.asking import (
    PATIENCE_S,
    QUICK,
    committed,
    ends,
    states,
    wait_for,
    wait_until_all_has_ended,
)

INPUT, OUTPUT = "input", "output"
PARTITIONS = 6
GROUP = "copiers"
RECORDS_A_TRANSACTION = 20
# A fetch gets only a part of a partition.
PADDING = b"." * 300
ABORTED = 1 / 3

Values = dict[int, list[bytes]]
"""Values by partition, in order."""


class Copier(Protocol):
    """Copies the input to the output until it is ended."""

    copied: int
    """The number of records in transactions that it knows to be committed."""

    def wait_until(self, what: Callable[[], bool]) -> None:
        """Wait until `what` returns True; AssertionError if the copier has failed."""

    def stop(self) -> None:
        """End it. Its transaction may stay open."""

    def kill(self) -> None:
        """End it, whatever it does."""


class JavaCopier(TransactionalMessageCopier):
    """Kafka's own copier."""

    def __init__(self, folder: Path, bootstrap: str, name: str, jars: Sequence[str]) -> None:
        super().__init__(folder, bootstrap, name, (INPUT, OUTPUT), GROUP, RECORDS_A_TRANSACTION, jars)


class ThreadCopier(threading.Thread):
    """The same with librdkafka, in this process."""

    def __init__(self, bootstrap: str, name: str, chance: random.Random) -> None:
        # A daemon, because a failed test must not wait for it.
        super().__init__(daemon=True)
        self.copied = self.aborted = 0
        self.failure: BaseException | None = None
        self._chance = chance
        self._stopping = threading.Event()
        self._records: list[Any] = []
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **QUICK})
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                # A few records of each partition, so that a transaction is in several partitions.
                "fetch.message.max.bytes": 10_000,
                "queued.min.messages": 100,
                **QUICK,
            }
        )
        self.start()

    def run(self) -> None:
        try:
            self._producer.init_transactions(PATIENCE_S)
            self._consumer.subscribe([INPUT], on_revoke=lambda *_: self._records.clear())
            while not self._stopping.is_set():
                self._poll()
                if self._records:
                    self._copy()
            self._consumer.close()
        except BaseException as error:
            self.failure = error

    def _poll(self) -> None:
        """Poll until there are enough records. The group may rebalance only here, which drops the records."""
        message = self._consumer.poll(0.1)
        while message is not None:
            if message.error() is None:
                self._records.append(message)
            message = self._consumer.poll(0.01) if len(self._records) < RECORDS_A_TRANSACTION else None

    def _copy(self) -> None:
        """Copy the records in a transaction. After an abort they are copied again, unless the group rebalances."""
        self._producer.begin_transaction()
        try:
            for each in self._records:
                self._producer.produce(OUTPUT, each.value(), partition=each.partition())
            after = {each.partition(): each.offset() + 1 for each in self._records}
            offsets = [confluent_kafka.TopicPartition(INPUT, *each) for each in after.items()]
            group = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(offsets, group, PATIENCE_S)
            if self._chance.random() >= ABORTED:
                self._producer.commit_transaction(PATIENCE_S)
                self.copied += len(self._records)
                self._records.clear()
                return
        except confluent_kafka.KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        self._producer.abort_transaction(PATIENCE_S)
        self.aborted += 1

    def wait_until(self, what: Callable[[], bool]) -> None:
        """Wait until `what` returns True; AssertionError if the copier has failed."""
        wait_for(lambda: self.failure or what())
        assert self.failure is None

    def stop(self) -> None:
        """End it after its transaction."""
        self._stopping.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        assert self.failure is None

    def kill(self) -> None:
        """Let it end some time."""
        self._stopping.set()


class Onlooker(threading.Thread):
    """Reads the committed records of the output, from its start on."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.seen: Values = {each: [] for each in range(PARTITIONS)}
        self.errors: list[object] = []
        self._stopping = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "onlookers",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                # Records must not be lost, and so no position is out of range.
                "auto.offset.reset": "error",
                "check.crcs": True,
                **QUICK,
            }
        )

    @property
    def count(self) -> int:
        """The number of records that it has read."""
        return sum(map(len, self.seen.values()))

    def run(self) -> None:
        self._consumer.assign([confluent_kafka.TopicPartition(OUTPUT, each, 0) for each in self.seen])
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.1):
                partition, value = message.partition(), message.value()
                if message.error() is not None or partition is None or value is None:
                    self.errors.append(message.error())
                else:
                    self.seen[partition].append(value)
        self._consumer.close()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


class Copies:
    """Copiers at work during a `with` block. They never get to the end of the input."""

    def __init__(
        self, bootstrap: str, count: int, start: Callable[[int], Copier], records: int, replicas: int = 1
    ) -> None:
        """`start` starts the copier of a number below `count`. Each partition of the input gets so many records."""
        self.bootstrap = bootstrap
        for topic in (INPUT, OUTPUT):
            create_topic(bootstrap, topic, PARTITIONS, replicas=replicas)
        self.input = {
            each: [b"%d/%d " % (each, number) + PADDING for number in range(records)] for each in range(PARTITIONS)
        }
        write(bootstrap, self.input)
        self._count = count
        self._start = start
        self.copiers: list[Copier] = []
        self.onlooker = Onlooker(bootstrap)

    def __enter__(self) -> Self:
        self.onlooker.start()
        for each in range(self._count):
            self.copiers.append(self._start(each))
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        with contextlib.ExitStack() as stack:
            for each in self.copiers:
                stack.callback(each.kill)
            # A failed test shows why it failed, and nothing else.
            if kind is None:
                for each in self.copiers:
                    each.stop()

    def replace(self, number: int) -> None:
        """Kill a copier amid its work, and start its next instance."""
        self.copiers[number].kill()
        self.copiers[number] = self._start(number)

    def wait_until_at_work(self) -> None:
        """Wait until each copier has committed again, and the onlooker has read again."""
        before = {each: each.copied for each in self.copiers}
        for each, copied in before.items():
            each.wait_until(lambda: each.copied > copied)  # noqa: B023
        read = self.onlooker.count
        wait_for(lambda: self.onlooker.count > read)

    def remember(self) -> None:
        """Do nothing, because the check at the end knows what may be there."""

    def check_now(self) -> None:
        """Wait until the copiers and the onlooker go on."""
        self.wait_until_at_work()

    def check(self) -> str:
        """Check that each record was copied once, in order, with its offset, and that all transactions have ended."""
        try:
            return self._check()
        finally:
            self.onlooker.stop()

    def _check(self) -> str:
        for name in wait_for(lambda: states(self.bootstrap), lambda them: len(them) == len(self.copiers)):
            abort_what_is_open(self.bootstrap, name)
        wait_until_all_has_ended(self.bootstrap)
        end = ends(self.bootstrap, IsolationLevel.READ_COMMITTED)
        copied = read_committed(self.bootstrap, OUTPUT, range(PARTITIONS))
        counts = {partition: len(values) for partition, values in copied.items()}
        assert 0 < sum(counts.values()) < sum(map(len, self.input.values())), "all input is copied"
        assert copied == {each: values[: counts[each]] for each, values in self.input.items()}
        assert sum(counts.values()) >= sum(each.copied for each in self.copiers)
        offsets = committed(self.bootstrap, GROUP, INPUT, range(PARTITIONS), stable=True)
        assert counts == {partition: max(offset, 0) for partition, offset in offsets.items()}
        wait_for(lambda: self.onlooker.count, lambda count: count >= sum(counts.values()))
        self.onlooker.stop()
        assert self.onlooker.errors == []
        assert self.onlooker.seen == copied
        written = sum(end[OUTPUT, each] for each in range(PARTITIONS))
        return f"{sum(counts.values())} records copied once, {written} offsets with markers and aborted records"


def abort_what_is_open(bootstrap: str, transactional_id: str) -> None:
    """Abort an open transaction of a producer that is gone, as its next instance does."""
    confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **QUICK}
    ).init_transactions(PATIENCE_S)


def write(bootstrap: str, values: Mapping[int, Sequence[bytes]]) -> None:
    """Write the input."""
    small = {"linger.ms": 20, "batch.num.messages": RECORDS_A_TRANSACTION}
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **small})
    for partition, some in values.items():
        for value in some:
            while True:
                try:
                    producer.produce(INPUT, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
    assert producer.flush(PATIENCE_S) == 0


def read_committed(bootstrap: str, topic: str, partitions: Sequence[int]) -> Values:
    """Return the committed values of a topic, up to the first open transaction of each partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            **QUICK,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
    found: Values = {each: [] for each in partitions}
    ended: set[int] = set()

    def read() -> bool:
        message: Any
        for message in consumer.consume(1000, 0.05):
            if message.error() is None:
                found[message.partition()].append(message.value())
            else:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                ended.add(message.partition())
        return ended == set(partitions)

    wait_for(read)
    consumer.close()
    return found
