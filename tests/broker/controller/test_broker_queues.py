from collections.abc import Callable

import pytest
import trio
import trio.testing

from ottla.broker.controller.broker_queues import BrokerQueues, LocalPeer, Peer
from ottla.broker.controller.request_batch import ControlRequest
from ottla.broker.loop.deferred import Deferred
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.wire.schema import Response
from tests.broker.controller.cluster import settle


def update(epoch: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(controller_id=0, controller_epoch=epoch, live_brokers=())


class Far:
    """A broker that responds when the test allows it."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.is_up = True
        self.is_closed = False
        self.may_answer = trio.Event()
        self.may_answer.set()

    async def send(self, request: ControlRequest) -> Response:
        if not self.is_up:
            raise ConnectionRefusedError
        self.received.append(request.controller_epoch)
        await self.may_answer.wait()
        return UpdateMetadataResponse(error_code=0)

    async def close(self) -> None:
        self.is_closed = True


class Answers:
    def __init__(self) -> None:
        self.got: list[tuple[int, int]] = []

    def __call__(self, broker_id: int, request: ControlRequest, response: Response) -> None:
        self.got.append((broker_id, request.controller_epoch))


def queues_for(nursery: trio.Nursery, peer: Callable[[int], Peer], answers: Answers) -> BrokerQueues:
    queues = BrokerQueues(nursery, peer, answers)
    queues.add(1)
    return queues


async def test_a_broker_gets_one_request_at_a_time_in_order(nursery: trio.Nursery) -> None:
    far, answers = Far(), Answers()
    far.may_answer = trio.Event()
    queues = queues_for(nursery, lambda _: far, answers)
    for epoch in range(3):
        queues.send(1, update(epoch))
    await settle()
    assert far.received == [0]
    far.may_answer.set()
    await queues.flush(1)
    assert far.received == [0, 1, 2]
    assert answers.got == [(1, 0), (1, 1), (1, 2)]


async def test_a_request_to_an_unreachable_broker_is_sent_again(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    far, answers = Far(), Answers()
    far.is_up = False
    queues = queues_for(nursery, lambda _: far, answers)
    queues.send(1, update(4))
    await trio.sleep(1)
    assert answers.got == []
    far.is_up = True
    with trio.fail_after(1):
        await queues.flush(1)
    assert far.received == [4]


async def test_a_removed_broker_gets_no_queued_request_and_its_flush_ends(nursery: trio.Nursery) -> None:
    far, answers = Far(), Answers()
    far.may_answer = trio.Event()
    queues = queues_for(nursery, lambda _: far, answers)
    queues.send(1, update(0))
    queues.send(1, update(1))
    nursery.start_soon(queues.flush, 1)
    await settle()
    queues.remove(1)
    far.may_answer.set()
    await settle()
    assert far.received == [0]
    assert answers.got == []
    assert far.is_closed
    queues.send(1, update(2))
    await queues.flush(1)
    assert far.received == [0]


async def test_a_request_that_fails_at_a_broker_does_not_delay_the_next(nursery: trio.Nursery) -> None:
    def fail(request: StopReplicaRequest) -> Response:
        raise ZeroDivisionError

    peer = LocalPeer({StopReplicaRequest: fail, UpdateMetadataRequest: lambda _: UpdateMetadataResponse(error_code=0)})
    answers = Answers()
    queues = queues_for(nursery, lambda _: peer, answers)
    queues.send(1, StopReplicaRequest(controller_id=0, controller_epoch=1))
    queues.send(1, update(2))
    await queues.flush(1)
    assert answers.got == [(1, 2)]


@pytest.mark.parametrize("is_deferred", [False, True])
async def test_the_local_broker_may_respond_now_or_later(nursery: trio.Nursery, is_deferred: bool) -> None:
    response = StopReplicaResponse(error_code=0, partition_errors=())
    later: Deferred[StopReplicaResponse] = Deferred(applied=False)
    peer = LocalPeer({StopReplicaRequest: lambda _: later if is_deferred else response})
    got: list[Response] = []

    async def ask() -> None:
        got.append(await peer.send(StopReplicaRequest(controller_id=0, controller_epoch=1)))

    nursery.start_soon(ask)
    await settle()
    assert got == ([] if is_deferred else [response])
    later.complete(response)
    await settle()
    assert got == [response]
