"""The leader of a partition or the controller ends once or five times, while Kafka's own programs write and read.

Counterpart in Kafka: kafkatest's replication_test.py. Two producers write at once, one of them idempotent; one group
reads, whose coordinator is one of the ending brokers; and a tool of Kafka compares the replicas all the time.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from compat_tests.support.verifiable import Place, VerifiableConsumer, VerifiableProducer, Verification
from tests.harness.measuring import AtMost
from tests.system.clusters.three_brokers import IDS, PATIENCE_S, Cluster, three_brokers

# What a coordinator that has just changed answers.
MOVING = (
    confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
    confluent_kafka.KafkaError.NOT_COORDINATOR,
)

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(3600)]
TOPIC = "replicated"
PARTITIONS = 3
GROUP = "readers"
GROUP_SESSION_TIMEOUT_MS = 6_000
A_SECOND = 200
# By the prefix of its values. Kafka's test has one of each, too.
PRODUCERS: dict[int, dict[str, object]] = {
    1: {"enable.idempotence": True, "retries": 1_000_000, "max.in.flight.requests.per.connection": 5},
    2: {"enable.idempotence": False},
}
IDEMPOTENT = "1."
# As many as in Kafka's own test, in each trial.
BOUNCES = 5


class Matrix:
    """A cluster with producers, a group and a comparing tool, shared by all cells."""

    def __init__(
        self, cluster: Cluster, producers: list[VerifiableProducer], consumer: VerifiableConsumer, verify: Verification
    ) -> None:
        self.cluster = cluster
        self.producers = producers
        self.consumer = consumer
        self.verification = verify

    def leader(self) -> int:
        """Return the leader of partition 0."""
        return self.cluster.wait_for(TOPIC, lambda it: it.leader in IDS).leader

    def controller(self) -> int:
        """Return the controller."""
        return self.cluster.wait_until(lambda found: found.controller_id in IDS).controller_id

    def wait_until_it_goes_on(self) -> None:
        """Wait until new records of both producers are acknowledged, consumed and committed."""
        for each in self.producers:
            each.wait_for_acknowledgements()
        self.consumer.wait_for(self.acknowledged())

    def acknowledged(self) -> dict[Place, str]:
        """Return the acknowledged records with their offsets."""
        return {place: value for each in self.producers for value, place in each.acknowledged.copy().items()}

    def check(self) -> None:
        """Check that no record is lost, doubled or different, and that the group kept its position."""
        self.cluster.wait_until_in_sync(TOPIC)
        self.wait_until_it_goes_on()
        self.check_records()
        assert self.behind() == {}
        with contextlib.ExitStack() as stack:
            for each in self.producers:
                stack.enter_context(each.standing_still())
            self.check_replicas()

    def check_records(self) -> None:
        """Check that the group got all acknowledged records, no offset twice, and no idempotent record twice."""
        acknowledged = self.acknowledged()
        self.consumer.wait_for(acknowledged)
        consumed = dict(self.consumer.consumed)
        assert {place: consumed.get(place) for place in acknowledged} == acknowledged
        idempotent = [value for value in consumed.values() if value.startswith(IDEMPOTENT)]
        assert len(idempotent) == len(set(idempotent))
        assert self.consumer.read_again == []

    def behind(self) -> dict[int, tuple[int, int]]:
        """Return the partitions whose committed offset at the coordinator is below the acknowledged one."""
        committed = dict(self.consumer.committed)
        found = self.committed_by_coordinator()
        assert committed
        return {
            partition: (offset, found.get(partition, -1))
            for partition, offset in committed.items()
            if found.get(partition, -1) < offset
        }

    def committed_by_coordinator(self) -> dict[int, int]:
        """What the coordinator knows, once it has loaded the group: librdkafka leaves it to its user to ask again."""
        admin, deadline = self.cluster.admin(), time.monotonic() + PATIENCE_S
        while True:
            asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP]
            try:
                return {each.partition: each.offset for each in asked.result(PATIENCE_S).topic_partitions or ()}
            except confluent_kafka.KafkaException as error:
                if error.args[0].code() not in MOVING or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def check_replicas(self) -> None:
        """Check that all brokers have the same below the high watermark, and that the tool reports so."""
        self.verification.wait_for_no_lag()
        assert self.verification.mismatches() == []
        reader = confluent_kafka.Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "nobody"})
        for partition in range(PARTITIONS):
            place = confluent_kafka.TopicPartition(TOPIC, partition)
            _, high_watermark = reader.get_watermark_offsets(place, timeout=PATIENCE_S)
            first, *rest = (below(high_watermark, log) for log in self.cluster.logs(TOPIC, partition))
            assert first
            assert rest == [first] * len(rest)
        reader.close()


def below(offset: int, log: bytes) -> bytes:
    """Return the batches of a log that end below an offset."""
    position = 0
    while position < len(log):
        base_offset = int.from_bytes(log[position : position + 8])
        if base_offset + int.from_bytes(log[position + 23 : position + 27]) >= offset:
            break
        position += 12 + int.from_bytes(log[position + 8 : position + 12])
    return log[:position]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    folder: Path = tmp_path_factory.mktemp("matrix")
    overrides = {"offsets_topic_num_partitions": 1}
    with three_brokers(folder, **overrides) as cluster, contextlib.ExitStack() as stack:
        cluster.create(TOPIC, PARTITIONS)
        producers = [
            stack.enter_context(VerifiableProducer(folder, cluster.bootstrap, TOPIC, prefix, A_SECOND, config))
            for prefix, config in PRODUCERS.items()
        ]
        verification = stack.enter_context(Verification(folder, cluster.bootstrap, TOPIC))
        consumer = stack.enter_context(
            VerifiableConsumer(folder, cluster.bootstrap, TOPIC, GROUP, GROUP_SESSION_TIMEOUT_MS)
        )
        matrix = Matrix(cluster, producers, consumer, verification)
        matrix.check()
        yield matrix
        for each in producers:
            each.stop()
            assert each.complete
        matrix.check_records()
        matrix.check_replicas()
        consumer.stop()


Who = Callable[[Matrix], int]


def end(matrix: Matrix, broker_id: int, *, kill: bool) -> float:
    """End a broker, and wait until the others know; return the time."""
    broker = matrix.cluster.brokers[broker_id]
    began = time.monotonic()
    (broker.kill if kill else broker.stop)()
    matrix.cluster.wait_until(lambda found: broker_id not in found.brokers)
    return began


def end_once(matrix: Matrix, who: Who, rounds: int, *, kill: bool) -> float:
    """End a broker, wait until the work goes on without it, restart it; return the seconds of the last round."""
    for _ in range(rounds):
        ended = who(matrix)
        began = end(matrix, ended, kill=kill)
        matrix.wait_until_it_goes_on()
        took = time.monotonic() - began
        matrix.cluster.brokers[ended].start()
        matrix.cluster.wait_until_in_sync(TOPIC)
    return took


def bounce(matrix: Matrix, who: Who, rounds: int, *, kill: bool) -> float:
    """End and restart a broker several times; return the seconds until the work goes on."""
    for _ in range(BOUNCES * rounds):
        ended = who(matrix)
        end(matrix, ended, kill=kill)
        matrix.cluster.brokers[ended].start()
    began = time.monotonic()
    matrix.wait_until_it_goes_on()
    return time.monotonic() - began


@pytest.mark.parametrize("who", [Matrix.leader, Matrix.controller], ids=["leader", "controller"])
@pytest.mark.parametrize("how", [end_once, bounce], ids=["once", "bounced"])
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.trials(few=1, soak=5)
def test_acknowledged_records_are_consumed_whichever_broker_ends(
    matrix: Matrix,
    who: Who,
    how: Callable[..., float],
    *,
    kill: bool,
    trials: int,
    tell: Callable[[str], None],
    at_most: AtMost,
) -> None:
    before = len(matrix.acknowledged())
    took = how(matrix, who, trials, kill=kill)
    matrix.check()
    tell(
        f"{who.__name__} {'killed' if kill else 'stopped'} ({how.__name__}): the group went on after {took:.1f} s; "
        f"{len(matrix.acknowledged()) - before} records acknowledged"
    )
    at_most(took, GROUP_SESSION_TIMEOUT_MS / 1000)
