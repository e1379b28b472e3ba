"""Requests between brokers that no broker would send: the error codes of Apache Kafka 3.9.2, and no change.

Each broker is the only one of its cluster, on a ZooKeeper of its own, with id 1, and thus the controller.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from kazoo.client import KazooClient

from compat_tests.support import zookeeper
from compat_tests.support.brokers import Broker, Ottla, QuickKafka
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.schema import Request
from ottla.zk.znodes import decode_uuid
from tests.support.raw import RawClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ME, NOBODY = 1, 9
MAX_INT, MAX_LONG = 2**31 - 1, 2**63 - 1
STRANGE_ID = bytes(15) + b"\7"
PATIENCE_S = 120.0
# Recent, because retention may delete records older than a week.
NOW = time.time_ns() // 1_000_000


class Place(NamedTuple):
    """A topic of one partition with one record, and the right values for requests about it."""

    topic: str
    topic_id: bytes
    broker_epoch: int
    controller_epoch: int


Probe = tuple[int, Callable[[Place], Request], Sequence[int]]


# Requests of followers and consumers


def fetch(version: int, replica_id: int, broker_epoch: int = -1, leader_epoch: int = -1) -> Callable[[Place], Request]:
    def make(place: Place) -> Request:
        partition = FetchPartition(
            partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=leader_epoch
        )
        topic = FetchTopic(topic=place.topic, topic_id=place.topic_id, partitions=[partition])
        state = ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch)
        old = replica_id if version < 15 else -1
        return FetchRequest(replica_id=old, replica_state=state, max_wait_ms=0, min_bytes=0, topics=[topic])

    return make


def list_offsets(replica_id: int) -> Callable[[Place], Request]:
    def make(place: Place) -> Request:
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsTopic(name=place.topic, partitions=[partition])
        return ListOffsetsRequest(replica_id=replica_id, topics=[topic])

    return make


def end_of_epoch(replica_id: int) -> Callable[[Place], Request]:
    def make(place: Place) -> Request:
        partition = OffsetForLeaderPartition(partition=0, leader_epoch=0)
        topic = OffsetForLeaderTopic(topic=place.topic, partitions=[partition])
        return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[topic])

    return make


READS: dict[str, Probe] = {
    "Fetch 15 as itself": (15, fetch(15, ME), (0, 6)),
    "Fetch 15 as itself in an epoch": (15, fetch(15, ME, leader_epoch=0), (0, 75)),
    "Fetch 15 as nobody": (15, fetch(15, NOBODY), (0, 6)),
    "Fetch 15 as nobody in an epoch": (15, fetch(15, NOBODY, leader_epoch=0), (0, 75)),
    "Fetch 15 as nobody of an old broker epoch": (15, fetch(15, NOBODY, 0), (0, 6)),
    "Fetch 15 as nobody of a future broker epoch": (15, fetch(15, NOBODY, MAX_LONG), (0, 6)),
    "Fetch 15 as the greatest": (15, fetch(15, MAX_INT), (0, 6)),
    "Fetch 15 as the debugger": (15, fetch(15, -2), (0, 0)),
    "Fetch 15 as -3": (15, fetch(15, -3), (0, 0)),
    "Fetch 15 as the least": (15, fetch(15, -MAX_INT), (0, 0)),
    "Fetch 15 in a past epoch": (15, fetch(15, -1, leader_epoch=-5), (0, 0)),
    "Fetch 12 as the greatest": (12, fetch(12, MAX_INT), (0, 6)),
    "Fetch 12 as -3": (12, fetch(12, -3), (0, 0)),
    **{f"ListOffsets as {each}": (7, list_offsets(each), (0,)) for each in (ME, NOBODY, -2, -3, MAX_INT)},
    **{f"OffsetForLeaderEpoch as {each}": (4, end_of_epoch(each), (0,)) for each in (ME, NOBODY, -2, -3, MAX_INT)},
}


# Requests of controllers


def lead(
    version: int = 7,
    *,
    controller_epoch: int = 0,
    broker_epoch: int = 0,
    leader_epoch: int = 0,
    topic_id: bytes | None = None,
    indexes: Sequence[int] = (0,),
    topic: str = "",
    **fields: Any,
) -> Callable[[Place], Request]:
    """Return a request; epochs are relative to the right ones."""

    def make(place: Place) -> Request:
        states = [
            LeaderAndIsrPartitionState(
                **{
                    "topic_name": topic or place.topic,
                    "partition_index": index,
                    "controller_epoch": place.controller_epoch + controller_epoch,
                    "leader": ME,
                    "leader_epoch": leader_epoch,
                    "isr": (ME,),
                    "partition_epoch": 0,
                    "replicas": (ME,),
                    **fields,
                }
            )
            for index in indexes
        ]
        its_id = place.topic_id if topic_id is None else topic_id
        topics = [LeaderAndIsrTopicState(topic_name=topic or place.topic, topic_id=its_id, partition_states=states)]
        return LeaderAndIsrRequest(
            controller_id=ME,
            controller_epoch=place.controller_epoch + controller_epoch,
            broker_epoch=place.broker_epoch + broker_epoch,
            ungrouped_partition_states=states if version < 2 else (),
            topic_states=topics if version >= 2 else (),
            live_leaders=(),
        )

    return make


def stop(
    version: int = 4,
    *,
    controller_epoch: int = 0,
    broker_epoch: int = 0,
    leader_epoch: int = 0,
    delete: bool = False,
    topic: str = "",
) -> Callable[[Place], Request]:
    def make(place: Place) -> Request:
        name = topic or place.topic
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch, delete_partition=delete)
        return StopReplicaRequest(
            controller_id=ME,
            controller_epoch=place.controller_epoch + controller_epoch,
            broker_epoch=place.broker_epoch + broker_epoch,
            delete_partitions=delete and version < 3,
            ungrouped_partitions=[StopReplicaPartitionV0(topic_name=name, partition_index=0)] if version < 1 else (),
            topics=[StopReplicaTopicV1(name=name, partition_indexes=[0])] if version in (1, 2) else (),
            topic_states=[StopReplicaTopicState(topic_name=name, partition_states=[state])] if version > 2 else (),
        )

    return make


def update(*, controller_epoch: int = 0, broker_epoch: int = 0) -> Callable[[Place], Request]:
    return lambda place: UpdateMetadataRequest(
        controller_id=ME,
        controller_epoch=place.controller_epoch + controller_epoch,
        broker_epoch=place.broker_epoch + broker_epoch,
        live_brokers=(),
    )


CONTROL: dict[str, Probe] = {
    "LeaderAndIsr of a past controller": (7, lead(controller_epoch=-1), (11, 11)),
    "LeaderAndIsr 1 of a past controller": (1, lead(1, controller_epoch=-1), (11, 11)),
    "LeaderAndIsr for a past life of the broker": (7, lead(broker_epoch=-1), (77, 77)),
    "LeaderAndIsr for a life of the broker to come": (7, lead(broker_epoch=1), (0, 11)),
    "LeaderAndIsr of this epoch": (7, lead(), (0, 11)),
    "LeaderAndIsr of a past epoch": (7, lead(leader_epoch=-5), (0, 11)),
    "LeaderAndIsr of another topic of this name": (7, lead(leader_epoch=1, topic_id=STRANGE_ID), (0, 103)),
    "LeaderAndIsr of other replicas": (7, lead(leader_epoch=1, replicas=(NOBODY,)), (0, 3)),
    "LeaderAndIsr of no replicas": (7, lead(leader_epoch=1, replicas=()), (0, 3)),
    "LeaderAndIsr of other replicas of a new partition": (7, lead(indexes=[5], replicas=(NOBODY,)), (0, 3)),
    "StopReplica of a past controller": (4, stop(controller_epoch=-1), (11,)),
    "StopReplica 0 of a past controller": (0, stop(0, controller_epoch=-1), (11,)),
    "StopReplica for a past life of the broker": (4, stop(broker_epoch=-1), (77,)),
    "StopReplica 1 for a past life of the broker": (1, stop(1, broker_epoch=-1), (77,)),
    "StopReplica of a past epoch": (4, stop(leader_epoch=-5, delete=True), (0, 74)),
    "StopReplica of a stranger": (4, stop(topic="stranger"), (0, 0)),
    "StopReplica that deletes a stranger": (4, stop(topic="stranger", delete=True), (0, 0)),
    "StopReplica 2 that deletes a stranger": (2, stop(2, topic="stranger", delete=True), (0, 0)),
    "UpdateMetadata of a past controller": (8, update(controller_epoch=-1), (11,)),
    "UpdateMetadata for a past life of the broker": (8, update(broker_epoch=-1), (77,)),
}


# Requests of brokers to the controller


def alter(
    version: int = 3,
    *,
    broker_id: int = ME,
    broker_epoch: int = 0,
    isr: Sequence[int] = (ME,),
    topic_id: bytes | None = None,
    topic: str = "",
    index: int = 0,
    **fields: int,
) -> Callable[[Place], Request]:
    def make(place: Place) -> Request:
        right = {"leader_epoch": 0, "partition_epoch": 0, "leader_recovery_state": 0}
        with_epochs = [BrokerState(broker_id=each) for each in isr]
        asked = PartitionData(partition_index=index, new_isr=isr, new_isr_with_epochs=with_epochs, **right | fields)
        its_id = place.topic_id if topic_id is None else topic_id
        topics = [TopicData(topic_name=topic or place.topic, topic_id=its_id, partitions=[asked])]
        return AlterPartitionRequest(broker_id=broker_id, broker_epoch=place.broker_epoch + broker_epoch, topics=topics)

    return make


def shut_down(broker_id: int, broker_epoch: int | None = None) -> Callable[[Place], Request]:
    return lambda place: ControlledShutdownRequest(
        broker_id=broker_id, broker_epoch=-1 if broker_epoch is None else place.broker_epoch + broker_epoch
    )


def allocate(broker_id: int, broker_epoch: int) -> Callable[[Place], Request]:
    return lambda place: AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=place.broker_epoch + broker_epoch)


TO_CONTROLLER: dict[str, Probe] = {
    "AlterPartition of what is so": (3, alter(), (0, 0)),
    "AlterPartition of a past life of the broker": (3, alter(broker_epoch=-1), (77,)),
    "AlterPartition of a life of the broker to come": (3, alter(broker_epoch=1), (77,)),
    "AlterPartition of nobody": (3, alter(broker_id=NOBODY), (77,)),
    "AlterPartition of a later partition epoch": (3, alter(partition_epoch=1), (0, 41)),
    "AlterPartition of an earlier partition epoch": (3, alter(partition_epoch=-1, isr=(ME, NOBODY)), (0, 95)),
    "AlterPartition of a later leader epoch": (3, alter(leader_epoch=1), (0, 41)),
    "AlterPartition of an earlier leader epoch": (3, alter(leader_epoch=-1), (0, 74)),
    "AlterPartition of an unknown topic": (3, alter(topic_id=STRANGE_ID), (0, 100)),
    "AlterPartition 1 of an unknown topic": (1, alter(1, topic="stranger"), (0, 3)),
    "AlterPartition of an unknown partition": (3, alter(index=5), (0, 3)),
    "AlterPartition of partition -1": (3, alter(index=-1), (0, 3)),
    "AlterPartition with a stranger in sync": (3, alter(isr=(ME, NOBODY)), (0, 107)),
    "AlterPartition 1 with a stranger in sync": (1, alter(1, isr=(ME, NOBODY)), (0, 55)),
    "AlterPartition with a negative one in sync": (3, alter(isr=(ME, -7)), (0, 107)),
    "AlterPartition with two who recover": (3, alter(isr=(ME, NOBODY), leader_recovery_state=1), (0, 42)),
    "AlterPartition back to recovering": (3, alter(leader_recovery_state=1), (0, 42)),
    "ControlledShutdown of nobody": (3, shut_down(NOBODY), (8,)),
    "ControlledShutdown of nobody's life": (3, shut_down(NOBODY, 0), (-1,)),
    "ControlledShutdown of a past life": (3, shut_down(ME, -1), (77,)),
    "AllocateProducerIds of nobody": (0, allocate(NOBODY, 0), (102,)),
    "AllocateProducerIds of a past life": (0, allocate(ME, -1), (77,)),
    "AllocateProducerIds of a life to come": (0, allocate(ME, 1), (77,)),
}

# The error codes of Ottla where they differ, and why.
STRANGER = "who is no replica is not taken for one that is not alive: it is a request that is wrong"
DEVIATIONS = {
    "AlterPartition with a stranger in sync": ((0, 42), STRANGER),
    "AlterPartition 1 with a stranger in sync": ((0, 42), STRANGER),
    "AlterPartition with a negative one in sync": ((0, 42), STRANGER),
    "ControlledShutdown of nobody's life": ((8,), "Kafka fails on it"),
}
PROBES = READS | CONTROL | TO_CONTROLLER


class Town:
    """A broker and its ZooKeeper."""

    def __init__(self, broker: Broker, znodes: KazooClient) -> None:
        self.broker = broker
        self.znodes = znodes

    def ask(self, request: Request, version: int) -> Any:
        with RawClient(self.broker.bootstrap, 120) as client:
            return client.ask(request, version)

    def place(self, topic: str) -> Place:
        """Create a topic with a record in it."""
        wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=(), configs=())
        created = cast(CreateTopicsResponse, self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 5))
        assert created.topics[0].error_code == 0
        assert self.produce(topic) == 0
        data = json.loads(self.znodes.get(f"/brokers/topics/{topic}")[0])
        return Place(
            topic,
            decode_uuid(data["topic_id"]),
            self.znodes.get(f"/brokers/ids/{ME}")[1].czxid,
            int(self.znodes.get("/controller_epoch")[0]),
        )

    def produce(self, topic: str) -> int:
        batch = build_batch([NewRecord(value=b"v", timestamp=NOW)])
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        response = self.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 9)
        return int(response.responses[0].partition_responses[0].error_code)

    def traces(self, topic: str) -> tuple[bytes, object]:
        """Return the traces of a topic on the disk and in ZooKeeper."""
        (log,) = (self.broker.data / "log").glob(f"{topic}-0/*.log")
        paths = (f"/brokers/topics/{topic}", f"/brokers/topics/{topic}/partitions/0/state")
        found = [self.znodes.get(path) for path in paths]
        return log.read_bytes(), [(data, stat.version) for data, stat in found]


@pytest.fixture(scope="module", params=[Ottla, QuickKafka], ids=["ottla", "kafka-3.9"])
def town(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder: Path = tmp_path_factory.mktemp("town")
    with zookeeper.running(folder / "zookeeper", ["tickTime=200"]) as server:
        broker = request.param(
            folder, [f"broker.id={ME}", f"zookeeper.connect={server.connect}", "zookeeper.session.timeout.ms=4000"]
        )
        broker.start()
        znodes = KazooClient(server.connect)
        try:
            znodes.start()
            yield Town(broker, znodes)
            assert "A bug" not in broker.output()
        finally:
            znodes.stop()
            znodes.close()
            broker.stop()


def codes(response: Any) -> list[int]:
    """Return all error codes, outer ones first."""
    found = [response.error_code] if hasattr(response, "error_code") else []
    for name in ("responses", "topics", "partitions", "partition_errors", "partition_responses"):
        for each in getattr(response, name, None) or ():
            found += codes(each)
    return found


def test_every_listed_deviation_differs_from_kafka() -> None:
    assert all(answer != PROBES[what][2] for what, (answer, _) in DEVIATIONS.items())
    assert all(answer != LED[what][1] for what, (answer, _) in LED_OTHERWISE.items())


@pytest.mark.parametrize("what", PROBES)
def test_hostile_requests_get_kafkas_error_codes_and_change_nothing(town: Town, what: str) -> None:
    version, make, expected = PROBES[what]
    if isinstance(town.broker, Ottla) and what in DEVIATIONS:
        expected = DEVIATIONS[what][0]
    place = town.place(f"t-{list(PROBES).index(what)}")
    before = town.traces(place.topic)
    assert tuple(codes(town.ask(make(place), version))) == tuple(expected)
    assert town.traces(place.topic) == before
    assert town.produce(place.topic) == 0


def test_a_controller_can_delete_a_partition_with_a_leader(town: Town) -> None:
    place = town.place("to-delete")
    assert codes(town.ask(stop(delete=True)(place), 4)) == [0, 0]
    assert not (town.broker.data / "log" / "to-delete-0").exists()
    assert town.produce(place.topic) in (3, 6)


# Brokers accept contradicting roles. By role: the error codes, and the error code of a produce request afterwards.
LED: dict[str, tuple[Callable[[Place], Request], tuple[list[int], int]]] = {
    "by itself, said twice": (lead(leader_epoch=1, indexes=[0, 0]), ([0, 0], 0)),
    "by a broker that is not there": (lead(leader_epoch=1, leader=NOBODY), ([0, 0], 0)),
    "by nobody": (lead(leader_epoch=1, leader=-1), ([0, 0], 0)),
    "with nobody in sync": (lead(leader_epoch=1, isr=()), ([0, 0], 19)),
    "with strange replicas": (lead(leader_epoch=1, replicas=(-5, ME, NOBODY), isr=(ME, -5)), ([0, 0], 7)),
    "as partition -1": (lead(indexes=[-1]), ([0, 0], 0)),
}
LED_OTHERWISE = {
    "by itself, said twice": (([0, 0, 11], 0), "each is answered"),
    "by a broker that is not there": (([0, 0], 6), "who is told that another one leads leads no more"),
    "by nobody": (([0, 0], 6), "who is told that nobody leads leads no more"),
    "with nobody in sync": (([0, 0], 0), "who leads is in sync with itself"),
    "as partition -1": (([0, 17], 0), "there is no such partition, and no directory to be made"),
}


@pytest.mark.parametrize("what", LED)
def test_a_contradicting_role_holds_until_the_next_leader_epoch(town: Town, what: str) -> None:
    make, expected = LED[what]
    if isinstance(town.broker, Ottla) and what in LED_OTHERWISE:
        expected = LED_OTHERWISE[what][0]
    place = town.place(f"led-{list(LED).index(what)}")
    before = town.traces(place.topic)[1]
    assert (codes(town.ask(make(place), 7)), town.produce(place.topic)) == expected
    assert town.traces(place.topic)[1] == before
    assert codes(town.ask(lead(leader_epoch=2)(place), 7)) == [0, 0]
    assert town.produce(place.topic) == 0


def test_a_controller_epoch_from_the_future_holds_until_the_broker_ends(town: Town) -> None:
    place = town.place("future")
    assert codes(town.ask(update(controller_epoch=1000)(place), 8)) == [0]
    # The real controller has an old epoch now.
    assert codes(town.ask(lead()(place), 7)) == [11, 11]
    town.broker.kill()
    # Kafka does not wait for the end of its own session.
    until(lambda: not town.znodes.exists(f"/brokers/ids/{ME}"))
    town.broker.start()
    until(lambda: town.produce(place.topic) == 0)


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)
