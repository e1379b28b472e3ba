import json
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.controller.broker_queues import Peer
from ottla.broker.controller.request_batch import ControlRequest
from ottla.broker.controller.store import new_topic_id
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.wire.schema import Response
from ottla.wire.types import TopicPartition
from ottla.wire.uuids import uuid_text
from ottla.zk import znodes
from ottla.zk.bootstrap import register_broker
from ottla.zk.store import Create, EventType, WatchEvent
from ottla.zk.znodes import BrokerInfo, Endpoint, ReplicaAssignment, TopicAssignment
from tests.broker.controller.cluster import (
    LONG_MS,
    NOW_MS,
    Broker,
    Cluster,
    assigned_topic,
    running,
    settle,
    topic,
    wait_for,
)


async def test_the_first_broker_becomes_the_controller(tmp_path: Path) -> None:
    async with running(tmp_path, 3) as cluster:
        assert cluster.brokers[3].controller.is_active
        assert cluster.brokers[3].metadata.controller_id == 3
        data = await cluster.data(znodes.CONTROLLER)
        assert data is not None
        assert znodes.decode_controller(data) == 3
        assert await cluster.data(znodes.CONTROLLER_EPOCH) == b"1"
        assert await cluster.data(znodes.FEATURE) == b'{"features":{},"version":2,"status":1}'


