"""Consumer groups as stock kafka-python uses them, with its defaults."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from ottla import Broker

# kafka-python leaves sockets to the garbage collector when the broker ends.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

GROUP = "readers"
TOPIC = "orders"
PARTITIONS = 4
PATIENCE_S = 60.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=PARTITIONS, group_initial_rebalance_delay_ms=100) as broker:
        yield broker
    gc.collect()


class Member(threading.Thread):
    """A consumer that polls until `leave`; `seen` holds the values it read."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.consumer = KafkaConsumer(
            TOPIC, bootstrap_servers=broker.bootstrap, group_id=GROUP, auto_offset_reset="earliest"
        )
        self.seen: list[int] = []
        self.assigned: set[int] = set()
        self.failure: BaseException | None = None
        self._leaving = False
        self._polled = threading.Condition()

    def run(self) -> None:
        try:
            while not self._leaving:
                records = self.consumer.poll(200)
                with self._polled:
                    self.seen += [int(each.value) for some in records.values() for each in some]
                    self.assigned = {place.partition for place in self.consumer.assignment()}
                    self._polled.notify_all()
        except BaseException as error:
            self.failure = error
        finally:
            self.consumer.close()

    def wait_for(self, what: Callable[["Member"], bool]) -> None:
        with self._polled:
            assert self._polled.wait_for(lambda: self.failure or what(self), PATIENCE_S), (self.seen, self.assigned)
        assert self.failure is None

    def leave(self) -> None:
        self._leaving = True
        self.join(PATIENCE_S)

    def __enter__(self) -> "Member":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def produce(broker: Broker, *values: int) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for value in values:
            producer.send(TOPIC, b"%d" % value, partition=value % PARTITIONS)
        producer.flush()


def committed(broker: Broker) -> dict[int, int]:
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        offsets = admin.list_group_offsets([GROUP])[GROUP]
        return {place.partition: each.offset for place, each in offsets.items() if place.topic == TOPIC}


def test_a_group_shares_its_partitions_and_hands_them_over(broker: Broker) -> None:
    produce(broker, *range(40))
    with Member(broker) as first:
        first.wait_for(lambda member: len(member.seen) == 40)
        assert first.assigned == set(range(PARTITIONS))
        with Member(broker) as second:
            for each in (first, second):
                each.wait_for(lambda member: len(member.assigned) == PARTITIONS // 2)
            assert first.assigned | second.assigned == set(range(PARTITIONS))
            first.leave()
            second.wait_for(lambda member: len(member.assigned) == PARTITIONS)
            produce(broker, *range(40, 50))
            second.wait_for(lambda member: len(member.seen) == 10)
    assert sorted(first.seen) == list(range(40))
    assert sorted(second.seen) == list(range(40, 50))
    # A leaving member commits its position.
    assert sum(committed(broker).values()) == 50


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill], ids=["stopped", "killed"])
def test_committed_offsets_are_there_after_a_restart(broker: Broker, end: Callable[[Broker], None]) -> None:
    produce(broker, *range(20))
    with Member(broker) as one:
        one.wait_for(lambda member: len(member.seen) == 20)
    expected = committed(broker)
    assert sum(expected.values()) == 20
    end(broker)
    broker.start()
    assert committed(broker) == expected
    produce(broker, *range(20, 25))
    with Member(broker) as another:
        another.wait_for(lambda member: len(member.seen) == 5)
    assert sorted(another.seen) == list(range(20, 25))


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill], ids=["stopped", "killed"])
def test_members_go_on_after_a_restart(broker: Broker, end: Callable[[Broker], None]) -> None:
    produce(broker, *range(20))
    with Member(broker) as one:
        one.wait_for(lambda member: len(member.seen) == 20)
        end(broker)
        broker.start()
        produce(broker, *range(20, 25))
        one.wait_for(lambda member: {*range(20, 25)} <= {*member.seen})
    assert sum(committed(broker).values()) == 25


def test_a_consumer_without_a_subscription_keeps_offsets_too(broker: Broker) -> None:
    produce(broker, *range(8))
    place = TopicPartition(TOPIC, 1)
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=GROUP)) as one:
        one.assign([place])
        one.seek(place, 1)
        one.commit()
        assert one.committed(place) == 1
    assert committed(broker) == {1: 1}
