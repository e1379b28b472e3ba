"""Replies are sent in request order, no client delays another, and a connection ends without losing owed replies."""

import itertools
import struct
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from ottla.broker.loop.deferred import CloseConnection
from ottla.broker.net.buffers import MAX_FREE_BUFFERS, RequestMemory
from ottla.broker.net.connection import MAX_OWED, MAX_OWED_BYTES, Connection
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import Operation, ResourceType
from ottla.broker.requests.dispatch import Api
from ottla.broker.requests.table import Row
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import encode_request
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.broker.support.toy import MAX_FRAME, Toy, ToyClient, ToyServer, frames, said

settled = trio.testing.wait_all_tasks_blocked


class Fixture:
    """A toy, its server, and a client with its connection."""

    def __init__(
        self,
        nursery: trio.Nursery,
        memory: RequestMemory | None = None,
        others: Sequence[Api] = (),
        **options: float,
    ) -> None:
        self.toy = Toy()
        self.server = ToyServer(nursery, self.toy.apis(*others), memory)
        self.client, self.connection = self.connect(**options)

    def connect(self, **options: float) -> tuple[ToyClient, Connection]:
        return self.server.open(**options)


def pulse(_request: HeartbeatRequest, _context: RequestContext) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=0)


@pytest.fixture
def one(nursery: trio.Nursery) -> Fixture:
    return Fixture(nursery)


@pytest.mark.once
async def test_pipelined_requests_are_answered_in_their_order(one: Fixture) -> None:
    await one.client.send(*(f"say {i}" for i in range(100)))
    assert await one.client.replies(100) == [str(i) for i in range(100)]


async def test_a_request_that_arrives_byte_by_byte_is_answered(one: Fixture) -> None:
    for byte in frames("say slowly", "say again"):
        await one.client.stream.send_all(bytes([byte]))
        await settled()
    assert await one.client.replies(2) == ["slowly", "again"]


async def test_a_request_without_a_reply_is_followed_by_the_next(one: Fixture) -> None:
    await one.client.send("silent 1")
    one.client._read += 1
    await one.client.send("say 2")
    assert await one.client.reply() == "2"


async def test_requests_behind_an_applied_one_are_handled_and_their_replies_wait(one: Fixture) -> None:
    await one.client.send("applied a", "say b", "applied c", "say d")
    await settled()
    assert one.toy.handled == ["applied a", "say b", "applied c", "say d"]
    one.toy.complete("c")
    await settled()
    assert await one.client.has_nothing_to_read()
    one.toy.complete("a")
    assert await one.client.replies(4) == ["a", "b", "c", "d"]


async def test_a_pending_request_mutes_its_connection_until_its_reply_is_sent(one: Fixture) -> None:
    await one.client.send("pending a", "say b")
    await one.client.send("say c")
    await settled()
    assert one.toy.handled == ["pending a"]
    one.toy.complete("a")
    assert await one.client.replies(3) == ["a", "b", "c"]


async def test_a_pending_request_behind_an_applied_one_waits_for_both(one: Fixture) -> None:
    await one.client.send("applied a", "pending b", "say c")
    await settled()
    one.toy.complete("b")
    await settled()
    assert one.toy.handled == ["applied a", "pending b"]
    one.toy.complete("a")
    assert await one.client.replies(3) == ["a", "b", "c"]


async def test_repeatable_requests_are_handled_before_the_first_one_is_complete(nursery: trio.Nursery) -> None:
    # The turn has no end in time, because repeatable requests are handled in one turn.
    one = Fixture(nursery, turn_clock=lambda: 0.0)  # type: ignore[arg-type]
    await one.client.send("repeatable a", "repeatable b", "pending c", "say d")
    await settled()
    assert one.toy.handled == ["repeatable a", "repeatable b", "pending c"]
    one.toy.complete("c")
    one.toy.complete("b")
    await settled()
    assert await one.client.has_nothing_to_read()
    one.toy.complete("a")
    assert await one.client.replies(4) == ["a", "b", "c", "d"]


