from pathlib import Path

from ottla.broker.handlers import list_partition_reassignments
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from ottla.zk.znodes import ReplicaAssignment, TopicAssignment, topic_path
from tests.broker.controller.cluster import Broker, Cluster, running, settle
from tests.broker.support.hosted import context


def send(broker: Broker, *asked: tuple[str, int], everything: bool = False) -> ListPartitionReassignmentsResponse:
    topics = [ListPartitionReassignmentsTopics(name=topic, partition_indexes=[index]) for topic, index in asked]
    response = list_partition_reassignments.handle(
        ListPartitionReassignmentsRequest(topics=None if everything else topics),
        context(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0),
        controller=broker.controller,
    )
    return ListPartitionReassignmentsResponse.decode(response.encode(0), 0)


async def write(cluster: Cluster, topic: str, **partitions: ReplicaAssignment) -> None:
    """A topic's znode as an older controller may have left it."""
    session = cluster.store.session(lambda event: None)
    found = {int(index.removeprefix("p")): each for index, each in partitions.items()}
    await session.create(topic_path(topic), TopicAssignment(None, found).encode())
    await session.close()
    await settle()


STAYS = ReplicaAssignment((0,))
MOVES = ReplicaAssignment((0, 1, 2), adding=(1,), removing=(2,))


async def test_the_response_has_the_reassignments_of_the_store(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await write(cluster, "t", p0=STAYS, p1=MOVES)
        broker = await cluster.start_broker(0)
        for told in (send(broker, everything=True), send(broker, ("t", 1), ("t", 0), ("no", 0))):
            assert (told.error_code, told.error_message) == (0, "")
            ((name, (partition,)),) = [(topic.name, topic.partitions) for topic in told.topics]
            assert (name, partition.partition_index) == ("t", 1)
            assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
                (0, 1, 2),
                (1,),
                (2,),
            )
        for nothing in (send(broker), send(broker, ("t", 0))):
            assert (nothing.error_code, nothing.topics) == (0, ())


async def test_only_the_controller_answers(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        told = send(cluster.brokers[1], everything=True)
        assert (told.error_code, told.topics) == (ErrorCode.NOT_CONTROLLER, ())
        assert told.error_message == "This is not the correct controller for this cluster."


def test_an_error_of_the_whole_request_comes_alone() -> None:
    request = ListPartitionReassignmentsRequest()
    failed = list_partition_reassignments.error_response(request, 0, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (failed.error_code, failed.topics) == (-1, [])
