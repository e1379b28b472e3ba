from pathlib import Path

import pytest

from ottla.broker.controller.store import ClusterStore
from ottla.broker.upkeep.stray_logs import find_strays
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.wire.types import TopicPartition
from ottla.zk import znodes
from ottla.zk.bootstrap import prepare_tree
from ottla.zk.znodes import ReplicaAssignment, TopicAssignment
from tests.broker.support.hosted import NOW_MS
from tests.zk.stores import Client, open_store

ID, OTHER = bytes(15) + b"\1", bytes(15) + b"\2"


async def test_strays_are_the_logs_that_the_store_certainly_does_not_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store(tmp_path)
    session = Client(store).session
    await prepare_tree(session, "c")
    for topic in ("known", "replaced"):
        assignment = TopicAssignment(ID, {0: ReplicaAssignment((0,))})
        await session.create(znodes.topic_path(topic), assignment.encode())
    await session.create(znodes.topic_path("unreadable"), b"no JSON")
    logs = LogManager([tmp_path / "a", tmp_path / "b"], broker_id=0, cluster_id="c")
    for topic, partition, topic_id in (
        ("known", 0, ID),
        ("known", 1, ID),
        ("replaced", 0, OTHER),
        ("unreadable", 0, ID),
        ("unknown", 0, ID),
        ("unknown", 1, None),
    ):
        logs.get_or_create(TopicPartition(topic, partition), topic_id, LogConfig(), NOW_MS)
    await find_strays(ClusterStore(session), logs, tmp_path / "store.db")
    assert logs.strays == {"known": {1}, "replaced": {0}, "unknown": {0, 1}}
    said = [record.getMessage() for record in caplog.records if "is stray" in record.getMessage()]
    assert len(said) == 4
    where = logs.logs[TopicPartition("unknown", 0)].directory
    (line,) = (each for each in said if str(where) in each)
    assert f"{tmp_path / 'store.db'} has no such partition" in line
    dirs = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    assert line.endswith(f"ottla metadata import {where.parent} --override log.dirs={dirs}")
    logs.shutdown()
    await store.close()


async def test_a_log_without_a_topic_id_belongs_to_the_topic_of_its_name(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    session = Client(store).session
    await prepare_tree(session, "c")
    assignment = TopicAssignment(ID, {0: ReplicaAssignment((0,))})
    await session.create(znodes.topic_path("known"), assignment.encode())
    logs = LogManager([tmp_path / "a"], broker_id=0, cluster_id="c")
    logs.get_or_create(TopicPartition("known", 0), None, LogConfig(), NOW_MS)
    await find_strays(ClusterStore(session), logs, tmp_path / "store.db")
    assert logs.strays == {}
    logs.shutdown()
    await store.close()
