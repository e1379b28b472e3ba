import errno
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest
import trio

from ottla.zk.embedded import EmbeddedStore
from ottla.zk.journal import Journal, JournalFailedError, StoreInUseError
from ottla.zk.store import (
    Create,
    EventType,
    SetData,
    StoreFailedError,
    WatchEvent,
)
from tests.support.disks import fill, small_disk
from tests.zk.stores import Client, Outcome, inline, open_store

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    store = await open_store(tmp_path)
    yield store
    await store.close()


async def test_a_znode_has_the_time_of_the_clock(store: EmbeddedStore) -> None:
    stat = (await Client(store).session.create("/a")).stat
    assert stat is not None
    assert stat.ctime == stat.mtime == 1_000


async def test_persistent_znodes_survive_a_restart(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    session = Client(store).session
    await session.create("/a", b"x")
    await session.create("/a/b")
    await session.set("/a", b"y", 0)
    await session.create("/a/e", ephemeral=True)
    before = await session.get_many(["/a", "/a/b", "/"])
    await store.close()

    again = await open_store(tmp_path)
    session = Client(again).session
    assert await session.children("/a") == ["b"]
    assert before[0] is not None
    # The ephemeral child leaves no trace.
    assert (before[0][1].num_children, before[0][1].cversion) == (2, 2)
    parent = (b"y", before[0][1]._replace(num_children=1, cversion=3))
    assert await session.get_many(["/a", "/a/b", "/"]) == [parent, *before[1:]]
    created = await session.create("/later")
    assert created.stat is not None
    assert created.stat.czxid > before[0][1].pzxid
    await again.close()


class HeldDisk:
    """An offload whose calls a test can hold."""

    def __init__(self) -> None:
        self.is_held = False
        self.calls = 0
        self._let = trio.Event()

    async def __call__(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        self.calls += 1
        if self.is_held:
            await self._let.wait()
        return await inline(function, *args)

    def let(self) -> None:
        self._let.set()


async def test_no_session_sees_a_change_before_it_is_on_disk(tmp_path: Path) -> None:
    disk = HeldDisk()
    store = EmbeddedStore(tmp_path / "store.db", disk)
    await store.open()
    client = Client(store)
    await client.session.exists("/a", watch=True)
    disk.is_held = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.session.create, "/a")
        await trio.testing.wait_all_tasks_blocked()
        assert await client.session.exists("/a") is None
        assert client.events == []
        disk.let()
    assert client.events == [WatchEvent(EventType.CREATED, "/a")]
    await store.close()


async def test_changes_that_come_while_the_disk_is_busy_are_written_together(tmp_path: Path) -> None:
    disk = HeldDisk()
    store = EmbeddedStore(tmp_path / "store.db", disk)
    await store.open()
    session = Client(store).session
    disk.is_held = True
    before = disk.calls
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(session.create, f"/{number}")
        await trio.testing.wait_all_tasks_blocked()
        disk.let()
    assert len(await session.children("/")) == 50
    assert disk.calls - before <= 2
    await store.close()


async def test_a_change_that_is_cancelled_while_it_is_written_is_not_half_done(tmp_path: Path) -> None:
    disk = HeldDisk()
    store = EmbeddedStore(tmp_path / "store.db", disk)
    await store.open()
    session = Client(store).session
    disk.is_held = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.create, "/a")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        disk.let()
    assert await session.exists("/a") is not None
    await session.create("/a/b")
    await store.close()


async def test_a_store_with_a_full_disk_fails_and_the_next_one_has_every_answered_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path, 1 << 20) as disk:
        store = await open_store(disk)
        client = Client(store)
        await client.session.create("/answered")
        ballast = fill(disk, 0)
        with pytest.raises(JournalFailedError, match=r"store\.db cannot be written: database or disk is full"):
            await client.session.create("/refused", b"x" * 8192)
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        ballast.unlink()
        # Only the next `open` shows the content of the disk.
        with pytest.raises(JournalFailedError):
            await client.session.create("/later")
        assert await client.session.children("/") == ["answered"]
        with pytest.raises(JournalFailedError):
            await store.run()
        assert len(caplog.records) == 1
        await store.close()
        again = await open_store(disk)
        assert await Client(again).session.children("/") == ["answered"]
        await Client(again).session.create("/later")
        await again.close()


async def test_all_changes_of_a_failed_write_raise_its_error(tmp_path: Path) -> None:
    with small_disk(tmp_path, 1 << 20) as disk_path:
        disk = HeldDisk()
        store = EmbeddedStore(disk_path / "store.db", disk)
        await store.open()
        fill(disk_path, 0)
        outcomes = [Outcome() for _ in range(3)]
        running = Outcome()
        disk.is_held = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.of, store.run)
            for number, outcome in enumerate(outcomes):
                session = Client(store).session
                nursery.start_soon(outcome.of, partial(session.create, f"/{number}", b"x" * 8192))
            await trio.testing.wait_all_tasks_blocked()
            disk.let()
        assert isinstance(running.value, JournalFailedError)
        assert [each.value for each in outcomes] == [running.value] * 3
        await store.close()


