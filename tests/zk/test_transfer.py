"""Import and export of metadata keep it unchanged, or are refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.zk import znodes
from ottla.zk.bootstrap import prepare_tree, register_broker
from ottla.zk.cluster_metadata import ClusterMetadata, MetadataError, PartitionMetadata
from ottla.zk.store import ChangesByMulti, Operation, Session, StoreError, StoreFailedError
from ottla.zk.transfer import Imported, read_metadata, write_metadata
from ottla.zk.znodes import (
    BrokerInfo,
    Endpoint,
    PartitionState,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicAssignment,
)
from tests.zk.stores import Connect
from tests.zk.test_cluster_metadata import cluster, topic

LED = PartitionMetadata(ReplicaAssignment((1, 2), (2,), ()), 5, (1,))
NEVER_LED = PartitionMetadata(ReplicaAssignment((1,)))
WHOLE = cluster(
    topics={
        "t": topic(partitions={0: LED, 1: NEVER_LED}, configs={"retention.ms": "5"}),
        "old": topic(topic_id=None),
    },
    broker_configs={"1": {"log.retention.ms": "7"}, "<default>": {"a": "b"}},
    next_producer_id=3_500,
)


async def tree(session: Session, path: str = "/") -> dict[str, bytes]:
    """All znodes of the cluster."""
    found = {}
    for name in await session.children(path):
        child = f"{path.rstrip('/')}/{name}"
        if child != "/zookeeper":
            found[child] = (await session.get(child))[0]
            found |= await tree(session, child)
    return found


async def test_written_metadata_is_read_unchanged(connect: Connect) -> None:
    session = (await connect()).session
    assert await read_metadata(session) is None
    assert await write_metadata(session, WHOLE) == Imported(created=2, changed=0, unchanged=0)
    assert await read_metadata(session) == WHOLE
    data, _ = await session.get("/brokers/topics/t/partitions/0/state")
    # The epoch without a leader; the next leader begins the epoch after it.
    assert PartitionState.decode(data) == PartitionState(-1, 5, (1,), 0)
    data, _ = await session.get(znodes.PRODUCER_ID_BLOCK)
    assert ProducerIdBlock.decode(data) == ProducerIdBlock(-1, 2_500, 3_499)


async def test_writing_metadata_again_changes_nothing(connect: Connect) -> None:
    session = (await connect()).session
    await write_metadata(session, WHOLE)
    before = (await session.create("/before")).stat
    assert await write_metadata(session, WHOLE) == Imported(created=0, changed=0, unchanged=2)
    after = (await session.create("/after")).stat
    assert before is not None
    assert after is not None
    assert after.czxid == before.czxid + 1


async def test_later_changes_by_a_broker_stay(connect: Connect) -> None:
    session = (await connect()).session
    await write_metadata(session, WHOLE)
    state = PartitionState(1, 9, (1, 2), 4).encode()
    await session.set("/brokers/topics/t/partitions/0/state", state)
    await session.set(znodes.PRODUCER_ID_BLOCK, ProducerIdBlock(1, 9_000, 9_999).encode())
    before = await tree(session)
    await write_metadata(session, WHOLE)
    assert await tree(session) == before


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        (cluster(cluster_id="another"), "this is metadata of cluster another, but the store has c"),
        (cluster(topics={"new": topic(), "t": topic(topic_id=b"1" * 16)}), "topic t exists with the id"),
        (cluster(topics={"new": topic()}, broker_configs={"1": {}, "<default>": {}}), r"other configs.*and 1 more"),
    ],
)
async def test_a_refused_import_changes_nothing(connect: Connect, wanted: ClusterMetadata, fault: str) -> None:
    session = (await connect()).session
    await write_metadata(session, WHOLE)
    before = await tree(session)
    with pytest.raises(MetadataError, match=fault):
        await write_metadata(session, wanted)
    assert await tree(session) == before


async def test_conflicts_are_overwritten_on_request(connect: Connect) -> None:
    session = (await connect()).session
    await write_metadata(session, WHOLE)
    moved = topic((3,), 3, configs={"new": "1"})
    wanted = cluster(topics={"t": moved}, broker_configs={"1": {}})
    assert await write_metadata(session, wanted, overwrite=True) == Imported(created=0, changed=1, unchanged=0)
    found = await read_metadata(session)
    assert found is not None
    assert found.topics["t"].assignments == moved.assignments
    assert found.topics["t"].configs == {"new": "1"}
    assert found.topics["t"].partitions[0].leader_epoch == 5
    assert found.topics["t"].partitions[2].leader_epoch == 3
    assert found.broker_configs == {"1": {}, "<default>": {"a": "b"}}
    assert found.next_producer_id == 3_500


async def test_unknown_configs_leave_existing_configs(connect: Connect) -> None:
    session = (await connect()).session
    await write_metadata(session, WHOLE)
    unknown = WHOLE.topics["t"]._replace(configs=None)
    await write_metadata(session, WHOLE._replace(topics={"t": unknown, "new": unknown}))
    found = await read_metadata(session)
    assert found is not None
    assert (found.topics["t"].configs, found.topics["new"].configs) == ({"retention.ms": "5"}, {})


async def test_an_import_is_refused_while_a_broker_runs(connect: Connect) -> None:
    session = (await connect()).session
    await prepare_tree(session, "c")
    await register_broker(session, BrokerInfo(3, (Endpoint("PLAINTEXT", "h", 9092),)), 0)
    with pytest.raises(MetadataError, match="brokers are running on this store: 3"):
        await write_metadata(session, WHOLE)


async def test_topics_that_are_being_deleted_are_left_out(connect: Connect) -> None:
    session = (await connect()).session
    await write_metadata(session, WHOLE)
    await session.create(znodes.delete_topic_path("t"))
    found = await read_metadata(session)
    assert found is not None
    assert set(found.topics) == {"old"}
    with pytest.raises(MetadataError, match="the store is deleting topics: t"):
        await write_metadata(session, WHOLE)


async def test_a_malformed_znode_is_named(connect: Connect) -> None:
    session = (await connect()).session
    await write_metadata(session, WHOLE)
    await session.set("/brokers/topics/t", b"?")
    with pytest.raises(MetadataError, match="/brokers/topics/t: not JSON"):
        await read_metadata(session)


class Failing(ChangesByMulti):
    """A session that fails after a number of transactions."""

    def __init__(self, session: Session, left: int) -> None:
        self.session = session
        self.left = left

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    async def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> Any:
        outcomes: list[Any] = []
        for each in transactions:
            self.left -= 1
            if self.left < 0:
                outcomes.append(StoreFailedError("cut off"))
            else:
                outcomes += await self.session.multi_all([each])
        return outcomes


async def test_an_interrupted_import_is_completed_by_a_second_one(connect: Connect) -> None:
    partitions = dict.fromkeys(range(700), LED)
    wide = WHOLE._replace(topics={**WHOLE.topics, "wide": topic(partitions=partitions)})
    session = (await connect()).session
    cuts = 0
    for done in range(0, 40, 3):
        failing: Any = Failing(session, done)
        try:
            await write_metadata(failing, wide)
        except StoreError:
            cuts += 1
    assert cuts > 1
    await write_metadata(session, wide)
    assert await read_metadata(session) == wide


async def test_assignments_of_old_versions_are_read(connect: Connect) -> None:
    session = (await connect()).session
    await write_metadata(session, WHOLE)
    old = TopicAssignment(None, {0: ReplicaAssignment((4,))}).encode().replace(b'"version":3', b'"version":1')
    await session.create("/brokers/topics/ancient", old)
    found = await read_metadata(session)
    assert found is not None
    assert found.topics["ancient"] == topic(topic_id=None, partitions={0: PartitionMetadata(ReplicaAssignment((4,)))})
