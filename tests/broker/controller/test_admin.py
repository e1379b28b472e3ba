import pytest
import trio
import trio.testing

from ottla.broker.clock import Clock
from ottla.broker.controller.admin import ElectLeaders, ElectReply, TopicWaits
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.request_context import Deferred
from ottla.wire.errors import ErrorCode, KafkaError
from tests.broker.controller.contexts import P


@pytest.mark.parametrize("timeout_ms", [-1, 0, 1000])
async def test_an_election_that_nobody_hears_of_is_told_as_late(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, timeout_ms: int
) -> None:
    clock = Clock()
    nursery.start_soon(clock.run)
    reply: ElectReply = Deferred(applied=False)
    waits = TopicWaits(clock, MetadataCache())
    waits.wait_for_elected(ElectLeaders({P}, False, timeout_ms, reply), {P: 1})
    if timeout_ms > 0:
        await trio.sleep(0.9)
        waits.metadata_changed(["t"])
        assert not reply.done
        await trio.sleep(0.2)
    (late,) = reply.response.values()
    assert isinstance(late, KafkaError)
    assert late.code is ErrorCode.REQUEST_TIMED_OUT
