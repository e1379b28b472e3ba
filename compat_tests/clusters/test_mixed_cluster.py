"""Brokers of Apache Kafka 3.9.2 and of Ottla form one cluster, with either kind as controller, leader or follower."""

import contextlib
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.support.brokers import Broker, Ottla, QuickKafka
from compat_tests.support.writing import Writer, read_all
from compat_tests.support.zookeeper import running

# Its types do not tell what it exports.
librdkafka: Any = confluent_kafka
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
PATIENCE_S = 120.0
KAFKA = 1
OTTLA = 2
# A second broker of Ottla, for tests with three brokers.
THIRD = 3
BOTH = {KAFKA, OTTLA}
# Two topics of one partition, so that each broker leads one of them.
REPLICAS = {"of-kafka": [KAFKA, OTTLA], "of-ottla": [OTTLA, KAFKA]}
SETTINGS = (
    "zookeeper.session.timeout.ms=2000",
    "replica.lag.time.max.ms=2000",
    "controlled.shutdown.retry.backoff.ms=300",
    "offsets.topic.replication.factor=2",
    "offsets.topic.num.partitions=2",
)


class Known(NamedTuple):
    """A broker's metadata of the cluster."""

    controller: int
    brokers: set[int]
    leader: int
    in_sync: set[int]


class Mixed:
    """A cluster of the started brokers: broker 1 is Kafka, the others are Ottla."""

    def __init__(self, data: Path, connect: str) -> None:
        self.data = data
        self.settings = [f"zookeeper.connect={connect}/mixed", *SETTINGS]
        self.brokers: dict[int, Broker] = {}

    def start(self, *broker_ids: int) -> None:
        """Start brokers of a new cluster one after the other, so that the first one is the controller."""
        for broker_id in broker_ids:
            folder = self.data / str(broker_id)
            folder.mkdir()
            kind = QuickKafka if broker_id == KAFKA else Ottla
            broker = kind(folder, [f"broker.id={broker_id}", *self.settings])
            broker.start()
            self.brokers[broker_id] = broker
        admin = self.admin()
        deadline = time.monotonic() + PATIENCE_S
        while set((found := admin.list_topics(timeout=10)).brokers) != set(broker_ids):
            assert time.monotonic() < deadline, self.output()
        assert found.controller_id == broker_ids[0]

    def stop(self) -> None:
        """End all brokers."""
        for each in self.brokers.values():
            each.stop()

    @property
    def bootstrap(self) -> str:
        """Return the addresses of the brokers."""
        return ",".join(each.bootstrap for each in self.brokers.values())

    def admin(self) -> AdminClient:
        """Return an admin client, which has to find the controller."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topics(self, replicas: Mapping[str, list[int]] = REPLICAS) -> None:
        """Create topics of one partition and wait until all of their replicas are in sync."""
        new = [NewTopic(topic, 1, replica_assignment=[each]) for topic, each in replicas.items()]
        admin = self.admin()
        for each in admin.create_topics(new, operation_timeout=10).values():
            each.result(PATIENCE_S)
        self.wait_for(lambda topic, known: (known.leader, known.in_sync) == (replicas[topic][0], set(replicas[topic])))

    def elect_preferred_leaders(self) -> None:
        """Make each broker lead its topic again."""
        admin = self.admin()
        errors = admin.elect_leaders(librdkafka.ElectionType.PREFERRED, None).result(PATIENCE_S)
        assert set(errors.values()) <= {None}, errors  # nobody, where all lead already
        self.wait_for(lambda topic, known: known.leader == REPLICAS[topic][0] and known.in_sync == BOTH)

    def wait_for(self, what: Callable[[str, Known], bool], among: Sequence[int] = (KAFKA, OTTLA)) -> None:
        """Wait until `what` is True for each topic in the metadata of all running brokers."""
        deadline = time.monotonic() + PATIENCE_S
        for broker in [self.brokers[each] for each in among]:
            for topic in REPLICAS:
                known = None
                while broker.process.poll() is None:
                    with contextlib.suppress(confluent_kafka.KafkaException, LookupError):
                        known = known_by(broker, topic)
                        if what(topic, known):
                            break
                    assert time.monotonic() < deadline, f"{broker.name}: {topic}: {known}\n{self.output()}"
                    time.sleep(0.05)

    def logs(self, topic: str) -> list[bytes]:
        """Return each broker's log of a topic."""
        return [
            b"".join(file.read_bytes() for file in sorted((each.data / "log").glob(f"{topic}-0/*.log")))
            for each in self.brokers.values()
        ]

    def output(self) -> str:
        return "\n\n".join(each.output()[-3000:] for each in self.brokers.values())


