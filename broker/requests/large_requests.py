"""Requests of many elements: decoded and encoded by a worker thread, handled on the loop in parts.

Owns the order of these requests, and how each of them is cut. Must not know connections. No counterpart in Kafka, whose
handlers run in threads.

Bounded: the memory. One request of the clients and one of the controller is decoded, handled and encoded at a time.
Off the loop: decoding, because a small frame can hold many elements, and encoding the response.
In parts: a handler gets a copy of the request with `Cut.size` elements, about a millisecond of work. Other tasks run,
then the handler gets the next part. The answers are joined to one response. Because a handler knows nothing of this,
it finds an element that is named twice only within a part, and a limit of one request is a limit of each part.
Not cut: a request that is not in the table of cuts is handled whole, and may hold the loop. AlterReplicaLogDirs,
DescribeLogDirs and DescribeTopicPartitions answer in another order than they ask. JoinGroup and SyncGroup are of one
member. OffsetFetch of many groups is cut into groups and topics, not into partitions. Fetch is cut by its handler,
because all parts belong to one fetch session. AddPartitionsToTxn of a client adds all partitions or none, with one
record; that of a broker is cut into transactions. WriteTxnMarkers has one result for each producer. The arrays of
ListTransactions are filters.
"""

import copy
import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import trio

from ottla.broker.loop.clock import Offload, StartSoon
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import Chunk, RequestHeader, decode_large_request, encode_response
from ottla.wire.errors import DecodeError
from ottla.wire.schema import Request, Response

logger = logging.getLogger("kafka.server.KafkaApis")

R = TypeVar("R", bound=Request)
T = TypeVar("T")
Reply = Deferred[list[Chunk]]
# (header, request) -> response | Deferred | None
Handle = Callable[[RequestHeader, Any], Any]


class Cut(NamedTuple):
    """The array of a request that is cut, and the array of its response that is joined.

    `asked_of_each` and `answered_of_each` are arrays in their elements, if these are cut too: partitions of topics.
    """

    asked: str
    answered: str
    asked_of_each: str = ""
    answered_of_each: str = ""
    size: int = 200
    from_version: int = 0


# By API; the first cut whose array holds elements counts, because the versions of some APIs have different arrays.
_CUTS: Final[Mapping[ApiKey, Sequence[Cut]]] = {
    ApiKey.PRODUCE: [Cut("topic_data", "responses", "partition_data", "partition_responses", 50)],
    ApiKey.LIST_OFFSETS: [Cut("topics", "topics", "partitions", "partitions")],
    ApiKey.METADATA: [Cut("topics", "topics")],
    # Before version 5 the response is not by topic. No broker of this cluster sends such a request.
    ApiKey.LEADER_AND_ISR: [Cut("topic_states", "topics", "partition_states", "partition_errors", from_version=5)],
    ApiKey.OFFSET_COMMIT: [Cut("topics", "topics", "partitions", "partitions")],
    ApiKey.OFFSET_FETCH: [
        Cut("topics", "topics", "partition_indexes", "partitions"),
        Cut("groups", "groups", "topics", "topics"),
    ],
    ApiKey.FIND_COORDINATOR: [Cut("coordinator_keys", "coordinators")],
    ApiKey.LEAVE_GROUP: [Cut("members", "members")],
    ApiKey.DESCRIBE_GROUPS: [Cut("groups", "groups")],
    ApiKey.CREATE_TOPICS: [Cut("topics", "topics", size=50)],
    ApiKey.DELETE_TOPICS: [Cut("topic_names", "responses", size=50), Cut("topics", "responses", size=50)],
    ApiKey.DELETE_RECORDS: [Cut("topics", "topics", "partitions", "partitions")],
    ApiKey.ADD_PARTITIONS_TO_TXN: [Cut("transactions", "results_by_transaction", size=20)],
    ApiKey.TXN_OFFSET_COMMIT: [Cut("topics", "topics", "partitions", "partitions")],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [Cut("topics", "topics", "partitions", "partitions")],
    ApiKey.DESCRIBE_CONFIGS: [Cut("resources", "results", size=5)],
    ApiKey.ALTER_CONFIGS: [Cut("resources", "responses", size=50)],
    ApiKey.CREATE_PARTITIONS: [Cut("topics", "results", size=50)],
    ApiKey.DELETE_GROUPS: [Cut("groups_names", "results")],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [Cut("resources", "responses", size=50)],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [Cut("topics", "responses", "partitions", "partitions")],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [Cut("topics", "topics", "partition_indexes", "partitions")],
    ApiKey.OFFSET_DELETE: [Cut("topics", "topics", "partitions", "partitions")],
    ApiKey.DESCRIBE_PRODUCERS: [Cut("topics", "topics", "partition_indexes", "partitions")],
    ApiKey.DESCRIBE_TRANSACTIONS: [Cut("transactional_ids", "transaction_states")],
}
# Their responses wait for other members of the group, for minutes: other large requests do not wait with them.
_WAIT_FOR_MEMBERS: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
# These have a turn of their own, because requests of clients must not delay the controller.
_OF_CONTROLLER: Final = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)
# As many collections of the second generation are made before one of the third, which is a full one.
_NEVER: Final = 1_000_000


