"""The promises of every store, for the embedded one and a real ZooKeeper."""

import pytest

from ottla.zk.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    EventType,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SetData,
    WatchEvent,
)
from tests.zk.stores import Connect


async def test_a_znode_is_read_as_it_was_created(connect: Connect) -> None:
    session = (await connect()).session
    result = await session.create("/a", b"x")
    data, stat = await session.get("/a")
    assert data == b"x"
    assert result == ("/a", stat)
    assert (stat.version, stat.cversion, stat.num_children, stat.data_length) == (0, 0, 0, 1)
    assert stat.czxid == stat.mzxid == stat.pzxid
    assert stat.ctime == stat.mtime > 0


async def test_a_change_to_another_version_is_refused(connect: Connect) -> None:
    session = (await connect()).session
    await session.create("/a")
    await session.set("/a", b"1", 0)
    with pytest.raises(BadVersionError):
        await session.set("/a", b"2", 0)
    with pytest.raises(BadVersionError):
        await session.delete("/a", 0)
    assert (await session.get("/a"))[0] == b"1"


async def test_a_missing_znode_is_not_read_changed_or_deleted(connect: Connect) -> None:
    session = (await connect()).session
    for operation in (
        session.get("/a"),
        session.children("/a"),
        session.set("/a", b""),
        session.delete("/a"),
        session.create("/a/b"),
    ):
        with pytest.raises(NoNodeError):
            await operation
    assert await session.exists("/a") is None
    assert await session.get_many(["/a", "/"]) == [None, await session.get("/")]


async def test_a_znode_with_children_is_not_deleted(connect: Connect) -> None:
    session = (await connect()).session
    await session.create("/a")
    await session.create("/a/b")
    with pytest.raises(NotEmptyError):
        await session.delete("/a")


async def test_sequence_numbers_grow_even_when_znodes_are_deleted(connect: Connect) -> None:
    session = (await connect()).session
    await session.create("/a")
    first = await session.create("/a/n-", sequential=True)
    await session.delete(first.path)
    second = await session.create("/a/n-", sequential=True)
    assert (first.path, second.path) == ("/a/n-0000000000", "/a/n-0000000001")


async def test_a_transaction_is_done_wholly_or_not_at_all(connect: Connect) -> None:
    session = (await connect()).session
    await session.create("/fence")
    with pytest.raises(BadVersionError) as caught:
        await session.multi([Create("/a"), SetData("/fence", b"x"), Check("/fence", 7), Create("/b")])
    assert caught.value.operation == 2
    assert await session.exists("/a") is None
    assert (await session.get("/fence"))[1].version == 0
    results = await session.multi(
        [Check("/fence", 0), Create("/a"), Create("/a/b"), SetData("/a", b"1"), Delete("/fence")]
    )
    assert [result.path for result in results] == ["/fence", "/a", "/a/b", "/a", "/fence"]
    assert (await session.get("/a"))[1].version == 1


async def test_transactions_done_together_fail_independently(connect: Connect) -> None:
    session = (await connect()).session
    outcomes = await session.multi_all(
        [[Create("/a")], [Create("/a")], [Create("/a/b"), Check("/a", 1)], [Create("/c")]]
    )
    assert [type(outcome) for outcome in outcomes] == [list, NodeExistsError, BadVersionError, list]
    assert sorted(await session.children("/")) == ["a", "c"]


async def test_an_ephemeral_znode_ends_with_its_session(connect: Connect) -> None:
    one, other = await connect(), await connect()
    await one.session.create("/e", b"", ephemeral=True)
    stat = await other.session.exists("/e", watch=True)
    assert stat is not None
    assert stat.ephemeral_owner == one.session.session_id
    await one.session.close()
    assert await other.session.exists("/e") is None
    assert other.events == [WatchEvent(EventType.DELETED, "/e")]
    with pytest.raises(SessionExpiredError):
        await one.session.get("/")
    with pytest.raises(SessionExpiredError):
        await one.session.create("/x")


async def test_a_watch_fires_once_and_for_its_own_session(connect: Connect) -> None:
    one, other = await connect(), await connect()
    await one.session.create("/a")
    await one.session.get("/a", watch=True)
    await other.session.set("/a", b"1")
    await other.session.set("/a", b"2")
    assert (await one.session.get("/a"))[0] == b"2"
    assert one.events == [WatchEvent(EventType.CHANGED, "/a")]
    assert other.events == []


async def test_a_watch_for_children_sees_them_come_and_go_but_not_change(connect: Connect) -> None:
    client = await connect()
    await client.session.create("/a")
    await client.session.children("/a", watch=True)
    await client.session.set("/a", b"x")
    assert client.events == []
    await client.session.create("/a/b")
    await client.session.children("/a", watch=True)
    await client.session.set("/a/b", b"x")
    await client.session.delete("/a/b")
    assert client.events == [WatchEvent(EventType.CHILD, "/a")] * 2


async def test_a_deleted_znode_is_one_event_for_a_session_that_watches_it_and_its_children(connect: Connect) -> None:
    client = await connect()
    await client.session.create("/a")
    await client.session.children("/a", watch=True)
    await client.session.get("/a", watch=True)
    await client.session.delete("/a")
    assert client.events == [WatchEvent(EventType.DELETED, "/a")]


async def test_a_watch_for_a_missing_znode_sees_it_come(connect: Connect) -> None:
    client = await connect()
    await client.session.exists("/a", watch=True)
    with pytest.raises(NoNodeError):
        await client.session.get("/b", watch=True)
    await client.session.create("/b")
    await client.session.create("/a")
    assert client.events == [WatchEvent(EventType.CREATED, "/a")]


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a/../b", "/.", "/a\0b"])
async def test_an_invalid_path_is_refused(connect: Connect, path: str) -> None:
    session = (await connect()).session
    with pytest.raises(ValueError, match="not the path"):
        await session.create(path)
    with pytest.raises(ValueError, match="not the path"):
        await session.get(path)
