"""The start of a broker that comes to nothing: it leaves everything as it was."""

import os
import socket
from pathlib import Path

import pytest
import trio

from ottla.broker.node import STORE_FILE, AddressInUse, Node
from ottla.log.state.meta_properties import DirectoryInUse, DirectoryLocks
from ottla.zk.store import OnEvent, Session, StoreFailedError
from tests.broker.support.client import client
from tests.broker.test_node import config, create, running


async def test_a_port_that_is_taken_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = config(tmp_path / "data", listeners=f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(AddressInUse):
            await Node(settings).run(lambda bootstrap: None)
    assert not (tmp_path / "data").exists()


async def test_a_broker_that_waits_for_its_store_stops_at_once(tmp_path: Path) -> None:
    asked, served = trio.Event(), list[str]()

    async def begin(on_event: OnEvent) -> Session:
        asked.set()
        await trio.sleep_forever()

    node = Node(config(tmp_path), begin=begin)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run, served.append)
            await asked.wait()
            node.stop()
    assert served == []
    DirectoryLocks([tmp_path]).release()


async def test_a_directory_that_is_in_use_is_refused_and_its_broker_goes_on(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        with pytest.raises(DirectoryInUse):
            await Node(config(tmp_path)).run(lambda bootstrap: None)
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
        await create(one, "t")


async def test_a_start_that_failed_leaves_the_directory_to_the_next(tmp_path: Path) -> None:
    (tmp_path / STORE_FILE).write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreFailedError):
        await Node(config(tmp_path)).run(lambda bootstrap: None)
    (tmp_path / STORE_FILE).unlink()
    async with running(config(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