async def test_a_request_of_another_api_waits_for_a_repeatable_one(nursery: trio.Nursery) -> None:
    one = Fixture(nursery, others=[Api(Row(ApiKey.HEARTBEAT, "0", Operation.READ, ResourceType.GROUP), pulse)])
    other = encode_request(0, 2, "toy", HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    await one.client.stream.send_all(frames("repeatable a") + other + frames("say c", first=3))
    await settled()
    assert one.toy.handled == ["repeatable a"]
    assert await one.client.has_nothing_to_read()
    one.toy.complete("a")
    assert await one.client.frame()
    assert await one.client.frame() == struct.pack(">ih", 2, 0)
    await settled()
    assert one.toy.handled == ["repeatable a", "say c"]


async def test_repeatable_requests_count_for_max_owed(nursery: trio.Nursery) -> None:
    # The turn has no end in time.
    one = Fixture(nursery, turn_clock=lambda: 0.0)  # type: ignore[arg-type]
    await one.client.send(*(f"repeatable {i}" for i in range(MAX_OWED + 5)))
    await settled()
    assert len(one.toy.handled) == MAX_OWED
    for i in range(MAX_OWED + 5):
        await settled()
        one.toy.complete(str(i))
    assert await one.client.replies(MAX_OWED + 5) == [str(i) for i in range(MAX_OWED + 5)]


async def test_a_deferred_that_is_done_when_it_is_returned_is_an_ordinary_reply(one: Fixture) -> None:
    handle = one.toy.api.handler

    def done(request: FindCoordinatorRequest, context: object) -> object:
        deferred = handle(request, context)
        deferred.complete(said("at once"))
        return deferred

    one.toy.api.handler = done
    await one.client.send("pending a", "applied b")
    assert await one.client.replies(2) == ["at once", "at once"]


async def test_a_pending_request_may_turn_out_to_have_no_reply(one: Fixture) -> None:
    await one.client.send("pending a", "say b")
    await settled()
    one.toy.deferred["a"].complete(None)  # type: ignore[arg-type]
    one.client._read += 1
    assert await one.client.reply() == "b"


async def test_a_pending_request_may_end_in_closing_the_connection(one: Fixture) -> None:
    await one.client.send("say a", "applied b", "pending c", "say d")
    await settled()
    one.toy.deferred["c"].close(CloseConnection("acks=0 that failed"))
    await settled()
    one.toy.complete("b")
    assert await one.client.replies(3) == ["a", "b", None]
    assert one.toy.handled == ["say a", "applied b", "pending c"]


async def test_at_most_max_owed_replies_are_owed(one: Fixture) -> None:
    await one.client.send(*(f"applied {i}" for i in range(MAX_OWED + 5)))
    await settled()
    assert len(one.toy.handled) == MAX_OWED
    one.toy.complete("0")
    assert await one.client.reply() == "0"
    await settled()
    assert len(one.toy.handled) == MAX_OWED + 1
    for i in range(1, MAX_OWED + 5):
        await settled()
        one.toy.complete(str(i))
    assert await one.client.replies(MAX_OWED + 4) == [str(i) for i in range(1, MAX_OWED + 5)]


async def test_at_most_max_owed_bytes_are_owed(one: Fixture, nursery: trio.Nursery) -> None:
    size = MAX_OWED_BYTES // 40
    large = "x" * size
    # In a task, because the connection may stop reading before all is sent.
    nursery.start_soon(one.client.send, "applied a", *[f"say {large}"] * 60)
    await settled()
    assert len(one.toy.handled) == 1 + 40
    one.toy.complete("a")
    assert await one.client.replies(61) == ["a", *[large] * 60]


async def test_a_reply_completed_in_another_connection_s_turn_leaves_with_that_turn(
    one: Fixture, nursery: trio.Nursery
) -> None:
    """The reply is sent when the turn ends, not while the handler runs, and without a task or a timer."""
    other, _ = one.connect()
    await one.client.send("pending a")
    await settled()
    sent_during_the_turn: list[int] = []

    def act() -> None:
        one.toy.complete("a")
        sent_during_the_turn.append(one.connection._output.size)

    one.toy.actions["it"] = act
    await other.send("do it")
    assert await one.client.reply() == "a"
    assert await other.reply() == "it"
    assert sent_during_the_turn == [0]


async def test_a_request_may_complete_an_older_one_of_its_own_connection(one: Fixture) -> None:
    one.toy.actions["it"] = lambda: one.toy.complete("a")
    await one.client.send("applied a", "say b", "do it")
    assert await one.client.replies(3) == ["a", "b", "it"]


async def test_a_connection_that_floods_does_not_starve_another(nursery: trio.Nursery) -> None:
    """Each request of the flood costs half a millisecond of the turn's clock: two are handled a turn."""
    one = Fixture(nursery)
    time = itertools.count(step=0.0005)
    flood, _ = one.connect(turn_clock=lambda: next(time))  # type: ignore[arg-type]
    await flood.send(*(f"say {i}" for i in range(1000)))
    await one.client.send("say me too")
    assert await one.client.reply() == "me too"
    assert len(one.toy.handled) < 100
    assert await flood.replies(1000) == [str(i) for i in range(1000)]


async def test_a_flood_of_requests_without_replies_does_not_starve_another_either(nursery: trio.Nursery) -> None:
    """Only the wait at the beginning of each turn lets the other connection run."""
    one = Fixture(nursery)
    time = itertools.count(step=0.0005)
    flood, _ = one.connect(turn_clock=lambda: next(time))  # type: ignore[arg-type]
    await flood.send(*["silent"] * 1000)
    await one.client.send("say me too")
    assert await one.client.reply() == "me too"
    assert len(one.toy.handled) < 100


@pytest.mark.parametrize("size", [0, -1, -(2**31), MAX_FRAME + 1, 2**31 - 1])
async def test_a_frame_of_an_impossible_size_closes_after_the_replies_that_are_owed(one: Fixture, size: int) -> None:
    await one.client.send("applied a", "say b")
    await one.client.stream.send_all(struct.pack(">i", size) + b"whatever")
    await settled()
    one.toy.complete("a")
    assert await one.client.replies(3) == ["a", "b", None]


@pytest.mark.parametrize(
    "frame",
    [
        b"\0",
        b"\0\0\0",
        struct.pack(">hhih", 10, 0, 1, -1),
        struct.pack(">hhihh", 10, 0, 1, -1, 50) + b"short",
        struct.pack(">hhih", 10, 3, 1, -1) + b"\0\0\0\0",
        struct.pack(">hhih", 11, 0, 1, -1),
        struct.pack(">hhih", -1, 0, 1, -1),
        struct.pack(">hhih", 999, 0, 1, -1),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_a_frame_that_is_no_request_closes_after_the_replies_that_are_owed(one: Fixture, frame: bytes) -> None:
    await one.client.send("say a", "applied b")
    await one.client.stream.send_all(struct.pack(">i", len(frame)) + frame)
    await settled()
    one.toy.complete("b")
    assert await one.client.replies(3) == ["a", "b", None]


async def test_a_handler_may_close_the_connection(one: Fixture) -> None:
    await one.client.send("say a", "close", "say b")
    assert await one.client.replies(2) == ["a", None]
    assert one.toy.handled == ["say a", "close"]


async def test_a_client_that_has_ended_its_side_gets_its_owed_replies(one: Fixture) -> None:
    await one.client.send("applied a", "say b", "pending c")
    await one.client.stream.send_eof()  # type: ignore[attr-defined]
    await settled()
    one.toy.complete("a")
    assert await one.client.replies(2) == ["a", "b"]
    one.toy.complete("c")
    assert await one.client.replies(2) == ["c", None]


async def test_half_a_frame_at_the_end_of_the_stream_is_ignored(one: Fixture) -> None:
    await one.client.send("say a")
    await one.client.stream.send_all(frames("say b")[:-1])
    await one.client.stream.send_eof()  # type: ignore[attr-defined]
    assert await one.client.replies(2) == ["a", None]


async def test_deferred_replies_of_an_aborted_connection_are_abandoned(one: Fixture) -> None:
    await one.client.send("applied a", "say b", "pending c")
    await settled()
    one.connection.abort()
    assert await one.client.reply() is None
    assert one.toy.abandoned == ["a", "c"]
    one.toy.complete("a")
    await settled()


async def test_a_client_that_leaves_during_a_send_ends_only_its_connection(one: Fixture) -> None:
    other, _ = one.connect()
    await one.client.send("applied a", "applied b")
    await settled()
    await one.client.stream.aclose()
    one.toy.complete("a")
    await settled()
    assert one.toy.abandoned == ["b"]
    await other.send("say still here")
    assert await other.reply() == "still here"


async def test_stop_sends_applied_replies_and_drops_pending_ones(one: Fixture) -> None:
    await one.client.send("applied a", "say b", "pending c")
    await settled()
    one.connection.stop()
    await settled()
    assert one.toy.abandoned == ["c"]
    one.toy.complete("a")
    assert await one.client.replies(3) == ["a", "b", None]


async def test_replies_that_complete_just_before_the_stop_are_sent(one: Fixture) -> None:
    """Many connections, because the order of tasks is random."""
    clients = [one.connect() for _ in range(20)]
    for number, (client, _) in enumerate(clients):
        await client.send(f"pending {number}")
    await settled()
    for number, (_, connection) in enumerate(clients):
        one.toy.complete(str(number))
        connection.stop()
    assert [await client.replies(2) for client, _ in clients] == [[str(number), None] for number in range(20)]


async def test_stopping_a_connection_at_rest_closes_it(one: Fixture) -> None:
    await settled()
    one.connection.stop()
    assert await one.client.reply() is None


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    one = Fixture(nursery, idle_seconds=600)
    idle, _ = one.connect(idle_seconds=600)
    for _ in range(10):
        await trio.sleep(300)
        await one.client.send("silent")
    with trio.fail_after(1):
        assert await idle.reply() is None
    start = trio.current_time()
    assert await one.client.reply() is None
    assert trio.current_time() - start == 600


async def test_a_connection_with_half_a_frame_is_closed_as_idle(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    one = Fixture(nursery, idle_seconds=600)
    await one.client.stream.send_all(frames("say a")[:-1])
    with trio.fail_after(601):
        assert await one.client.reply() is None


async def test_a_kafka_error_and_a_bug_are_answered_by_the_error_response(
    one: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    await one.client.send("error", "bug", "say on")
    assert await one.client.replies(3) == ["error in error", "error in bug", "on"]
    assert "ZeroDivisionError" in caplog.text


async def test_a_reply_that_cannot_be_encoded_closes_the_connection(
    one: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    await one.client.send("applied a")
    await settled()
    one.toy.deferred["a"].complete(said(None))  # type: ignore[arg-type]
    assert await one.client.reply() is None
    assert "cannot be encoded" in caplog.text


async def test_a_connection_at_rest_holds_no_buffer(one: Fixture) -> None:
    others = [one.connect()[0] for _ in range(MAX_FREE_BUFFERS * 2)]
    for client in [one.client, *others]:
        await client.send("say x")
        assert await client.reply() == "x"
    await settled()
    assert one.connection._buffer is None
    assert len(one.server.buffers._free) == 1


async def test_a_large_frame_is_received_in_pieces(one: Fixture) -> None:
    key = "say " + "x" * 30_000
    await one.client.stream.send_all(encode_request(0, 1, "c" * 30_000, FindCoordinatorRequest(key=key)))
    assert await one.client.reply() == key[4:]
    assert one.toy.contexts[0].client_id == "c" * 30_000


async def test_while_the_memory_for_requests_is_in_use_no_other_request_is_read_to_its_end(
    nursery: trio.Nursery,
) -> None:
    one = Fixture(nursery, RequestMemory(1))
    second, third, small = one.connect()[0], one.connect()[0], one.connect()[0]
    first_frame, second_frame, third_frame = frames("say first"), frames("say second"), frames("say third")
    for client, frame in ((one.client, first_frame), (second, second_frame), (third, third_frame)):
        await client.stream.send_all(frame[:10])
        await settled()
    for client, frame in ((second, second_frame), (third, third_frame)):
        await client.stream.send_all(frame[10:])
    # A frame that comes whole needs no memory.
    await small.send("say small")
    assert await small.reply() == "small"
    await settled()
    assert one.toy.handled == ["say small"]
    await one.client.stream.send_all(first_frame[10:])
    assert [await client.reply() for client in (one.client, second, third)] == ["first", "second", "third"]


async def test_a_pending_request_keeps_its_memory_until_its_reply(nursery: trio.Nursery) -> None:
    one = Fixture(nursery, RequestMemory(1))
    other, _ = one.connect()
    for client, frame in ((one.client, frames("pending a")), (other, frames("say b"))):
        for piece in (frame[:10], frame[10:]):
            await client.stream.send_all(piece)
            await settled()
    assert one.toy.handled == ["pending a"]
    one.toy.complete("a")
    assert await one.client.reply() == "a"
    assert await other.reply() == "b"


async def test_a_client_that_leaves_returns_its_memory(nursery: trio.Nursery) -> None:
    one = Fixture(nursery, RequestMemory(1))
    other, _ = one.connect()
    await one.client.stream.send_all(frames("say a")[:10])
    await settled()
    for piece in (frames("say b")[:10], frames("say b")[10:]):
        await other.stream.send_all(piece)
        await settled()
    assert one.toy.handled == []
    await one.client.stream.aclose()
    assert await other.reply() == "b"


async def test_one_client_may_send_one_request_in_pieces_after_the_other(nursery: trio.Nursery) -> None:
    one = Fixture(nursery, RequestMemory(1))
    data = frames("say a", "say b", "say c")
    for start in range(0, len(data), 7):
        await one.client.stream.send_all(data[start : start + 7])
        await settled()
    assert await one.client.replies(3) == ["a", "b", "c"]
    other, _ = one.connect()
    for piece in (frames("say d")[:10], frames("say d")[10:]):
        await other.stream.send_all(piece)
        await settled()
    assert await other.reply() == "d"
