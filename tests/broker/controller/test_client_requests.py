import pytest
import trio
import trio.testing

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.controller.client_requests import ElectLeaders, TopicWaits
from ottla.broker.loop.clock import Clock
from ottla.wire.errors import ErrorCode, KafkaError
from tests.broker.controller.contexts import P


@pytest.mark.parametrize("timeout_ms", [-1, 0, 1000])
async def test_an_election_that_is_not_in_the_metadata_times_out(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, timeout_ms: int
) -> None:
    clock = Clock()
    nursery.start_soon(clock.run)
    waits = TopicWaits(clock, MetadataCache())
    request = ElectLeaders(waits, {P}, timeout_ms, unclean=False)
    request.elected({P: 1})
    request.end(KafkaError(ErrorCode.NOT_CONTROLLER))
    if timeout_ms > 0:
        await trio.sleep(0.9)
        waits.metadata_changed(["t"])
        assert not request.reply.done
        await trio.sleep(0.2)
    (late,) = request.reply.response.values()
    assert isinstance(late, KafkaError)
    assert late.code is ErrorCode.REQUEST_TIMED_OUT
