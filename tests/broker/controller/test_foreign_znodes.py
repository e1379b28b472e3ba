"""Znodes that strangers write: readable ones are used, others are passed over, logged once, and harm nothing else."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
import trio.testing

from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.types import TopicPartition
from ottla.zk import znodes
from ottla.zk.store import Create, Delete, Session
from ottla.zk.znodes import PartitionState, TopicAssignment
from tests.broker.controller.cluster import LONG_MS, Broker, Cluster, assigned_topic, running, settle, topic, wait_for

STATE = "/brokers/topics/t/partitions/0/state"
ELECTION = znodes.PREFERRED_REPLICA_ELECTION
NONSENSE = {
    "nothing": b"",
    "no JSON": b"nonsense",
    "no UTF-8": b"\xff\xfe\x00",
    "no object": b"[]",
    "another shape": b'{"partitions":"x","config":[],"version":[]}',
    "numbers that are none": b'{"leader":true,"isr":["1"],"partitions":{"-1":[0]},"broker":"0","version":9}',
    "numbers too large": b'{"partitions":{"0":[99999999999]},"leader":1e99,"broker":99999999999,"version":1}',
    "half a character": b'{"version":1,"host":"\\ud800","port":1,"config":{"x":"\\udfff"}}',
    "nested deeply": b"[" * 200_000,
    "huge": b'{"version":2,"endpoints":["' + b"x" * 900_000 + b'"]}',
}


class Foreign(NamedTuple):
    """A cluster of one broker with a topic, and a stranger's session."""

    cluster: Cluster
    broker: Broker
    stranger: Session

    async def put(self, path: str, data: bytes) -> None:
        """Write, whether there is such a znode or not."""
        if await self.stranger.exists(path) is None:
            await self.stranger.create(path, data)
        else:
            await self.stranger.set(path, data)
        await settle()

    async def check(self, new: str) -> None:
        """Check that the controller serves other topics and creates a new one."""
        await settle()
        assert self.broker.controller.is_active
        assert self.broker.replicas.partition("sound", 0).is_leader
        reply = self.broker.controller.create_topics([topic(new)], LONG_MS, validate_only=False)
        assert (await wait_for(reply))[new].error is None
        assert self.broker.replicas.partition(new, 0).is_leader


@asynccontextmanager
async def foreign(directory: Path, *names: str) -> AsyncIterator[Foreign]:
    async with running(directory, 0) as cluster:
        broker = cluster.brokers[0]
        wanted = [topic(each) for each in ("sound", *names)]
        await wait_for(broker.controller.create_topics(wanted, LONG_MS, validate_only=False))
        yield Foreign(cluster, broker, cluster.store.session(lambda event: None))


