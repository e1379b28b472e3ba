"""Kill -9 while consumers commit: no committed offset goes back, and each group goes on with the members it had."""

import random
import threading
import time
from collections.abc import Callable
from typing import cast

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla import Broker
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

from .raw import RawClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

TOPIC = "consumed"
PARTITIONS = 6
# Five consumers in two groups.
GROUPS = {"three": 3, "two": 2}
SESSION_TIMEOUT_S = 6.0
PATIENCE_S = 60.0
DESCRIBE_VERSION = 5
FETCH_VERSION = 8
QUICK = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 50, "log_level": 0}

Committed = dict[tuple[str, int], int]


class Producer(threading.Thread):
    """Writes a little, for as long as the test lasts."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.stopping = threading.Event()
        self.producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **QUICK})

    def run(self) -> None:
        number = 0
        while not self.stopping.wait(0.01):
            for _ in range(20):
                number += 1
                try:
                    self.producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                except BufferError:
                    break
            self.producer.poll(0)
        self.producer.purge()
        self.producer.flush(1)


class Member(threading.Thread):
    """Consumes and commits, and remembers what it was told is committed."""

    def __init__(self, bootstrap: str, group: str, committed: Committed, lock: threading.Lock) -> None:
        super().__init__()
        self.group = group
        self.committed = committed
        self.lock = lock
        self.commits = 0
        self.went_back: list[str] = []
        self.stopping = threading.Event()
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": int(SESSION_TIMEOUT_S * 1000),
                "heartbeat.interval.ms": 500,
                **QUICK,
            }
        )

    def run(self) -> None:
        self.consumer.subscribe([TOPIC])
        while not self.stopping.is_set():
            messages = self.consumer.consume(100, 0.1)
            for message in messages:
                self._check(message)
            if any(message.error() is None for message in messages):
                self._commit()
        self.consumer.close()

    def _check(self, message: confluent_kafka.Message) -> None:
        """What is committed may be read by nobody of the group again."""
        partition, offset = message.partition(), message.offset()
        if message.error() is None and partition is not None and offset is not None:
            with self.lock:
                if offset < self.committed.get((self.group, partition), 0):
                    self.went_back.append(f"{self.group} read {partition}/{offset} again")

    def _commit(self) -> None:
        try:
            partitions = self.consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException:
            return  # the broker was killed, or the group gathers anew: the next one counts
        with self.lock:
            for each in partitions or ():
                if each.error is None and each.offset >= 0:
                    key = self.group, each.partition
                    self.committed[key] = max(self.committed.get(key, 0), each.offset)
                    self.commits += 1


def test_a_killed_broker_loses_no_committed_offset_and_no_group(
    trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    chance = random.Random(seed)
    committed: Committed = {}
    lock = threading.Lock()
    with Broker(offsets_topic_num_partitions="5", group_initial_rebalance_delay_ms="0") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUICK})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_S)
        members = [
            Member(broker.bootstrap, group, committed, lock) for group, count in GROUPS.items() for _ in range(count)
        ]
        threads: list[Producer | Member] = [Producer(broker.bootstrap), *members]
        for thread in threads:
            thread.start()
        try:
            wait_until_stable(broker, PATIENCE_S)
            wait_for_commits(members)
            took = []
            for _ in range(trials):
                time.sleep(chance.uniform(0.0, 0.5))
                broker.kill()
                with lock:
                    before = dict(committed)
                broker.start()
                began = time.monotonic()
                wait_until_stable(broker, PATIENCE_S)
                assert behind(broker, before) == {}
                # A kill proves something only if the consumers were at work.
                wait_for_commits(members)
                took.append(time.monotonic() - began)
        finally:
            for thread in threads:
                thread.stopping.set()
            for thread in threads:
                thread.join(PATIENCE_S)
        assert behind(broker, committed) == {}
    assert [each for member in members for each in member.went_back] == []
    took.sort()
    tell(
        f"{trials} kills, {sum(member.commits for member in members)} commits acknowledged in {len(GROUPS)} groups; "
        f"stable and committing again after {took[len(took) // 2]:.2f} s (median) and {took[-1]:.2f} s (slowest)"
    )
    assert took[-1] < SESSION_TIMEOUT_S


def wait_until_stable(broker: Broker, patience_s: float) -> None:
    """Return when each group has all its members and is stable."""
    began = time.monotonic()
    request = DescribeGroupsRequest(groups=[*GROUPS])
    while time.monotonic() - began < patience_s:
        with RawClient(broker.bootstrap) as client:
            described = cast(DescribeGroupsResponse, client.ask(request, DESCRIBE_VERSION)).groups
        if all(
            each.group_state == "Stable" and len(each.members) == GROUPS[each.group_id] and not each.error_code
            for each in described
        ):
            return
        time.sleep(0.02)
    raise AssertionError(f"not stable after {patience_s} s: {described}")


def wait_for_commits(members: list[Member]) -> None:
    """Return when each group has committed something more."""
    before = {member: member.commits for member in members}
    deadline = time.monotonic() + PATIENCE_S
    while {member.group for member in members if member.commits > before[member]} != set(GROUPS):
        assert time.monotonic() < deadline, "nobody commits any more"
        time.sleep(0.01)


def behind(broker: Broker, committed: Committed) -> Committed:
    """What the broker says is committed, where that is less than was acknowledged."""
    asked = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in GROUPS]
    with RawClient(broker.bootstrap) as client:
        told = cast(OffsetFetchResponse, client.ask(OffsetFetchRequest(groups=asked), FETCH_VERSION)).groups
    assert [group.error_code for group in told] == [0] * len(GROUPS)
    found = {
        (group.group_id, partition.partition_index): partition.committed_offset
        for group in told
        for topic in group.topics
        for partition in topic.partitions
    }
    return {key: found.get(key, -1) for key, offset in committed.items() if found.get(key, -1) < offset}
