"""Transactions of the stock clients: committed, aborted, fenced, out of time, and with offsets of a group.

`make test` runs them on Ottla, `make compat` also on Apache Kafka 4.3.1 and 3.9.2, and with more of Java's clients.
"""

import concurrent.futures
import contextlib
import time
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, ZooKeeperKafka, running
from compat_tests.support.clients import create_topic
from compat_tests.transactions.calls import Client, Consumer, Producer, Read
from compat_tests.transactions.clients import (
    CLIENTS,
    COMMITTED,
    PATIENCE_S,
    UNCOMMITTED,
    end_offset,
    kind_of,
    opened,
)

pytestmark = pytest.mark.slow
# A broker looks for transactions out of time so often.
SETTINGS = [
    *("transaction.abort.timed.out.transaction.cleanup.interval.ms=100", "transaction.state.log.num.partitions=5"),
    *("offsets.topic.num.partitions=5", "group.initial.rebalance.delay.ms=0"),
]
KINDS = {
    Ottla: ["node.id=1"],
    ApacheKafka: ["node.id=1"],
    ZooKeeperKafka: ["broker.id=1"],
}
QUICK = ("kafka-python", "confluent-kafka", "aiokafka", "java 4.3.1")
NOTHING = "nothing was refused"
# What a fenced producer raises.
FENCED = {
    "kafka-python": "ProducerFencedError",
    "confluent-kafka": "_FENCED",
    "aiokafka": "ProducerFenced",
    "java 3.9.2": "ProducerFencedException",
    "java 4.3.1": "ProducerFencedException",
    "java 4.4.0": "ProducerFencedException",
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, id=kind.name, marks=[] if kind is Ottla else pytest.mark.compat) for kind in KINDS],
)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with running(request.param, [*KINDS[request.param], *SETTINGS]) as broker:
        yield broker


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name in QUICK else pytest.mark.compat) for name in CLIENTS],
)
def named(request: pytest.FixtureRequest) -> Iterator[tuple[str, Client]]:
    with opened(request.param) as client:
        yield request.param, client


def refusal(*acts: Callable[[], None]) -> str:
    """Return the kind of the first error; the acts are calls one after the other."""
    try:
        for act in acts:
            act()
    except Exception as error:
        return kind_of(error)
    return NOTHING


def write_plainly(broker: Broker, topic: str, *values: str, partition: int = 0) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def readable(client: Client, broker: Broker, topic: str, isolation: str) -> list[str]:
    """Return all values that such a reader may see now."""
    return client.read(broker.bootstrap, topic, isolation, end_offset(broker.bootstrap, topic, isolation))


def wait_for_end(broker: Broker, topic: str) -> None:
    """Wait until no transaction is open in partition 0, because a commit is answered before its marker is written."""
    deadline = time.monotonic() + PATIENCE_S
    while end_offset(broker.bootstrap, topic, COMMITTED) < end_offset(broker.bootstrap, topic, UNCOMMITTED):
        assert time.monotonic() < deadline, "a transaction stays open"
        time.sleep(0.02)


def test_readers_of_committed_records_see_only_those(broker: Broker, named: tuple[str, Client], topic: str) -> None:
    _, client = named
    create_topic(broker.bootstrap, topic)
    kept, dropped, late = (client.producer(broker.bootstrap, f"{topic}-{number}") for number in range(3))
    for producer in (kept, dropped, late):
        producer.begin()
    # The three transactions and a plain producer take turns.
    kept.send(topic, "kept 1")
    dropped.send(topic, "dropped 1")
    write_plainly(broker, topic, "plain 1")
    kept.send(topic, "kept 2")
    late.send(topic, "late 1")
    dropped.send(topic, "dropped 2")
    kept.commit()
    dropped.abort()
    write_plainly(broker, topic, "plain 2")
    late.send(topic, "late 2")
    everything = ["kept 1", "dropped 1", "plain 1", "kept 2", "late 1", "dropped 2", "plain 2", "late 2"]
    assert readable(client, broker, topic, UNCOMMITTED) == everything
    # They end where the open transaction begins.
    assert client.read(broker.bootstrap, topic, COMMITTED, 4) == ["kept 1", "plain 1", "kept 2"]
    late.commit()
    wait_for_end(broker, topic)
    assert readable(client, broker, topic, UNCOMMITTED) == everything
    committed = [each for each in everything if not each.startswith("dropped")]
    assert readable(client, broker, topic, COMMITTED) == committed
    # A producer goes on after either end.
    for producer in (kept, dropped):
        producer.begin()
        producer.send(topic, "again")
        producer.commit()
    wait_for_end(broker, topic)
    assert readable(client, broker, topic, COMMITTED) == [*committed, "again", "again"]
    for producer in (kept, dropped, late):
        producer.close()


def test_the_second_producer_of_an_id_fences_the_first(broker: Broker, named: tuple[str, Client], topic: str) -> None:
    name, client = named
    create_topic(broker.bootstrap, topic)
    first = client.producer(broker.bootstrap, topic)
    first.begin()
    first.send(topic, "first")
    second = client.producer(broker.bootstrap, topic)
    # The open transaction has been aborted.
    wait_for_end(broker, topic)
    second.begin()
    second.send(topic, "second")
    assert refusal(first.commit) == FENCED[name]
    assert refusal(first.begin, lambda: first.send(topic, "too late"), first.commit) != NOTHING
    second.commit()
    third = client.producer(broker.bootstrap, topic)
    # It has no open transaction, so that its write is refused first.
    assert refusal(second.begin, lambda: second.send(topic, "too late"), second.commit) != NOTHING
    third.begin()
    third.send(topic, "third")
    third.commit()
    wait_for_end(broker, topic)
    assert readable(client, broker, topic, UNCOMMITTED) == ["first", "second", "third"]
    assert readable(client, broker, topic, COMMITTED) == ["second", "third"]
    for producer in (first, second, third):
        producer.close()