def known_by(broker: Broker, topic: str) -> Known:
    """Return a broker's metadata of a topic."""
    found = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(topic, timeout=10)
    partition = found.topics[topic].partitions[0]
    return Known(found.controller_id, set(found.brokers), partition.leader, set(partition.isrs))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Mixed]:
    with (
        running(tmp_path / "zookeeper", ["tickTime=200", "maxSessionTimeout=30000"]) as zookeeper,
        contextlib.ExitStack() as stack,
    ):
        cluster = Mixed(tmp_path, zookeeper.connect)
        stack.callback(cluster.stop)
        yield cluster


def check(cluster: Mixed, writers: list[Writer]) -> None:
    """Check that each acknowledged record is there once, and that both logs are equal."""
    for each in writers:
        each.stopping.set()
    for each in writers:
        each.join(120)
        assert not each.failures
        assert each.unsent == 0, cluster.output()
        found = read_all(cluster.bootstrap, each.topic)
        assert len(found) == len(set(found.values()))
        assert {offset: found.get(offset) for offset in each.acknowledged.values()} == {
            offset: value for value, offset in each.acknowledged.items()
        }
    cluster.wait_for(lambda topic, known: known.in_sync == BOTH)
    check_logs(cluster)


def check_logs(cluster: Mixed) -> None:
    """Stop the brokers, and check that their logs are equal."""
    cluster.stop()
    for topic in REPLICAS:
        first, second = cluster.logs(topic)
        assert first
        assert first == second


def other_than(broker_id: int) -> int:
    return (BOTH - {broker_id}).pop()


@pytest.mark.parametrize("controller", [KAFKA, OTTLA], ids=["kafka-controls", "ottla-controls"])
def test_either_leads_follows_leaves_dies_and_takes_control(cluster: Mixed, controller: int) -> None:
    other = other_than(controller)
    cluster.start(controller, other)
    cluster.create_topics()
    writers = [Writer(cluster.bootstrap, topic, pause_s=0.05) for topic in REPLICAS]
    for each in writers:
        each.start()

    def end(how: Callable[[], None], survivor: int) -> None:
        how()
        for each in writers:
            each.wait_for_acknowledgement()
        cluster.wait_for(lambda _, known: known == Known(survivor, {survivor}, survivor, {survivor}))

    def come_back(broker_id: int, controller: int) -> None:
        cluster.brokers[broker_id].start()
        cluster.wait_for(lambda _, known: known.controller == controller and known.in_sync == BOTH)
        cluster.elect_preferred_leaders()
        for each in writers:
            each.wait_for_acknowledgement()

    end(cluster.brokers[other].stop, controller)
    come_back(other, controller)
    # Kill the controller, and later the same broker when it is not the controller.
    for _ in range(2):
        end(cluster.brokers[controller].kill, other)
        come_back(controller, other)
    check(cluster, writers)


