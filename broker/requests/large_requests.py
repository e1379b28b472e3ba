"""Requests of many elements: decoded and answered off the loop, and handled a part after the other.

Owns the order in which they are carried out, one at a time since their answers take memory, and how they are cut. A
handler sees a request of a few elements and knows nothing of it; so what is named twice in one request is noticed
within a part only, and a limit on what one request may create is one for a part. Must not know connections.

A Fetch is one request whatever it names, because of its session: its handler cuts it by itself. AlterReplicaLogDirs,
DescribeLogDirs and DescribeTopicPartitions, whose answers are put in order otherwise, are not cut and hold the loop;
nor are JoinGroup and SyncGroup, which mean one member, nor the partitions of one topic in an OffsetFetch for many
groups.
No counterpart in Kafka, whose handlers have threads.
"""

import copy
import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
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
Respond = Callable[[RequestHeader, Any], Any]


class Cut(NamedTuple):
    """Which array of a request is cut, and which one of the answer is put together; and of their elements likewise."""

    asked: str
    answered: str
    asked_of_each: str = ""
    answered_of_each: str = ""
    # About a millisecond's worth.
    size: int = 200


_CUTS: Final = {
    ApiKey.PRODUCE: Cut("topic_data", "responses", "partition_data", "partition_responses", 50),
    ApiKey.LIST_OFFSETS: Cut("topics", "topics", "partitions", "partitions"),
    ApiKey.METADATA: Cut("topics", "topics"),
    ApiKey.LEADER_AND_ISR: Cut("topic_states", "topics", "partition_states", "partition_errors"),
    ApiKey.OFFSET_COMMIT: Cut("topics", "topics", "partitions", "partitions"),
    ApiKey.FIND_COORDINATOR: Cut("coordinator_keys", "coordinators"),
    ApiKey.LEAVE_GROUP: Cut("members", "members"),
    ApiKey.DESCRIBE_GROUPS: Cut("groups", "groups"),
    ApiKey.CREATE_TOPICS: Cut("topics", "topics", size=50),
    ApiKey.DELETE_RECORDS: Cut("topics", "topics", "partitions", "partitions"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Cut("topics", "topics", "partitions", "partitions"),
    ApiKey.DESCRIBE_CONFIGS: Cut("resources", "results", size=5),
    ApiKey.ALTER_CONFIGS: Cut("resources", "responses", size=50),
    ApiKey.CREATE_PARTITIONS: Cut("topics", "results", size=50),
    ApiKey.DELETE_GROUPS: Cut("groups_names", "results"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Cut("resources", "responses", size=50),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Cut("topics", "responses", "partitions", "partitions"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Cut("topics", "topics", "partition_indexes", "partitions"),
    ApiKey.OFFSET_DELETE: Cut("topics", "topics", "partitions", "partitions"),
    ApiKey.DESCRIBE_PRODUCERS: Cut("topics", "topics", "partition_indexes", "partitions"),
}
# They wait for other members of their group, for minutes. Nobody else is to wait with them.
_PARKED: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
# Collections of the second generation before one of the third.
_NEVER: Final = 1_000_000
# What clients ask does not keep a broker from its roles.
_OF_CONTROLLER: Final = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)
_DELETE_BY_NAME: Final = Cut("topic_names", "responses", size=50)
_DELETE: Final = Cut("topics", "responses", size=50)
_FETCH_OFFSETS_OF_ONE: Final = Cut("topics", "topics", "partition_indexes", "partitions")
_FETCH_OFFSETS: Final = Cut("groups", "groups", "topics", "topics")


class LargeRequests:
    """Carries out requests of many elements."""

    def __init__(self, offload: Offload, start_soon: StartSoon) -> None:
        self._offload = offload
        self._start_soon = start_soon
        self._clients_turn = trio.Lock()
        self._controllers_turn = trio.Lock()

    def carry_out(self, frame: memoryview, respond: Respond) -> Reply:
        """Decode a request, have its parts responded to, and encode what they come to."""
        scope = trio.CancelScope()
        reply: Reply = Deferred(applied=False, on_abandon=scope.cancel)
        self._start_soon(self._run, frame, respond, reply, scope)
        return reply

    async def _run(self, frame: memoryview, respond: Respond, reply: Reply, scope: trio.CancelScope) -> None:
        with scope:
            try:
                reply.complete(await self._chunks(frame, respond))
            except CloseConnection as reason:
                reply.close(reason)
            except DecodeError as error:
                reply.close(CloseConnection(str(error)))
            except Exception:
                # As where a small one's reply cannot be encoded: it ends its connection, not the broker.
                logger.exception("A bug: a request of many elements failed")
                reply.close(CloseConnection("a request of many elements failed"))

    async def _chunks(self, frame: memoryview, respond: Respond) -> list[Chunk]:
        is_control = int.from_bytes(frame[:2], "big") in _OF_CONTROLLER
        async with self._controllers_turn if is_control else self._clients_turn:
            with _full_collections.held_off():
                header, request = await self._offload(decode_large_request, frame)
                cut = _cut(header, request)
                whole = await _all_parts(header, request, cut, respond) if cut is not None else respond(header, request)
                if not isinstance(whole, Deferred) or header.api_key not in _PARKED:
                    return await self._encoded(header, whole)
        return await self._encoded(header, whole)

    async def _encoded(self, header: RequestHeader, whole: Any) -> list[Chunk]:
        if isinstance(whole, Deferred):
            whole = await _outcome(whole)
        if whole is None:
            return []
        return await self._offload(encode_response, header.correlation_id, whole, header.api_version)


class FullCollections:
    """This process' full garbage collections, which are off while at least one holder is in `held_off`.

    A look through all that a large request makes holds the loop for long; young garbage is collected all the same.
    """

    def __init__(self) -> None:
        self._holders = 0
        self._threshold = 0

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """Hold full collections off. The last holder that leaves restores the threshold that the first one found."""
        first, second, third = gc.get_threshold()
        if not self._holders:
            self._threshold = third
            gc.set_threshold(first, second, _NEVER)
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                gc.set_threshold(first, second, self._threshold)


# One for all brokers of this process, as there is one collector.
_full_collections: Final = FullCollections()


async def _all_parts(header: RequestHeader, request: Request, cut: Cut, respond: Respond) -> Response | None:
    whole: Response | None = None
    for part, goes_on in parts(request, cut):
        response = respond(header, part)
        if isinstance(response, Deferred):
            response = await _outcome(response)
        else:
            await trio.lowlevel.checkpoint()
        if whole is None:
            whole = response
            if whole is not None:
                setattr(whole, cut.answered, list(getattr(whole, cut.answered)))
        elif response is not None:
            join(getattr(whole, cut.answered), getattr(response, cut.answered), cut, goes_on)
    return whole


def _cut(header: RequestHeader, request: Request) -> Cut | None:
    """How a request is cut; None where it is not, because it cannot be or names nothing."""
    key = ApiKey(header.api_key)
    cut = _CUTS.get(key)
    if key is ApiKey.DELETE_TOPICS:
        cut = _DELETE if header.api_version >= 6 else _DELETE_BY_NAME
    elif key is ApiKey.LEADER_AND_ISR and header.api_version < 5:
        # Its answer is not by topic. No broker of this cluster sends it.
        return None
    elif key is ApiKey.OFFSET_FETCH:
        cut = _FETCH_OFFSETS if header.api_version >= 8 else _FETCH_OFFSETS_OF_ONE
    return cut if cut is not None and getattr(request, cut.asked) else None


def parts(request: R, cut: Cut) -> Iterator[tuple[R, bool]]:
    """Yield requests of a few elements; and whether the first element of one is the rest of the last one before."""
    if not cut.asked_of_each:
        for some in batched(getattr(request, cut.asked), cut.size):
            yield _with(request, cut.asked, some), False
        return
    part: list[Any] = []
    room = cut.size
    goes_on = False
    for each in getattr(request, cut.asked):
        elements = getattr(each, cut.asked_of_each)
        # Null is not the same as none.
        pieces = [None] if elements is None else batched(elements, cut.size)
        for number, piece in enumerate(pieces):
            if not room:
                yield _with(request, cut.asked, part), goes_on
                part, room, goes_on = [], cut.size, number > 0
            part.append(_with(each, cut.asked_of_each, piece))
            room = max(0, room - max(1, len(piece or ())))
    yield _with(request, cut.asked, part), goes_on


def batched(elements: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield them in lists; an empty one if there are none."""
    left = iter(elements)
    piece = list(islice(left, size))
    yield piece
    while piece := list(islice(left, size)):
        yield piece


def _with(struct: Any, name: str, value: Sequence[Any] | None) -> Any:
    changed = copy.copy(struct)
    setattr(changed, name, value)
    return changed


def join(whole: list[Any], more: Sequence[Any], cut: Cut, goes_on: bool) -> None:
    """Append what a part was answered; what is the rest of the last element becomes part of that."""
    if goes_on and whole and more:
        last, rest = whole[-1], more[0]
        together = getattr(last, cut.answered_of_each)
        if not isinstance(together, list):
            together = list(together)
            setattr(last, cut.answered_of_each, together)
        together.extend(getattr(rest, cut.answered_of_each))
        more = more[1:]
    whole.extend(more)


async def _outcome(deferred: Deferred[Any]) -> Any:
    """Wait for a reply that is owed. Raises CloseConnection where that is the outcome."""
    done = trio.Event()
    deferred.then(lambda _: done.set(), lambda _: done.set())
    try:
        await done.wait()
    finally:
        deferred.abandon()
    return deferred.response