async def test_a_copy_of_the_database_file_alone_holds_changes_before_the_checkpoint(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    store = await open_store(tmp_path)
    (copies := tmp_path / "copies").mkdir()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        for number in range(3):
            await Client(store).session.create(f"/{number}", b"x" * 10_000)
            await trio.sleep(5)
            (copies / "store.db").write_bytes((tmp_path / "store.db").read_bytes())
            copy = await open_store(copies)
            assert await Client(copy).session.children("/") == [str(each) for each in range(number + 1)]
            await copy.close()
        nursery.cancel_scope.cancel()
    await store.close()


async def test_a_store_in_use_by_another_process_is_refused(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    with pytest.raises(StoreInUseError):
        await open_store(tmp_path)
    await store.close()
    await (await open_store(tmp_path)).close()


def test_a_journal_that_failed_to_open_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken_disk:
        broken_disk.setattr(os, "fsync", fail)
        # The error stays referenced until the end of the test, so that no collector closes what it refers to.
        with pytest.raises(OSError, match="Input/output error") as failure:
            Journal(tmp_path / "store.db").open()
    again = Journal(tmp_path / "store.db")
    assert again.open().nodes.keys() == {"/"}
    again.close()
    assert failure.value.errno == errno.EIO


async def test_a_file_that_is_not_a_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreFailedError):
        await open_store(tmp_path)


WRITER = """
import sys, trio
from pathlib import Path
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.store import Create, SetData

async def main():
    store = EmbeddedStore(Path(sys.argv[1]), trio.to_thread.run_sync)
    await store.open()
    session = store.session(lambda event: None)
    if await session.exists("/count") is None:
        await session.create("/count", b"0")
    count = int((await session.get("/count"))[0])
    while True:
        count += 1
        await session.multi([Create(f"/n{count}"), SetData("/count", b"%d" % count), Create(f"/n{count}/child")])
        sys.stdout.write(f"{count}\\n")
        sys.stdout.flush()

trio.run(main)
"""


@pytest.mark.trials(few=3, soak=10)
@pytest.mark.once
async def test_answered_changes_survive_a_kill_and_no_change_is_half_done(tmp_path: Path, trials: int) -> None:
    path = tmp_path / "store.db"
    answered = 0
    for trial in range(trials):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=Path.cwd())
        assert writer.stdout is not None
        # The kill comes after a number of answers, at any point of the next change.
        for _ in range(1 + trial * 7 % 40):
            answered = int(writer.stdout.readline())
        writer.kill()
        rest = writer.stdout.read().split(b"\n")[:-1]
        writer.wait()
        writer.stdout.close()
        answered = int(rest[-1]) if rest else answered
        store = await open_store(tmp_path)
        session = Client(store).session
        count = int((await session.get("/count"))[0])
        assert answered <= count <= answered + 1
        names = {name for name in await session.children("/") if name != "count"}
        assert names == {f"n{number}" for number in range(1, count + 1)}
        assert all(znode is not None for znode in await session.get_many([f"/{name}/child" for name in names]))
        await store.close()


async def test_a_journal_cut_at_any_byte_holds_the_changes_up_to_some_moment(tmp_path: Path, seed: int) -> None:
    """A power cut may leave only a part of the written bytes."""
    store = await open_store(tmp_path)
    session = Client(store).session
    await session.create("/a", b"0")
    for number in range(1, 30):
        await session.multi([SetData("/a", b"%d" % number), Create(f"/n{number}")])
    database = (tmp_path / "store.db").read_bytes()
    journal = (tmp_path / "store.db-wal").read_bytes()
    await store.close()
    seen = set()
    for step in range(40):
        length = (seed + step * len(journal) // 40) % (len(journal) + 1)
        directory = tmp_path / f"cut{step}"
        directory.mkdir()
        (directory / "store.db").write_bytes(database)
        (directory / "store.db-wal").write_bytes(journal[:length])
        cut = await open_store(directory)
        names = await Client(cut).session.children("/")
        if "a" in names:
            number = int((await Client(cut).session.get("/a"))[0])
            assert sorted(names) == sorted(["a", *(f"n{each}" for each in range(1, number + 1))])
            seen.add(number)
        else:
            assert names == []
        await cut.close()
    assert len(seen) > 5


async def test_a_store_that_was_closed_is_one_file(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    await Client(store).session.create("/a")
    await store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]
