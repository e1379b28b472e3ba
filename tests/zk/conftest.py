"""The ZooKeeper of these tests."""

from collections.abc import Iterator

import pytest

from compat_tests.zookeeper import ZooKeeper, running


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Run one server for the tests of a module, with short sessions allowed."""
    with running(tmp_path_factory.mktemp("zookeeper"), ["tickTime=200", "minSessionTimeout=200"]) as server:
        yield server
