import pytest
import trio

from ottla.zk import znodes
from ottla.zk.bootstrap import BrokerIdInUseError, generate_broker_id, prepare_tree, register_broker
from ottla.zk.strict_json import ZnodeError
from ottla.zk.znodes import BrokerInfo, Endpoint
from tests.zk.stores import Connect

INFO = BrokerInfo(3, (Endpoint("PLAINTEXT", "h", 9092),))


async def test_the_persistent_paths_are_kafkas(connect: Connect) -> None:
    session = (await connect()).session
    assert await prepare_tree(session, "the-id") == "the-id"
    assert await session.children("/") == [
        "admin",
        "brokers",
        "cluster",
        "config",
        "consumers",
        "isr_change_notification",
        "latest_producer_id_block",
        "log_dir_event_notification",
    ]
    assert await session.children("/brokers") == ["ids", "seqid", "topics"]
    assert await session.children("/config") == ["brokers", "changes", "clients", "ips", "topics", "users"]


async def test_a_cluster_keeps_its_id(connect: Connect) -> None:
    session = (await connect()).session
    await prepare_tree(session, "first")
    before = (await session.create("/before")).stat
    assert await prepare_tree(session, "second") == "first"
    after = (await session.create("/after")).stat
    # Nothing was written, so that a restart is fast.
    assert before is not None
    assert after is not None
    assert after.czxid == before.czxid + 1


async def test_brokers_that_start_together_agree_on_the_cluster_id(connect: Connect) -> None:
    found: list[str] = []

    async def prepare(proposed: str) -> None:
        found.append(await prepare_tree((await connect()).session, proposed))

    async with trio.open_nursery() as nursery:
        for proposed in "abc":
            nursery.start_soon(prepare, proposed)
    assert len(set(found)) == 1


async def test_missing_persistent_paths_are_created(connect: Connect) -> None:
    session = (await connect()).session
    await prepare_tree(session, "id")
    await session.delete("/admin/delete_topics")
    await prepare_tree(session, "id")
    assert await session.exists("/admin/delete_topics") is not None


async def test_generated_broker_ids_are_above_the_reserved_ones_and_unique(
    connect: Connect,
) -> None:
    session = (await connect()).session
    await prepare_tree(session, "id")
    assert [await generate_broker_id(session, 1000) for _ in range(3)] == [1001, 1002, 1003]


async def test_a_registration_lasts_as_long_as_its_session_and_has_a_growing_epoch(connect: Connect) -> None:
    first, second = (await connect()).session, (await connect()).session
    await prepare_tree(first, "id")
    epoch = await register_broker(first, INFO, 5)
    data, stat = await first.get(znodes.broker_id_path(3))
    assert BrokerInfo.decode(3, data) == INFO
    assert (stat.czxid, stat.ephemeral_owner) == (epoch, first.session_id)
    assert await register_broker(first, INFO, 5) == epoch
    with pytest.raises(BrokerIdInUseError, match="broker id 3 is in use"):
        await register_broker(second, INFO, 5)
    await first.close()
    assert await register_broker(second, INFO, 5) > epoch


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", b'{"version":"1"}'])
async def test_a_cluster_whose_id_cannot_be_read_is_refused_by_name(connect: Connect, data: bytes) -> None:
    session = (await connect()).session
    await prepare_tree(session, "id")
    await session.set(znodes.CLUSTER_ID, data)
    with pytest.raises(ZnodeError, match="/cluster/id: "):
        await prepare_tree(session, "id")
