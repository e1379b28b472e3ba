from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.broker.handlers import elect_leaders
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import NO_LEADER, RECOVERING, PartitionState, partition_state_path
from tests.broker.controller.cluster import LONG_MS, Broker, Cluster, assigned_topic, running, settle, wait_for

LATEST = 2
PREFERRED = 0
UNCLEAN = 1
Named = Sequence[tuple[str, Sequence[int]]]


def request(named: Named | None, kind: int = PREFERRED, timeout_ms: int = LONG_MS) -> ElectLeadersRequest:
    wanted = None if named is None else [TopicPartitions(topic=name, partitions=indices) for name, indices in named]
    return ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=timeout_ms)


def start(
    broker: Broker, named: Named | None, kind: int = PREFERRED, *, version: int = LATEST, timeout_ms: int = LONG_MS
) -> Deferred[ElectLeadersResponse]:
    asked = ElectLeadersRequest.decode(request(named, kind, timeout_ms).encode(version), version)
    context = RequestContext(ApiKey.ELECT_LEADERS, version)
    return elect_leaders.handle(asked, context, controller=broker.controller, metadata=broker.metadata)


def results(response: ElectLeadersResponse, version: int = LATEST) -> dict[str, tuple[ErrorCode, str | None]]:
    response = ElectLeadersResponse.decode(response.encode(version), version)
    return {
        f"{each.topic}-{result.partition_id}": (ErrorCode(result.error_code), result.error_message)
        for each in response.replica_election_results
        for result in each.partition_result
    }


async def elect(
    broker: Broker, named: Named | None, kind: int = PREFERRED, *, version: int = LATEST, timeout_ms: int = LONG_MS
) -> dict[str, tuple[ErrorCode, str | None]]:
    response = await wait_for(start(broker, named, kind, version=version, timeout_ms=timeout_ms))
    assert response.error_code == ErrorCode.NONE
    return results(response, version)


async def create(broker: Broker, name: str, *replicas: tuple[int, ...]) -> None:
    await wait_for(broker.controller.create_topics([assigned_topic(name, *replicas)], LONG_MS, validate_only=False))
    await settle()


async def state_of(cluster: Cluster, index: int = 0) -> PartitionState:
    data = await cluster.data(partition_state_path(TopicPartition("t", index)))
    assert data is not None
    return PartitionState.decode(data, 0)


async def set_isr(cluster: Cluster, *isr: int, index: int = 0) -> None:
    """Change the in-sync replicas, as a leader does."""
    state = (await state_of(cluster, index))._replace(isr=isr)
    leader = cluster.store.session(lambda event: None)
    await leader.set(partition_state_path(TopicPartition("t", index)), state.encode())
    await leader.close()


async def lead_elsewhere(cluster: Cluster) -> None:
    """Broker 1 comes back in sync, but broker 0 leads meanwhile."""
    await cluster.kill_broker(1)
    await cluster.start_broker(1)
    await settle()
    assert (await state_of(cluster)).leader == 0
    await set_isr(cluster, 0, 1)


@pytest.mark.parametrize("version", range(LATEST + 1))
async def test_the_preferred_replica_leads_again_in_every_version(tmp_path: Path, version: int) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t", (1, 0), (0, 1))
        await lead_elsewhere(cluster)
        before = await state_of(cluster)
        assert await elect(broker, [("t", [0])], version=version) == {"t-0": (ErrorCode.NONE, None)}
        known = broker.metadata.partition("t", 0)
        assert known is not None
        assert known.leader == 1
        await settle()
        after = await state_of(cluster)
        assert (after.leader, after.isr, after.leader_epoch) == (1, (0, 1), before.leader_epoch + 1)
        assert cluster.brokers[1].replicas.partition("t", 0).is_leader
        assert not broker.replicas.partition("t", 0).is_leader


async def test_a_request_for_all_partitions_leaves_out_those_that_need_no_election(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t", (1, 0), (0, 1))
        assert await elect(broker, None) == {}
        await lead_elsewhere(cluster)
        assert await elect(broker, None, UNCLEAN) == {}
        assert await elect(broker, None) == {"t-0": (ErrorCode.NONE, None)}


async def test_each_partition_that_cannot_be_elected_has_its_error(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t", (1, 0), (0, 1))
        await cluster.kill_broker(1)
        assert await elect(broker, [("t", [0, 1, 2, 0]), ("gone", [0]), ("t", [-1])]) == {
            "t-0": (
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                "Failed to elect leader for partition t-0 under strategy "
                "PreferredReplicaPartitionLeaderElectionStrategy",
            ),
            "t-1": (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
            "t-2": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-2"),
            "t--1": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t--1"),
            "gone-0": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as gone"),
        }
        assert await elect(broker, []) == {}
        assert await elect(broker, [("t", [])]) == {}


async def test_a_preferred_replica_that_is_not_in_sync_does_not_lead(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t", (1, 0))
        await lead_elsewhere(cluster)
        await set_isr(cluster, 0)
        assert (await elect(broker, [("t", [0])]))["t-0"][0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert (await state_of(cluster)).leader == 0


async def test_an_unclean_election_elects_any_replica_if_there_is_no_leader(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t", (1, 0), (0, 1))
        await create(broker, "alone", (1,))
        await set_isr(cluster, 1)
        await cluster.kill_broker(1)
        assert [(await state_of(cluster, index)).leader for index in range(2)] == [NO_LEADER, 0]
        assert (await elect(broker, [("t", [0])]))["t-0"][0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert await elect(broker, [("t", [0, 1]), ("alone", [0])], UNCLEAN) == {
            "alone-0": (
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Failed to elect leader for partition alone-0 under strategy "
                "OfflinePartitionLeaderElectionStrategy(true)",
            ),
            "t-0": (ErrorCode.NONE, None),
            "t-1": (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        }
        found = await state_of(cluster)
        assert (found.leader, found.isr, found.recovery_state) == (0, (0,), RECOVERING)
        assert broker.replicas.partition("t", 0).is_leader


async def test_a_topic_that_is_being_deleted_has_no_elections(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t", (1, 0))
        await cluster.kill_broker(1)
        # The deletion cannot end without the broker that has a replica.
        await wait_for(broker.controller.delete_topics(["t"], LONG_MS))
        assert await elect(broker, [("t", [0])]) == {
            "t-0": (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        }


async def test_a_broker_that_is_not_the_controller_returns_not_controller(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        await create(cluster.brokers[0], "t", (1, 0))
        assert await elect(cluster.brokers[1], [("t", [0])]) == {"t-0": (ErrorCode.NOT_CONTROLLER, None)}
        assert await elect(cluster.brokers[1], None) == {"t-0": (ErrorCode.NOT_CONTROLLER, None)}


async def test_an_abandoned_request_leaves_no_wait(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t", (0,))
        start(broker, [("t", [0])]).abandon()
        await settle()
        assert (await elect(broker, [("t", [0])]))["t-0"][0] is ErrorCode.ELECTION_NOT_NEEDED


async def test_an_unknown_type_of_election_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        for kind in (-1, 2):
            with pytest.raises(KafkaError) as caught:
                start(cluster.brokers[0], [("t", [0])], kind)
            assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_an_error_of_the_whole_request_is_returned_for_each_partition() -> None:
    response = elect_leaders.error_response(request([("t", [0, 1])]), LATEST, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert {code for code, _ in results(response).values()} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert elect_leaders.error_response(request(None), LATEST, ErrorCode.NOT_CONTROLLER).replica_election_results == []