def lines(caplog: pytest.LogCaptureFixture, path: str) -> list[str]:
    return [each for each in caplog.messages if path in each]


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE.keys())
async def test_an_unreadable_znode_harms_nothing_else_before_and_after_an_election(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    read = (
        "/brokers/ids/9",
        "/brokers/ids/9999999999",
        "/brokers/topics/bad",
        "/config/changes/config_change_0000000099",
        znodes.REASSIGN_PARTITIONS,
        ELECTION,
        "/isr_change_notification/isr_change_0000000000",
        "/log_dir_event_notification/log_dir_event_0000000000",
    )
    unread = ("/admin/delete_topics/nobody", "/config/changes/else", "/brokers/seqid", "/feature", "/brokers/ids/x y")
    async with foreign(tmp_path, "t") as it:
        for path in (*read, *unread, STATE):
            await it.put(path, data)
        for path in read:
            (line,) = set(lines(caplog, path + " "))
            assert len(line) < 400
        await it.check("new")
        assert it.broker.replicas.partition("t", 0).is_leader
        assert await it.stranger.children("/admin/delete_topics") == []
        assert await it.stranger.children("/isr_change_notification") == []
        assert await it.stranger.children("/log_dir_event_notification") == []
        caplog.clear()
        await it.stranger.delete(znodes.CONTROLLER)
        await it.check("newer")
        assert lines(caplog, "/brokers/topics/bad ")
        assert lines(caplog, STATE)


STRANGE = {
    "no replica": {"partitions": {"0": []}},
    "no partition": {"partitions": {}},
    "a negative replica": {"partitions": {"0": [-1]}},
    "one replica twice": {"partitions": {"0": [0, 0]}},
    "brokers that are not there": {"partitions": {"0": [2147483647, 77], "1": [77, 0]}},
    "gaps between partitions": {"partitions": {"5": [0], "2147483646": [0]}},
    "replicas that come and go and are none": {
        "partitions": {"0": [0]},
        "adding_replicas": {"0": [7]},
        "removing_replicas": {"0": [8], "3": [0]},
    },
    "an id that another topic has": {"partitions": {"0": [0]}, "topic_id": "SOUND"},
    "an id of zeros": {"partitions": {"0": [0]}, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA"},
}


@pytest.mark.parametrize("assignment", STRANGE.values(), ids=STRANGE.keys())
async def test_a_topic_with_a_strange_znode_harms_no_other_and_can_be_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, assignment: dict[str, object]
) -> None:
    async with foreign(tmp_path) as it:
        sound = json.loads((await it.stranger.get("/brokers/topics/sound"))[0])["topic_id"]
        data = json.dumps(assignment).replace("SOUND", sound).encode()
        for name in ("strange", "no name for a topic"):
            await it.put(f"/brokers/topics/{name}", data)
        await it.check("new")
        await it.stranger.delete(znodes.CONTROLLER)
        await it.check("newer")
        await it.put("/admin/delete_topics/strange", b"")
        await it.check("newest")
        assert it.broker.metadata.topic_name(it.broker.metadata.topic_id("sound")) == "sound"
        assert not [each for each in caplog.messages if "Failed at" in each or "A bug" in each]


@pytest.mark.parametrize(
    "state",
    [
        {"leader": 99, "leader_epoch": 3, "isr": [99], "controller_epoch": 1},
        {"leader": -1, "leader_epoch": -9, "isr": [], "controller_epoch": 1},
        {"leader": 0, "leader_epoch": 2147483646, "isr": [0], "controller_epoch": 1},
        {"leader": 0, "leader_epoch": 2147483647, "isr": [0], "controller_epoch": 1},
        {"leader": 0, "leader_epoch": 0, "isr": [0], "controller_epoch": 1000},
        {"leader": 0, "leader_epoch": 0, "isr": [0, 0, -5], "controller_epoch": 1, "leader_recovery_state": 1},
    ],
)
async def test_a_partition_in_a_strange_state_harms_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, state: dict[str, object]
) -> None:
    async with foreign(tmp_path, "t") as it:
        await it.put(STATE, json.dumps(state).encode())
        for name in ("new", "newer"):
            await it.cluster.kill_broker(0)
            await it._replace(broker=await it.cluster.start_broker(0)).check(name)
        assert not [each for each in caplog.messages if "Failed at" in each or "A bug" in each or "could not" in each]


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE.keys())
async def test_a_broker_starts_in_spite_of_unreadable_znodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    async with foreign(tmp_path, "t") as it:
        await it.put("/config/brokers/0", data)
        await it.put("/config/brokers/<default>", data)
        await it.put("/config/topics/t", data)
        await it.cluster.kill_broker(0)
        await it.put("/brokers/topics/bad", data)
        await it.put(STATE, data)
        restarted = it._replace(broker=await it.cluster.start_broker(0))
        await restarted.check("new")
        assert restarted.broker.metadata.contains("t") is False
        assert lines(caplog, STATE)


@pytest.mark.parametrize("data", [b"nonsense", b"[]", b'{"config":{"retention.ms":5}}'])
async def test_unreadable_configs_count_as_none_and_may_be_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    async with foreign(tmp_path, "t") as it:
        notification = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
        await it.put("/config/topics/t", b'{"version":1,"config":{"retention.ms":"5"}}')
        await it.put("/config/changes/config_change_0000000001", notification)
        log = it.broker.replicas.partition("t", 0).log
        assert log.config.values["retention.ms"] == 5
        await it.put("/config/topics/t", data)
        await it.put("/config/changes/config_change_0000000002", notification)
        assert log.config.values["retention.ms"] != 5
        assert len(lines(caplog, "/config/topics/t ")) == 1
        await it.put("/config/topics/t", b'{"version":1,"config":{"retention.ms":"6"}}')
        await it.put("/config/changes/config_change_0000000003", b'{"version":2,"entity_path":"topics/t"}')
        assert log.config.values["retention.ms"] == 6


