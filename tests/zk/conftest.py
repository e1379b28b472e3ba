"""Fixtures: both kinds of stores, a ZooKeeper, and sessions with it, directly or over a proxy that can be cut."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from compat_tests.support.zookeeper import ZooKeeper, running
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.ensemble import EnsembleStore
from tests.zk.proxy import Proxy, proxy_to
from tests.zk.stores import PATIENCE_S, Client, Connect, begin, inline

# Longer than a client needs to come back over a proxy that heals at once.
SESSION_TIMEOUT_MS = 4_000
BRIEF_SESSION_MS = 600

_chroots = itertools.count()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Run one server for the tests of a module, with short sessions allowed."""
    settings = ["tickTime=200", "minSessionTimeout=200", "maxSessionTimeout=60000"]
    with running(tmp_path_factory.mktemp("zookeeper"), settings) as server:
        yield server


@pytest.fixture
def chroot() -> str:
    """A new chroot for each test."""
    return f"/ensemble{next(_chroots)}"


@pytest.fixture
async def proxy(zookeeper: ZooKeeper) -> AsyncIterator[Proxy]:
    """A proxy to the server that can be cut."""
    async with proxy_to(zookeeper.port) as proxy:
        yield proxy


@pytest.fixture
async def direct(zookeeper: ZooKeeper, chroot: str) -> AsyncIterator[Client]:
    """A session without the proxy."""
    store = EnsembleStore(zookeeper.connect + chroot)
    await store.open()
    yield await begin(store)
    await store.close()


@pytest.fixture
async def frail(direct: Client, proxy: Proxy, chroot: str) -> AsyncIterator[Client]:
    """A session over the proxy, to the same tree."""
    store = EnsembleStore(proxy.connect + chroot, session_timeout_ms=SESSION_TIMEOUT_MS)
    with trio.fail_after(PATIENCE_S):
        yield await begin(store)
    proxy.heal()
    await store.close()


@pytest.fixture
async def brief(direct: Client, proxy: Proxy, chroot: str) -> AsyncIterator[Client]:
    """A session over the proxy that expires soon."""
    store = EnsembleStore(proxy.connect + chroot, session_timeout_ms=BRIEF_SESSION_MS)
    yield await begin(store)
    proxy.heal()
    await store.close()


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> EmbeddedStore | EnsembleStore:
    """Each kind of store, not open yet."""
    if request.param == "embedded":
        return EmbeddedStore(tmp_path / "store.db", inline)
    # A new chroot for each test.
    return EnsembleStore(f"{request.getfixturevalue('zookeeper').connect}/of/test{next(_chroots)}")


@pytest.fixture
async def connect(store: EmbeddedStore | EnsembleStore) -> AsyncIterator[Connect]:
    """Begins sessions of one store."""
    await store.open()
    yield lambda: begin(store)
    await store.close()