def write(bootstrap: str, topic: str, value: str) -> None:
    """Write a record with acks=1."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": 1, "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.parametrize("controller", [KAFKA, OTTLA], ids=["kafka-controls", "ottla-controls"])
def test_leaders_of_both_kinds_have_the_controller_change_the_in_sync_replicas(cluster: Mixed, controller: int) -> None:
    cluster.settings += ["zookeeper.session.timeout.ms=30000", "replica.lag.time.max.ms=1000"]
    cluster.start(controller, other_than(controller), THIRD)
    cluster.create_topics({topic: [leader, THIRD] for topic, (leader, _) in REPLICAS.items()})
    third = cluster.brokers[THIRD].process
    third.send_signal(signal.SIGSTOP)
    try:
        for topic in REPLICAS:
            write(cluster.bootstrap, topic, "what it lacks")
        # The broker is still registered, because only leaders know its lag.
        cluster.wait_for(lambda _, known: known.in_sync == {known.leader} and THIRD in known.brokers)
    finally:
        third.send_signal(signal.SIGCONT)
    cluster.wait_for(lambda _, known: known.in_sync == {known.leader, THIRD})


@pytest.mark.parametrize("first", [KAFKA, OTTLA], ids=["kafka-leads-first", "ottla-leads-first"])
def test_what_only_a_dead_leader_had_is_truncated_when_it_follows_the_new_one(cluster: Mixed, first: int) -> None:
    second = other_than(first)
    cluster.settings += ["replica.lag.time.max.ms=60000"]
    cluster.start(first, second)
    cluster.create_topics({topic: [first, second] for topic in REPLICAS})
    survivor = cluster.brokers[second]
    survivor.process.send_signal(signal.SIGSTOP)
    try:
        # The first one answers the fetch that waits; nobody fetches the second.
        for value in ("perhaps", "lost"):
            for topic in REPLICAS:
                write(cluster.brokers[first].bootstrap, topic, value)
        cluster.brokers[first].kill()
    finally:
        survivor.process.send_signal(signal.SIGCONT)
    cluster.wait_for(lambda _, known: known.leader == second)
    for topic in REPLICAS:
        write(survivor.bootstrap, topic, "kept")
    cluster.brokers[first].start()
    cluster.wait_for(lambda _, known: known.in_sync == BOTH)
    for topic in REPLICAS:
        assert set(read_all(cluster.bootstrap, topic).values()) - {b"perhaps"} == {b"kept"}
    check_logs(cluster)


def test_replicas_in_a_directory_that_fails_kafka_are_led_by_ottla(cluster: Mixed) -> None:
    cluster.settings += ["replica.high.watermark.checkpoint.interval.ms=200"]
    cluster.start(OTTLA, KAFKA)
    kafka = cluster.brokers[KAFKA]
    kafka.stop()
    sound, failing = kafka.data / "log", kafka.data / "failing"
    kafka.overrides.append(f"log.dirs={sound},{failing}")
    kafka.start()
    # Each replica goes to the directory with fewer replicas, soon after the topic is created.
    cluster.create_topics({topic: [KAFKA, OTTLA] for topic in REPLICAS})
    deadline = time.monotonic() + PATIENCE_S
    while len(lost := [topic for topic in REPLICAS if (failing / f"{topic}-0").exists()]) != 1:
        assert time.monotonic() < deadline, f"{[*sound.iterdir(), *failing.iterdir()]}\n{cluster.output()}"
        time.sleep(0.05)
    # At once: Kafka writes there now and then.
    failing.rename(kafka.data / "lost")
    failing.touch()
    cluster.wait_for(
        lambda topic, known: (
            (known.leader, known.in_sync) == ((OTTLA, {OTTLA}) if topic in lost else (KAFKA, BOTH))
            and known.brokers == BOTH
        )
    )


def test_what_ottla_was_to_lead_is_led_by_kafka_when_its_only_disk_fails(cluster: Mixed) -> None:
    cluster.start(KAFKA, OTTLA)
    pid = cluster.brokers[OTTLA].process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    # An index is allocated whole when its log is made.
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    new = [NewTopic(topic, 1, replica_assignment=[[OTTLA, KAFKA]]) for topic in REPLICAS]
    admin = cluster.admin()
    for each in admin.create_topics(new, operation_timeout=10).values():
        each.result(PATIENCE_S)
    cluster.wait_for(lambda _, known: (known.leader, known.in_sync, known.brokers) == (KAFKA, {KAFKA}, {KAFKA}))
    assert cluster.brokers[OTTLA].process.wait(PATIENCE_S) == 1


def test_a_group_goes_on_where_it_was_when_the_other_kind_coordinates_it(cluster: Mixed) -> None:
    cluster.start(KAFKA, OTTLA)
    cluster.create_topics()
    member = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "travellers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    member.subscribe(list(REPLICAS))

    def read_and_commit(expected: bytes) -> None:
        wanted: set[tuple[str | None, bytes | None]] = {(topic, expected) for topic in REPLICAS}
        for topic in REPLICAS:
            write(cluster.bootstrap, topic, expected.decode())
        deadline = time.monotonic() + PATIENCE_S
        while wanted:
            assert time.monotonic() < deadline, cluster.output()
            for message in member.consume(10, 0.2):
                if message.error() is None:
                    # No record comes twice.
                    wanted.remove((message.topic(), message.value()))
        member.commit(asynchronous=False)

    read_and_commit(b"with both")
    # One of the two coordinates the group.
    for each in (KAFKA, OTTLA):
        cluster.brokers[each].stop()
        read_and_commit(b"without %d" % each)
        cluster.brokers[each].start()
        cluster.wait_for(lambda _, known: known.in_sync == BOTH)
    places = [confluent_kafka.TopicPartition(topic, 0) for topic in REPLICAS]
    deadline = time.monotonic() + PATIENCE_S
    committed: list[int] = []
    while not committed and time.monotonic() < deadline:
        # This client returns an error while the preferred leader takes over the group.
        with contextlib.suppress(confluent_kafka.KafkaException):
            committed = [each.offset for each in member.committed(places, timeout=PATIENCE_S)]
    assert committed == [3, 3]
    member.close()