async def test_an_unreadable_topic_is_brought_online_when_its_znode_is_repaired(tmp_path: Path) -> None:
    async with foreign(tmp_path, "t") as it:
        data, _ = await it.stranger.get("/brokers/topics/t")
        await it.put("/brokers/topics/t", b"nonsense")
        # The topic is served as before.
        assert it.broker.replicas.partition("t", 0).is_leader
        await it.cluster.kill_broker(0)
        broker = await it.cluster.start_broker(0)
        assert not broker.metadata.contains("t")
        await it.put("/brokers/topics/t", data)
        assert broker.replicas.partition("t", 0).is_leader
        assert broker.metadata.topic_id("t") == TopicAssignment.decode(data).topic_id
        await it._replace(broker=broker).check("new")


async def test_an_unreadable_topic_can_be_deleted(tmp_path: Path) -> None:
    async with foreign(tmp_path) as it:
        await it.put("/brokers/topics/bad", b"nonsense")
        await it.put("/admin/delete_topics/bad", b"")
        assert await it.stranger.children("/admin/delete_topics") == []
        assert "bad" not in await it.stranger.children("/brokers/topics")
        await it.check("bad")


@pytest.mark.parametrize("data", [b"nonsense", b'{"version":1,"brokerid":7}'])
async def test_a_controller_whose_znode_a_stranger_overwrites_is_elected_again(tmp_path: Path, data: bytes) -> None:
    async with foreign(tmp_path) as it:
        await it.put("/controller", data)
        await it.check("new")
        assert await it.cluster.data("/controller_epoch") == b"2"


async def test_no_broker_is_elected_while_a_stranger_owns_the_controllers_znode(tmp_path: Path) -> None:
    async with foreign(tmp_path) as it:
        await it.stranger.multi([Delete("/controller"), Create("/controller", b"nonsense")])
        await settle()
        assert not it.broker.controller.is_active
        assert it.broker.replicas.partition("sound", 0).is_leader
        await it.stranger.delete("/controller")
        await it.check("new")


async def test_no_broker_is_elected_while_the_last_epoch_is_unreadable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with foreign(tmp_path) as it:
        await it.cluster.kill_broker(0)
        await it.put("/controller_epoch", b"nonsense")
        broker = await it.cluster.start_broker(0)
        assert not broker.controller.is_active
        assert len(lines(caplog, "/controller_epoch")) == 1
        await it.put("/controller_epoch", b"41")
        assert await it.cluster.data("/controller_epoch") == b"42"
        await it._replace(broker=broker).check("new")


async def test_a_broker_whose_registration_is_overwritten_stays_until_its_session_ends(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        stranger = cluster.store.session(lambda event: None)
        await stranger.set("/brokers/ids/1", b"nonsense")
        # The controller reads all registrations again.
        await stranger.create("/brokers/ids/9", b"nonsense")
        await settle()
        assert cluster.brokers[0].metadata.brokers.keys() == {0, 1}
        await cluster.kill_broker(1)
        assert cluster.brokers[0].metadata.brokers.keys() == {0}


async def test_a_parent_znode_that_a_stranger_deletes_and_creates_is_watched_again(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        stranger = cluster.store.session(lambda event: None)
        for path in ("/brokers/topics", "/isr_change_notification", "/log_dir_event_notification"):
            await stranger.delete(path)
            await settle()
            await stranger.create(path)
        await stranger.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0]}}')
        await settle()
        assert cluster.brokers[0].replicas.partition("t", 0).is_leader


async def test_preferred_leaders_are_elected_when_a_znode_asks_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, 0, 1, auto_leader_rebalance_enable="false") as cluster:
        controller = cluster.brokers[0].controller
        wanted = [assigned_topic("t", (1, 0)), assigned_topic("u", (1, 0))]
        await wait_for(controller.create_topics(wanted, LONG_MS, validate_only=False))
        await cluster.kill_broker(1)
        broker = await cluster.start_broker(1)
        stranger = cluster.store.session(lambda event: None)
        for name in "tu":
            # The replica has caught up.
            state = PartitionState.decode(await data_of(stranger, state_path(name)))
            await stranger.set(state_path(name), state._replace(isr=(0, 1)).encode())
        asked = [{"topic": name, "partition": 0} for name in ("t", "nobody")]
        await stranger.create(ELECTION, json.dumps({"version": 1, "partitions": asked}).encode())
        await settle()
        assert await cluster.data(ELECTION) is None
        assert broker.replicas.partition("t", 0).is_leader
        assert not broker.replicas.partition("u", 0).is_leader
        assert "nobody" in "".join(each for each in caplog.messages if "a znode asks for it" in each)
        # The znode is watched again, and a new controller finds it.
        await cluster.kill_broker(0)
        await stranger.create(ELECTION, b'{"version":1,"partitions":[{"topic":"u","partition":0}]}')
        await settle()
        assert await cluster.data(ELECTION) is None