async def test_a_created_topic_has_leaders_znodes_and_configs(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        request = [topic("t", 3, retention_ms="1234")]
        outcome = (await wait_for(broker.controller.create_topics(request, LONG_MS, validate_only=False)))["t"]
        assert outcome.error is None
        assert [broker.replicas.partition("t", index).is_leader for index in range(3)] == [True] * 3
        assert {each.leader for each in broker.metadata.partitions("t").values()} == {0}
        assert broker.metadata.topic_id("t") == outcome.topic_id
        log = broker.logs.logs[TopicPartition("t", 0)]
        assert (log.topic_id, log.config.values["retention.ms"]) == (outcome.topic_id, 1234)

        data = await cluster.data("/brokers/topics/t")
        assert data is not None
        assignment = {index: ReplicaAssignment((0,)) for index in range(3)}
        assert TopicAssignment.decode(data) == (outcome.topic_id, assignment)
        assert await cluster.data("/config/topics/t") == b'{"version":1,"config":{"retention.ms":"1234"}}'
        assert await cluster.data("/brokers/topics/t/partitions/2/state") == (
            b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
        )


async def test_topics_and_leader_epochs_survive_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        await wait_for(cluster.brokers[0].controller.create_topics([topic("t", 2)], LONG_MS, validate_only=False))
        topic_id = cluster.brokers[0].metadata.topic_id("t")
        epoch = cluster.brokers[0].epoch
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        assert broker.epoch > epoch
        assert broker.metadata.topic_id("t") == topic_id
        # A started broker leads already, so that clients need not ask twice.
        assert broker.replicas.partition("t", 1).is_leader
        assert broker.replicas.partition("t", 1).leader_epoch == 0
        assert await cluster.data(znodes.CONTROLLER_EPOCH) == b"2"


async def test_a_topic_that_a_tool_wrote_is_brought_online(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        tool = cluster.store.session(lambda event: None)
        await tool.create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
        await settle()
        broker = cluster.brokers[0]
        assert {each.leader for each in broker.metadata.partitions("old").values()} == {0}
        # The controller added an id.
        data = await cluster.data("/brokers/topics/old")
        assert data is not None
        assert broker.metadata.topic_id("old") == TopicAssignment.decode(data).topic_id != bytes(16)


async def test_partitions_that_a_tool_adds_are_brought_online(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await wait_for(broker.controller.create_topics([topic("t")], LONG_MS, validate_only=False))
        data = await cluster.data("/brokers/topics/t")
        assert data is not None
        assignment = json.loads(data)
        assignment["partitions"]["1"] = [0]
        tool = cluster.store.session(lambda event: None)
        await tool.set("/brokers/topics/t", json.dumps(assignment).encode())
        await settle()
        assert broker.replicas.partition("t", 1).is_leader


async def test_a_deleted_topic_leaves_nothing_and_its_name_is_free_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        controller = broker.controller
        await wait_for(controller.create_topics([topic("t", 2, retention_ms="1")], LONG_MS, validate_only=False))
        first_id = broker.metadata.topic_id("t")
        assert await wait_for(controller.delete_topics(["t", "u"], LONG_MS)) == {
            "t": ErrorCode.NONE,
            "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert not broker.metadata.contains("t")
        assert broker.logs.logs == {}
        for path in ("/brokers/topics/t", "/config/topics/t", "/admin/delete_topics/t"):
            assert await cluster.data(path) is None
        outcome = (await wait_for(controller.create_topics([topic("t")], LONG_MS, validate_only=False)))["t"]
        assert outcome.error is None
        assert outcome.topic_id != first_id
        assert broker.logs.logs[TopicPartition("t", 0)].config.values["retention.ms"] != 1


async def test_a_deletion_that_a_tool_requests_is_done(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await wait_for(broker.controller.create_topics([topic("t")], LONG_MS, validate_only=False))
        tool = cluster.store.session(lambda event: None)
        await tool.multi([Create("/admin/delete_topics/t"), Create("/admin/delete_topics/unknown")])
        await settle()
        assert not broker.metadata.contains("t")
        assert await tool.children("/admin/delete_topics") == []
        assert await tool.children("/brokers/topics") == []


async def test_a_deletion_requested_before_a_restart_is_done_after_it(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        await wait_for(cluster.brokers[0].controller.create_topics([topic("t")], LONG_MS, validate_only=False))
        tool = cluster.store.session(lambda event: None)
        await cluster.kill_broker(0)
        await tool.create("/admin/delete_topics/t")
    async with running(tmp_path, 0) as cluster:
        await settle()
        assert await cluster.data("/brokers/topics/t") is None
        assert cluster.brokers[0].logs.logs == {}


async def test_no_topic_is_deleted_if_deletion_is_disabled(tmp_path: Path) -> None:
    async with running(tmp_path, 0, delete_topic_enable="false") as cluster:
        broker = cluster.brokers[0]
        await wait_for(broker.controller.create_topics([topic("t")], LONG_MS, validate_only=False))
        tool = cluster.store.session(lambda event: None)
        await tool.create("/admin/delete_topics/t")
        await settle()
        assert broker.metadata.contains("t")
        assert await tool.children("/admin/delete_topics") == []


async def test_every_partition_gets_another_leader_when_a_broker_fails(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1, 2) as cluster:
        controller = cluster.brokers[0].controller
        request = [assigned_topic("t", (1, 2), (2, 1), (0, 1))]
        await wait_for(controller.create_topics(request, LONG_MS, validate_only=False))
        await wait_for(controller.create_topics([assigned_topic("alone", (1,))], LONG_MS, validate_only=False))
        await cluster.kill_broker(1)
        known = cluster.brokers[0].metadata.partitions("t")
        assert [known[index].leader for index in range(3)] == [2, 2, 0]
        assert [known[index].isr for index in range(3)] == [(2,), (2,), (0,)]
        assert [known[index].offline_replicas for index in range(3)] == [(1,), (1,), (1,)]
        assert cluster.brokers[2].replicas.partition("t", 0).leader_epoch >= 1
        assert sorted(cluster.brokers[0].metadata.brokers) == [0, 2]
        # The last replica stays in sync until it is back.
        alone = cluster.brokers[0].metadata.partitions("alone")[0]
        assert (alone.leader, alone.isr) == (-1, (1,))


async def test_a_restarted_broker_leads_partitions_that_no_other_broker_could_lead(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        controller = cluster.brokers[0].controller
        await wait_for(controller.create_topics([assigned_topic("t", (1,))], LONG_MS, validate_only=False))
        await cluster.kill_broker(1)
        assert cluster.brokers[0].metadata.partitions("t")[0].leader == -1
        broker = await cluster.start_broker(1)
        await settle()
        assert broker.replicas.partition("t", 0).is_leader
        # One epoch without a leader, one with the new leader.
        assert broker.replicas.partition("t", 0).leader_epoch == 2
        assert cluster.brokers[0].metadata.partitions("t")[0].leader == 1
        first = [type(request) for request in broker.told[:2]]
        assert first == [UpdateMetadataRequest, LeaderAndIsrRequest]


async def test_partitions_without_leader_get_one_when_unclean_elections_become_the_default(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1, 2) as cluster:
        first = cluster.brokers[0]
        await wait_for(first.controller.create_topics([assigned_topic("t", (1, 2))], LONG_MS, validate_only=False))
        await cluster.kill_broker(2)
        await cluster.start_broker(2)
        await settle()
        await cluster.kill_broker(1)
        assert first.metadata.partitions("t")[0].leader == -1
        await first.dynamic.update({"unclean.leader.election.enable": "true"}, {})
        await settle()
        assert (first.metadata.partitions("t")[0].leader, first.metadata.partitions("t")[0].isr) == (2, (2,))


async def test_a_replica_out_of_sync_leads_only_topics_that_allow_it(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1, 2) as cluster:
        controller = cluster.brokers[0].controller
        safe, unsafe = assigned_topic("safe", (1, 2)), assigned_topic("unsafe", (1, 2))
        await wait_for(controller.create_topics([safe, unsafe], LONG_MS, validate_only=False))
        tool = cluster.store.session(lambda event: None)
        await tool.set("/config/topics/unsafe", znodes.encode_config({"unclean.leader.election.enable": "true"}))
        await cluster.kill_broker(2)
        broker = await cluster.start_broker(2)
        await settle()
        await cluster.kill_broker(1)
        assert cluster.brokers[0].metadata.partitions("safe")[0].leader == -1
        unclean = cluster.brokers[0].metadata.partitions("unsafe")[0]
        assert (unclean.leader, unclean.isr) == (2, (2,))
        states = [
            state
            for request in broker.told_of_kind(LeaderAndIsrRequest)
            for each in request.topic_states
            for state in each.partition_states
            if each.topic_name == "unsafe"
        ]
        assert states[-1].leader_recovery_state == znodes.RECOVERING


async def test_another_broker_becomes_the_controller_when_the_controller_fails(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        first = cluster.brokers[0]
        assert not cluster.brokers[1].controller.is_active
        await settle()
        await wait_for(first.controller.create_topics([assigned_topic("t", (0, 1))], LONG_MS, validate_only=False))
        await cluster.kill_broker(0)
        assert cluster.brokers[1].controller.is_active
        assert await cluster.data(znodes.CONTROLLER_EPOCH) == b"2"
        assert cluster.brokers[1].replicas.partition("t", 0).is_leader
        assert cluster.brokers[1].metadata.controller_id == 1


async def test_a_replaced_controller_writes_nothing_and_is_a_candidate_again(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        tool = cluster.store.session(lambda event: None)
        # As another controller writes it.
        await tool.set(znodes.CONTROLLER_EPOCH, b"9")
        reply = await wait_for(broker.controller.create_topics([topic("t")], LONG_MS, validate_only=False))
        assert reply["t"].error is not None
        assert reply["t"].error.code is ErrorCode.NOT_CONTROLLER
        assert await tool.children("/brokers/topics") == []
        await settle()
        assert broker.controller.is_active
        assert await cluster.data(znodes.CONTROLLER_EPOCH) == b"10"


async def test_a_controller_that_learns_late_of_its_last_sessions_expiry_is_a_candidate_again(tmp_path: Path) -> None:
    """It was elected in the next session already, because the candidacy of the last session continued there."""
    async with running(tmp_path, 0) as cluster:
        controller = cluster.brokers[0].controller
        controller.on_store_event(WatchEvent(EventType.EXPIRED, ""))
        controller.on_store_event(WatchEvent(EventType.BEGUN, ""))
        await settle()
        assert controller.is_active
        assert await cluster.data(znodes.CONTROLLER_EPOCH) == b"2"
        created = await wait_for(controller.create_topics([topic("t")], LONG_MS, validate_only=False))
        assert created["t"].error is None


async def test_an_interrupted_election_of_the_controller_leaves_no_request_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs: list[int] = []
    may_answer = trio.Event()

    class Far:
        async def send(self, request: ControlRequest) -> Response:
            epochs.append(request.controller_epoch)
            await may_answer.wait()
            return UpdateMetadataResponse(error_code=0)

        async def close(self) -> None:
            pass

    class Undone(Broker):
        """Its first election ends, as by an expiry, while it reads the topics."""

        def __init__(self, cluster: Cluster, broker_id: int, nursery: trio.Nursery) -> None:
            super().__init__(cluster, broker_id, nursery)
            self.children = self.session.children
            monkeypatch.setattr(self.session, "children", self.children_once)

        async def children_once(self, path: str, *, watch: bool = False) -> list[str]:
            if path == znodes.TOPICS and await self.cluster.data(znodes.CONTROLLER_EPOCH) == b"1":
                await tool.delete(znodes.CONTROLLER)
            return await self.children(path, watch=watch)

        def peer_of(self, broker_id: int) -> Peer:
            return Far() if broker_id == 1 else super().peer_of(broker_id)

    async with running(tmp_path, kind=Undone) as cluster:
        tool = cluster.store.session(lambda event: None)
        await register_broker(tool, BrokerInfo(1, (Endpoint("PLAINTEXT", "host1", 9092),)), NOW_MS)
        assignment = TopicAssignment(b"1" * 16, {0: ReplicaAssignment((1,))})
        await tool.create("/brokers/topics/t", assignment.encode())
        broker = await cluster.start_broker(0)
        await settle()
        assert broker.controller.is_active
        may_answer.set()
        await settle()
        assert set(epochs[1:]) == {2}


async def test_a_deletion_is_halted_until_the_topics_brokers_are_back(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        controller = cluster.brokers[0].controller
        await settle()
        await wait_for(controller.create_topics([assigned_topic("t", (0, 1))], LONG_MS, validate_only=False))
        await cluster.kill_broker(1)
        assert await wait_for(controller.delete_topics(["t"], LONG_MS)) == {"t": ErrorCode.NONE}
        await settle()
        assert await cluster.data("/brokers/topics/t") is not None
        refused = await wait_for(controller.create_topics([topic("t")], LONG_MS, validate_only=False))
        assert refused["t"].error.detail == "Topic 't' is marked for deletion."
        broker = await cluster.start_broker(1)
        await settle()
        assert await cluster.data("/brokers/topics/t") is None
        assert broker.logs.logs == {}
        assert broker.told_of_kind(StopReplicaRequest)[-1].topic_states[0].partition_states[0].delete_partition


async def test_a_creation_without_a_timeout_times_out_and_is_done(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        controller = cluster.brokers[0].controller
        outcome = await wait_for(controller.create_topics([topic("t")], 0, validate_only=False))
        assert outcome["t"].error.code is ErrorCode.REQUEST_TIMED_OUT
        await settle()
        assert cluster.brokers[0].metadata.contains("t")


async def test_a_topic_that_no_broker_can_lead_times_out(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        controller = cluster.brokers[0].controller
        await settle()
        await cluster.kill_broker(1)
        known = cluster.brokers[0].metadata.brokers
        # Planned with old metadata, in which the other broker is alive.
        cluster.brokers[0].metadata.brokers = known | {1: known[0]._replace(broker_id=1)}
        start = trio.current_time()
        request = [assigned_topic("t", (1,)), topic("u")]
        outcomes = await wait_for(controller.create_topics(request, 5_000, validate_only=False))
        assert outcomes["t"].error.code is ErrorCode.REQUEST_TIMED_OUT
        assert outcomes["u"].error is None
        assert 5 <= trio.current_time() - start < 6


async def test_an_abandoned_creation_is_done(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        controller = cluster.brokers[0].controller
        controller.create_topics([topic("t")], LONG_MS, validate_only=False).abandon()
        await settle()
        assert cluster.brokers[0].metadata.contains("t")


async def test_validate_only_creates_no_topic(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        controller = cluster.brokers[0].controller
        request = [topic("t", 2), topic("bad name")]
        outcomes = await wait_for(controller.create_topics(request, LONG_MS, validate_only=True))
        assert outcomes["t"].error is None
        assert len(outcomes["t"].topic.assignment) == 2
        assert outcomes["bad name"].error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        await settle()
        assert await cluster.data("/brokers/topics/t") is None


async def test_names_that_collide_within_one_request_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        controller = cluster.brokers[0].controller
        request = [topic("a.b"), topic("a_b")]
        outcomes = await wait_for(controller.create_topics(request, LONG_MS, validate_only=False))
        assert outcomes["a.b"].error is None
        assert outcomes["a_b"].error.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_too_many_partitions_in_one_request_are_refused_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        controller = cluster.brokers[0].controller
        request = [topic("t", 2**31 - 1), topic("u")]
        outcomes = await wait_for(controller.create_topics(request, LONG_MS, validate_only=False))
        assert {outcome.error.code for outcome in outcomes.values()} == {ErrorCode.POLICY_VIOLATION}


async def test_any_broker_creates_topics_automatically(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        await settle()
        asked = cluster.brokers[1].controller
        assert not asked.is_active
        assert asked.auto_create(["t", "no/name"]) == {
            "t": ErrorCode.LEADER_NOT_AVAILABLE,
            "no/name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        assert asked.auto_create(["t"]) == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        await settle()
        for broker in cluster.brokers.values():
            assert broker.metadata.partitions("t")[0].leader == 0
        assert asked.auto_create(["t"]) == {"t": ErrorCode.LEADER_NOT_AVAILABLE}


async def test_a_topic_that_cannot_be_created_automatically_gets_an_error(tmp_path: Path) -> None:
    async with running(tmp_path, 0, default_replication_factor="3") as cluster:
        controller = cluster.brokers[0].controller
        assert controller.auto_create(["t", "__share_group_state"]) == {
            "t": ErrorCode.INVALID_REPLICATION_FACTOR,
            "__share_group_state": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_hundreds_of_partitions_are_sent_in_one_request_of_each_kind(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        before = len(broker.told)
        reply = broker.controller.create_topics([topic("t", 300)], LONG_MS, validate_only=False)
        assert (await wait_for(reply))["t"].error is None
        assert [type(request) for request in broker.told[before:]] == [LeaderAndIsrRequest, UpdateMetadataRequest]


def test_topic_ids_are_random_and_do_not_look_like_options() -> None:
    ids = {new_topic_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert not any(uuid_text(each).startswith("-") for each in ids)
