"""Consumers in groups that commit offsets during faults of brokers, and the checks after them."""

import contextlib
import threading
import time
from typing import NamedTuple, cast

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.wire.schema import Request, Response
from tests.support.raw import RawClient

TOPIC = "consumed"
PARTITIONS = 6
# Five consumers in two groups.
GROUPS = {"three": 3, "two": 2}
SESSION_TIMEOUT_S = 6.0
PATIENCE_S = 60.0
FIND_VERSION = 4
DESCRIBE_VERSION = 5
FETCH_VERSION = 8
QUICK = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 50, "log_level": 0}

Committed = dict[tuple[str, int], int]


class Producer(threading.Thread):
    """Writes a few records, until the test ends."""

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
    """Consumes and commits, and remembers the acknowledged commits."""

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
        """Check that no member reads a committed record again."""
        partition, offset = message.partition(), message.offset()
        if message.error() is None and partition is not None and offset is not None:
            with self.lock:
                if offset < self.committed.get((self.group, partition), 0):
                    self.went_back.append(f"{self.group} read {partition}/{offset} again")

    def _commit(self) -> None:
        try:
            partitions = self.consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException:
            return  # the broker was killed, or the group rebalances: the next commit counts
        with self.lock:
            for each in partitions or ():
                if each.error is None and each.offset >= 0:
                    key = self.group, each.partition
                    self.committed[key] = max(self.committed.get(key, 0), each.offset)
                    self.commits += 1


class Coordinator(NamedTuple):
    """The coordinator of a group, and its address."""

    broker_id: int
    bootstrap: str


class Work:
    """A producer and five consumers in two groups, at work during a `with` block."""

    def __init__(self, bootstrap: str, replicas: int) -> None:
        self.bootstrap = bootstrap
        self.committed: Committed = {}
        self.lock = threading.Lock()
        self.admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK})
        topic = NewTopic(TOPIC, PARTITIONS, replicas)
        self.admin.create_topics([topic], operation_timeout=10)[TOPIC].result(PATIENCE_S)
        self.members = [
            Member(bootstrap, group, self.committed, self.lock) for group, count in GROUPS.items() for _ in range(count)
        ]
        self._threads: list[Producer | Member] = [Producer(bootstrap), *self.members]

    def __enter__(self) -> "Work":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    @property
    def commits(self) -> int:
        """The number of acknowledged commits."""
        return sum(member.commits for member in self.members)

    def acknowledged(self) -> Committed:
        """The committed offsets that members got acknowledged."""
        with self.lock:
            return dict(self.committed)

    def wait_until_stable(self) -> set[str]:
        """Wait until each group is stable with all its members; return the ids of the members."""
        deadline = time.monotonic() + PATIENCE_S
        found: set[str] = set()
        for group, size in GROUPS.items():
            while len(members := self._stable_members(group)) != size:
                assert time.monotonic() < deadline, f"{group}: {members}"
                time.sleep(0.02)
            found |= members
        return found

    def wait_for_commits(self) -> None:
        """Wait until each group has committed again."""
        before = {member: member.commits for member in self.members}
        deadline = time.monotonic() + PATIENCE_S
        while {member.group for member in self.members if member.commits > before[member]} != set(GROUPS):
            assert time.monotonic() < deadline, "nobody commits any more"
            time.sleep(0.01)

    def coordinator(self, group: str) -> Coordinator | None:
        """Return the coordinator of a group, as one of the brokers knows it."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        for place in self.bootstrap.split(","):
            with contextlib.suppress(OSError), RawClient(place) as client:
                (found,) = cast(FindCoordinatorResponse, client.ask(request, FIND_VERSION)).coordinators
                if not found.error_code:
                    return Coordinator(found.node_id, f"{found.host}:{found.port}")
        return None

    def _ask(self, group: str, request: Request, version: int) -> Response | None:
        """Return the response of the coordinator of a group; None if there is none at the moment."""
        found = self.coordinator(group)
        with contextlib.suppress(OSError):
            if found is not None:
                with RawClient(found.bootstrap) as client:
                    return client.ask(request, version)
        return None

    def _stable_members(self, group: str) -> set[str]:
        """Return the ids of a group's members; none unless the group is stable."""
        answer = self._ask(group, DescribeGroupsRequest(groups=[group]), DESCRIBE_VERSION)
        described = () if answer is None else cast(DescribeGroupsResponse, answer).groups
        return {member.member_id for each in described if each.group_state == "Stable" for member in each.members}

    def behind(self, committed: Committed) -> Committed:
        """Return the committed offsets that are below the acknowledged offsets."""
        found = {
            (group, partition.partition_index): partition.committed_offset
            for group in GROUPS
            for topic in self._fetched(group).groups[0].topics
            for partition in topic.partitions
        }
        return {key: found.get(key, -1) for key, offset in committed.items() if found.get(key, -1) < offset}

    def _fetched(self, group: str) -> OffsetFetchResponse:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = cast(OffsetFetchResponse | None, self._ask(group, request, FETCH_VERSION))
            if answer is not None and not answer.groups[0].error_code:
                return answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)

    def check(self) -> None:
        """Check at the end that no commit was lost, and no committed record read again."""
        assert self.behind(self.acknowledged()) == {}
        assert [each for member in self.members for each in member.went_back] == []