async def test_in_sync_replicas_that_a_leader_writes_by_itself_are_sent_to_all_brokers(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        controller = cluster.brokers[0].controller
        await wait_for(controller.create_topics([assigned_topic("t", (1, 0))], LONG_MS, validate_only=False))
        stranger = cluster.store.session(lambda event: None)
        state = PartitionState.decode(await data_of(stranger, STATE))
        await stranger.set(STATE, state._replace(isr=(1,)).encode())
        event = {"version": 1, "partitions": [{"topic": "t", "partition": 0}, {"topic": "nobody", "partition": 5}]}
        for _ in range(2):
            await stranger.create("/isr_change_notification/isr_change_", json.dumps(event).encode(), sequential=True)
            await settle()
        assert await stranger.children("/isr_change_notification") == []
        for broker in cluster.brokers.values():
            found = broker.metadata.partition("t", 0)
            assert found is not None
            assert (found.isr, found.partition_epoch) == ((1,), 1)


async def test_a_reassignment_ends_when_a_leader_writes_the_complete_isr_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        controller = cluster.brokers[0].controller
        await wait_for(controller.create_topics([assigned_topic("t", (0,))], LONG_MS, validate_only=False))
        stranger = cluster.store.session(lambda event: None)
        wanted = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [0, 1]}]}
        await stranger.create(znodes.REASSIGN_PARTITIONS, json.dumps(wanted).encode())
        await settle()
        state = PartitionState.decode(await data_of(stranger, STATE))
        await stranger.set(STATE, state._replace(isr=(0, 1)).encode())
        notification = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
        await stranger.create("/isr_change_notification/isr_change_", notification, sequential=True)
        await settle()
        assert await cluster.data(znodes.REASSIGN_PARTITIONS) is None
        assert TopicAssignment.decode(await data_of(stranger, "/brokers/topics/t")).partitions[0].adding == ()