def test_a_transaction_out_of_time_is_aborted(broker: Broker, named: tuple[str, Client], topic: str) -> None:
    _, client = named
    create_topic(broker.bootstrap, topic)
    producer = client.producer(broker.bootstrap, topic, timeout_ms=1000)
    producer.begin()
    producer.send(topic, "out of time")
    write_plainly(broker, topic, "plain")
    wait_for_end(broker, topic)
    assert readable(client, broker, topic, COMMITTED) == ["plain"]
    assert refusal(producer.commit) != NOTHING
    # Its id works for a new producer.
    new = client.producer(broker.bootstrap, topic)
    new.begin()
    new.send(topic, "new")
    new.commit()
    wait_for_end(broker, topic)
    assert readable(client, broker, topic, COMMITTED) == ["plain", "new"]
    assert readable(client, broker, topic, UNCOMMITTED) == ["out of time", "plain", "new"]
    producer.close()
    new.close()


class Copying:
    """A program that copies a topic to another one, with its offsets in its transactions."""

    def __init__(self, client: Client, broker: Broker, source: str, target: str) -> None:
        # The producer first: it waits for the end of what an earlier one has left.
        self.producer: Producer = client.producer(broker.bootstrap, source)
        self._consumer: Consumer = client.consumer(broker.bootstrap, source, source)
        self._source, self._target = source, target
        self._read: list[Read] = []

    def copy(self, count: int) -> None:
        """Begin a transaction with copies of the next records and their offsets."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self._read) < count:
            assert time.monotonic() < deadline, self._read
            self._read += self._consumer.poll()
        some, self._read = self._read[:count], self._read[count:]
        self.producer.begin()
        for each in some:
            self.producer.send(self._target, each.value)
        self.producer.send_offsets(self._consumer, self._source, {each.partition: each.offset + 1 for each in some})

    def leave(self) -> None:
        """Leave the group."""
        self._consumer.close()


@pytest.mark.once
def test_records_are_copied_exactly_once(broker: Broker, named: tuple[str, Client], topic: str) -> None:
    name, client = named
    target = f"{topic}-copies"
    create_topic(broker.bootstrap, topic, 2)
    create_topic(broker.bootstrap, target)
    records = [f"{partition}-{number}" for partition in range(2) for number in range(10)]
    for partition in range(2):
        write_plainly(
            broker, topic, *(each for each in records if each.startswith(f"{partition}-")), partition=partition
        )
    aborting = Copying(client, broker, topic, target)
    aborting.copy(3)
    aborting.producer.abort()
    aborting.leave()
    hanging = Copying(client, broker, topic, target)
    hanging.copy(4)
    hanging.producer.commit()
    hanging.copy(5)
    hanging.leave()
    # It takes over while a transaction is open, whose offsets do not count.
    finishing = Copying(client, broker, topic, target)
    for _ in range(2):
        finishing.copy(8)
        finishing.producer.commit()
    finishing.leave()
    assert refusal(hanging.producer.commit) == FENCED[name]
    wait_for_end(broker, target)
    assert sorted(readable(client, broker, target, COMMITTED)) == records
    assert len(readable(client, broker, target, UNCOMMITTED)) == 3 + len(records) + 5
    assert client.committed(broker.bootstrap, topic, topic) == 10
    for each in (aborting, hanging, finishing):
        each.producer.close()


def test_who_asks_for_committed_offsets_waits_for_an_open_transaction(
    broker: Broker, named: tuple[str, Client], topic: str
) -> None:
    name, client = named
    if name == "aiokafka":
        pytest.skip("it does not ask for stable offsets")
    create_topic(broker.bootstrap, topic)
    write_plainly(broker, topic, "one", "two")
    copying = Copying(client, broker, topic, topic)
    copying.copy(1)
    copying.producer.commit()
    copying.copy(1)
    # Another client asks, because Java's answers one call after the other.
    with opened("confluent-kafka" if name.startswith("java") else name) as asking, _one_thread() as thread:
        asked = thread.submit(asking.committed, broker.bootstrap, topic, topic)
        assert not asked.done()
        copying.producer.commit()
        assert asked.result(PATIENCE_S) == 2
    copying.leave()
    copying.producer.close()


def _one_thread() -> contextlib.AbstractContextManager[concurrent.futures.ThreadPoolExecutor]:
    return concurrent.futures.ThreadPoolExecutor(1)


def test_clients_of_all_kinds_fence_one_another(broker: Broker, topic: str) -> None:
    create_topic(broker.bootstrap, topic)
    with contextlib.ExitStack() as stack:
        clients = {name: stack.enter_context(opened(name)) for name in QUICK}
        before: tuple[str, Producer] | None = None
        for name in (*QUICK, *reversed(QUICK)):
            producer = clients[name].producer(broker.bootstrap, topic)
            producer.begin()
            producer.send(topic, name)
            if before is not None:
                assert (before[0], refusal(before[1].commit)) == (before[0], FENCED[before[0]])
                before[1].close()
            before = name, producer
        assert before is not None
        before[1].commit()
        before[1].close()
        wait_for_end(broker, topic)
        for client in clients.values():
            assert readable(client, broker, topic, COMMITTED) == [QUICK[0]]