class LargeRequests:
    """Answers requests of many elements, one after the other."""

    def __init__(self, offload: Offload, start_soon: StartSoon) -> None:
        self._offload = offload
        self._start_soon = start_soon
        self._clients_turn = trio.Lock()
        self._controllers_turn = trio.Lock()

    def answer(self, frame: memoryview, handle: Handle) -> Reply:
        """Decode a request, call `handle` with each part of it, and return the encoded response when it is complete."""
        scope = trio.CancelScope()
        reply: Reply = Deferred(applied=False, on_abandon=scope.cancel)
        self._start_soon(self._complete, frame, handle, reply, scope)
        return reply

    async def _complete(self, frame: memoryview, handle: Handle, reply: Reply, scope: trio.CancelScope) -> None:
        with scope:
            try:
                reply.complete(await self._answer(frame, handle))
            except CloseConnection as reason:
                reply.close(reason)
            except DecodeError as error:
                reply.close(CloseConnection(str(error)))
            except Exception:
                # As for a small request whose response cannot be encoded: the connection ends, not the broker.
                logger.exception("A bug: a request of many elements failed, its connection is closed")
                reply.close(CloseConnection("a request of many elements failed"))

    async def _answer(self, frame: memoryview, handle: Handle) -> list[Chunk]:
        is_control = int.from_bytes(frame[:2], "big") in _OF_CONTROLLER
        async with self._controllers_turn if is_control else self._clients_turn:
            with _without_full_collections():
                header, request = await self._offload(decode_large_request, frame)
                cut = _cut_of(header, request)
                if cut is not None:
                    response = await _handle_in_parts(header, request, cut, handle)
                else:
                    response = handle(header, request)
                if header.api_key not in _WAIT_FOR_MEMBERS:
                    return await self._encode(header, response)
        return await self._encode(header, response)

    async def _encode(self, header: RequestHeader, response: Any) -> list[Chunk]:
        response = await _completed(response)
        if response is None:
            return []
        return await self._offload(encode_response, header.correlation_id, response, header.api_version)


# The thresholds of full collections that the present large requests of all brokers of this process found, the first
# one's first.
_found_thresholds: Final[list[int]] = []


@contextmanager
def _without_full_collections() -> Iterator[None]:
    """Turn full garbage collections off, because they go through all objects of a large request on the loop.

    The last large request that ends restores the threshold that the first one found.
    """
    first, second, third = gc.get_threshold()
    _found_thresholds.append(third)
    gc.set_threshold(first, second, _NEVER)
    try:
        yield
    finally:
        original = _found_thresholds[0]
        _found_thresholds.pop()
        if not _found_thresholds:
            gc.set_threshold(first, second, original)


def _cut_of(header: RequestHeader, request: Request) -> Cut | None:
    """Return how the request is cut; None if it is handled whole."""
    cuts = _CUTS.get(ApiKey(header.api_key), ())
    return next((cut for cut in cuts if header.api_version >= cut.from_version and getattr(request, cut.asked)), None)


async def _handle_in_parts(header: RequestHeader, request: Request, cut: Cut, handle: Handle) -> Response | None:
    """Handle one part after the other, and return their joined responses; None if no part has one."""
    whole: Response | None = None
    for part, continues in parts(request, cut):
        response = await _completed(handle(header, part))
        if response is None:
            continue
        answers = getattr(response, cut.answered)
        if whole is None:
            whole = response
            setattr(whole, cut.answered, list(answers))
        else:
            join(getattr(whole, cut.answered), answers, cut, continues)
    return whole


async def _completed(response: Any) -> Any:
    """Return a response, after a wait if it is deferred. Raise CloseConnection if that is its outcome."""
    if not isinstance(response, Deferred):
        # Other tasks run between two parts.
        await trio.lowlevel.checkpoint()
        return response
    done = trio.Event()
    response.then(lambda _: done.set(), lambda _: done.set())
    try:
        await done.wait()
    finally:
        response.abandon()
    return response.response


def parts(request: R, cut: Cut) -> Iterator[tuple[R, bool]]:
    """Yield copies of the request with `cut.size` elements each, and whether a part continues an element.

    A part continues an element, if its first element is the rest of the last element of the part before.
    """
    if not cut.asked_of_each:
        for some in batched(getattr(request, cut.asked), cut.size):
            yield _copy_with(request, cut.asked, some), False
        return
    part: list[Any] = []
    room = cut.size
    continues = False
    for each in getattr(request, cut.asked):
        elements = getattr(each, cut.asked_of_each)
        # Null stays null: it means all partitions, an empty array means none.
        pieces = [None] if elements is None else batched(elements, cut.size)
        for number, piece in enumerate(pieces):
            if not room:
                yield _copy_with(request, cut.asked, part), continues
                part, room, continues = [], cut.size, number > 0
            part.append(_copy_with(each, cut.asked_of_each, piece))
            room = max(0, room - max(1, len(piece or ())))
    yield _copy_with(request, cut.asked, part), continues


def batched(elements: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the elements in lists of `size`; one empty list if there are no elements."""
    left = iter(elements)
    piece = list(islice(left, size))
    yield piece
    while piece := list(islice(left, size)):
        yield piece


def _copy_with(struct: Any, name: str, value: Sequence[Any] | None) -> Any:
    changed = copy.copy(struct)
    setattr(changed, name, value)
    return changed


def join(whole: list[Any], answers: Sequence[Any], cut: Cut, continues: bool) -> None:
    """Append the answers of a part. If the part continues an element, the rest of its answer extends the answer.

    OffsetCommit answers unknown partitions first: the two need not be the last answer and the first one.
    """
    recent = {_name(each): each for each in whole[-cut.size :]} if continues else {}
    rest = next((each for each in answers if _name(each) in recent), None)
    if rest is not None:
        begun = recent[_name(rest)]
        of_begun = getattr(begun, cut.answered_of_each)
        if not isinstance(of_begun, list):
            of_begun = list(of_begun)
            setattr(begun, cut.answered_of_each, of_begun)
        of_begun.extend(getattr(rest, cut.answered_of_each))
        answers = [each for each in answers if each is not rest]
    whole.extend(answers)


def _name(answer: Any) -> str | None:
    """Return the name of a topic, None for an answer that has none."""
    return getattr(answer, "name", None)