async def test_after_a_notification_of_a_failed_directory_other_brokers_lead_its_partitions(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        controller, failing = cluster.brokers[0].controller, cluster.brokers[1]
        wanted = [assigned_topic("t", (1, 0)), assigned_topic("u", (1, 0))]
        await wait_for(controller.create_topics(wanted, LONG_MS, validate_only=False))
        failing.replicas.partition("t", 0).make_offline()
        before = len(failing.told_of_kind(LeaderAndIsrRequest))
        stranger = cluster.store.session(lambda event: None)
        event = b'{"version":1,"broker":1,"event":1}'
        await stranger.create("/log_dir_event_notification/log_dir_event_", event, sequential=True)
        await stranger.create("/log_dir_event_notification/log_dir_event_", event.replace(b"1", b"9"), sequential=True)
        await settle()
        assert await stranger.children("/log_dir_event_notification") == []
        assert len(failing.told_of_kind(LeaderAndIsrRequest)) > before
        assert cluster.brokers[0].replicas.partition("t", 0).is_leader
        assert failing.replicas.partition("u", 0).is_leader
        found = cluster.brokers[0].metadata.partition("t", 0)
        assert found is not None
        assert (found.leader, found.isr, found.offline_replicas) == (0, (0,), (1,))


async def test_an_offline_partition_is_led_by_another_broker(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        controller, failing = cluster.brokers[0].controller, cluster.brokers[1]
        wanted = [assigned_topic("t", (1, 0), (1, 0)), assigned_topic("alone", (1,))]
        await wait_for(controller.create_topics(wanted, LONG_MS, validate_only=False))
        await settle()
        for name in ("t", "alone"):
            failing.parts.hosted.take_offline(failing.replicas.partition(name, 0), "its disk failed")
        await settle()
        assert leaders(cluster) == {"t-0": 0, "t-1": 1, "alone-0": -1}
        told = cluster.brokers[0].metadata.partitions("t")
        assert [told[0].offline_replicas, told[1].offline_replicas] == [(1,), ()]
        assert await cluster.store.session(lambda event: None).children("/log_dir_event_notification") == []
        # A restarted broker serves all its partitions, until a request fails.
        await cluster.kill_broker(1)
        await cluster.start_broker(1)
        await settle()
        assert leaders(cluster) == {"t-0": 0, "t-1": 0, "alone-0": 1}


class OfTwoDirectories(Broker):
    more = ("more",)


async def test_only_the_partitions_of_a_failed_directory_get_other_leaders(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1, kind=OfTwoDirectories) as cluster:
        controller, failing = cluster.brokers[0].controller, cluster.brokers[1]
        wanted = [assigned_topic("t", (1, 0), (1, 0)), assigned_topic("alone", (1,), (1,))]
        await wait_for(controller.create_topics(wanted, LONG_MS, validate_only=False))
        await settle()
        ill, well = failing.logs.directories
        there = {str(log.topic_partition) for log in failing.logs.logs.values() if log.directory.parent == ill}
        assert len(there) == 2
        failing.logs.failures.failed(ill, OSError(5, "Input/output error"))
        await settle()
        for name, leader in leaders(cluster).items():
            expected = 1 if name not in there else 0 if name.startswith("t-") else -1
            assert leader == expected, name
        # A new partition goes into the other directory.
        await wait_for(controller.create_topics([assigned_topic("new", (1,))], LONG_MS, validate_only=False))
        await settle()
        assert failing.replicas.partition("new", 0).log.directory.parent == well
        # The broker leads the new partition.
        assert leaders(cluster)["new-0"] == 1


async def test_a_broker_that_starts_without_a_directory_serves_its_other_directories(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1, kind=OfTwoDirectories) as cluster:
        controller = cluster.brokers[0].controller
        wanted = [assigned_topic("t", (1, 0), (1, 0)), assigned_topic("alone", (1,), (1,))]
        await wait_for(controller.create_topics(wanted, LONG_MS, validate_only=False))
        await settle()
        logs = cluster.brokers[1].logs
        ill = logs.directories[1]
        there = {str(log.topic_partition) for log in logs.logs.values() if log.directory.parent == ill}
        await cluster.kill_broker(1)
        ill.rename(ill.with_name("gone"))
        ill.write_text("not a directory")
        await cluster.start_broker(1)
        await settle()
        assert {name for name, leader in leaders(cluster).items() if leader == -1} == {"alone-0", "alone-1"} & there
        assert {name for name, leader in leaders(cluster).items() if leader == 1} == {"alone-0", "alone-1"} - there
        offline = cluster.brokers[0].metadata.partitions("t")
        assert {f"t-{index}" for index, it in offline.items() if it.offline_replicas} == {"t-0", "t-1"} & there


async def test_an_offline_partition_is_notified_once_the_store_can_be_written(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        controller, failing = cluster.brokers[0].controller, cluster.brokers[1]
        await wait_for(controller.create_topics([assigned_topic("t", (1, 0))], LONG_MS, validate_only=False))
        await trio.sleep(1)
        stranger = cluster.store.session(lambda event: None)
        await stranger.delete("/log_dir_event_notification")
        failing.parts.hosted.take_offline(failing.replicas.partition("t", 0), "its disk failed")
        await settle()
        assert failing.metadata.partitions("t")[0].leader == 1
        await stranger.create("/log_dir_event_notification")
        # The broker tries again after a second.
        await trio.sleep(2)
        assert failing.metadata.partitions("t")[0].leader == 0


async def test_notifications_from_before_an_election_are_deleted(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        stranger = cluster.store.session(lambda event: None)
        paths = ("/isr_change_notification/isr_change_", "/log_dir_event_notification/log_dir_event_")
        for path in paths:
            await stranger.create(path, b"whatever", sequential=True)
        await cluster.start_broker(0)
        for path in paths:
            assert await stranger.children(path.rpartition("/")[0]) == []


def leaders(cluster: Cluster) -> dict[str, int]:
    metadata = cluster.brokers[0].metadata
    return {f"{name}-{index}": it.leader for name in metadata.topics for index, it in metadata.partitions(name).items()}


def state_path(name: str) -> str:
    return znodes.partition_state_path(TopicPartition(name, 0))


async def data_of(session: Session, path: str) -> bytes:
    return (await session.get(path))[0]
