"""A ZooKeeper, and sessions with it: directly, or over a proxy that can be cut."""

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from compat_tests.zookeeper import ZooKeeper, running
from ottla.zk.ensemble import EnsembleStore
from tests.zk.proxy import Proxy, proxy_to
from tests.zk.stores import PATIENCE_S, Client, begin

# Longer than a client needs to come back over a proxy that heals at once.
SESSION_TIMEOUT_MS = 4_000
BRIEF_SESSION_MS = 600

_chroots = itertools.count()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Run one server for the tests of a module, with short sessions allowed."""
    with running(tmp_path_factory.mktemp("zookeeper"), ["tickTime=200", "minSessionTimeout=200"]) as server:
        yield server


@pytest.fixture
def chroot() -> str:
    """A tree of its own for each test."""
    return f"/ensemble{next(_chroots)}"


@pytest.fixture
async def proxy(zookeeper: ZooKeeper) -> AsyncIterator[Proxy]:
    """The way to the server that can be cut."""
    async with proxy_to(zookeeper.port) as proxy:
        yield proxy


@pytest.fixture
async def direct(zookeeper: ZooKeeper, chroot: str) -> AsyncIterator[Client]:
    """A session that nothing happens to."""
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
