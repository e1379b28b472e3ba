from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.broker.support.hosted import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    house.lead(partitions=[0, 1])
    yield house
    house.close()


@pytest.fixture
async def running(house: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> House:
    nursery.start_soon(house.clock.run)
    return house
