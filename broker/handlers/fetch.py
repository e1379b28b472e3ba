"""Fetch, versions 4 to 17: read records, as a consumer or as a follower, and wait for more of them.

A request is answered at once if there is enough to read, or something went wrong; else after `max_wait_ms`, or as soon
as its own partitions bring enough. Partitions nobody knows are told with the rest, as in Kafka: they do not end a wait.
There are no snapshots. A request of thousands of partitions is carried out a part at a time, and does not wait.
Counterpart in Kafka: KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, DelayedFetch.
"""

import functools
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.fetch.responses import FetchAnswers
from ottla.broker.fetch.sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    TOPIC_IDS_FROM_VERSION,
    FetchContext,
    FetchKind,
    FetchSessionCache,
    SessionPartition,
)
from ottla.broker.loop.clock import Clock, StartSoon, Timer
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.reads import NO_REPLICA, TO_LOG_END, Reader, ReadResult, consumer
from ottla.broker.requests.authorizer import Access, Operation, ResourceType
from ottla.broker.requests.large_requests import Cut, batched, join, parts
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.large_arrays import LargeArray
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    NodeEndpoint,
    PartitionData,
)

logger = logging.getLogger("kafka.server.KafkaApis")

Answer = FetchResponse | Deferred[FetchResponse]

_PART: Final = Cut("topics", "responses", "partitions", "partitions")

_FOLLOWERS_SERVE_FROM_VERSION: Final = 11
# What one response holds in memory; whoever asks for a thousand partitions and does not read gets regions of files.
_COPY_AT_MOST: Final = 1 << 18

# By isolation level; the newer one may read from followers too (KIP-392).
_OLD_CONSUMERS: Final = {level: consumer(level, from_leader_only=True) for level in (0, 1)}
_CONSUMERS: Final = {level: consumer(level, from_leader_only=False) for level in (0, 1)}

# Nothing was looked for, so it does not end a wait.
_UNKNOWN: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)


def handle(
    request: FetchRequest,
    context: RequestContext,
    *,
    replicas: ReplicaManager,
    sessions: FetchSessionCache,
    metadata: MetadataCache,
    clock: Clock,
    start_soon: StartSoon,
    fetch_max_bytes: int,
    access: Access | None = None,
    rack_aware: bool = False,
) -> Answer:
    """Read, and answer now or later. `access` is None where nobody is denied anything.

    With `rack_aware` a consumer that says its rack is told of a replica there.
    """
    version = context.api_version
    reader = _reader(request, version)
    if rack_aware and request.rack_id:
        reader = _in_rack(reader, request, context)
    maker = FetchAnswers(version, context.listener_name, reader, replicas)
    max_bytes = min(request.max_bytes, fetch_max_bytes)
    topics = request.topics
    if access is None and request.session_epoch == FINAL_EPOCH and request.session_id == NO_SESSION and _is_one(topics):
        # The way of consumers without sessions, and worth some care.
        topic = topics[0]
        asked = topic.partitions[0]
        name = topic.topic if version < TOPIC_IDS_FROM_VERSION else metadata.topic_name(topic.topic_id)
        if name is not None:
            limit = min(max_bytes, asked.partition_max_bytes)
            result = replicas.read(reader, name, asked.partition, topic.topic_id, asked, limit, at_least_one=True)
            if (
                result.size >= min(request.min_bytes, max_bytes)
                or result.error
                or request.max_wait_ms <= 0
                or result.is_diverging
                or result.is_of_older_segment
            ):
                return maker.single(topic, name, asked.partition, result)
    may_read = None if access is None else _permission(context, access, reader)
    if isinstance(topics, LargeArray):
        reply: Deferred[FetchResponse] = Deferred(applied=False)
        fetch = partial(_Fetch, request, max_bytes, reader, maker, replicas, clock, may_read)
        large = _LargeFetch(request, version, max_bytes, reader, maker, clock, sessions, metadata.topic_name, fetch)
        start_soon(large.run, reply)
        return reply
    begun = sessions.begin(
        request,
        version,
        reader.waits_for,
        is_follower=reader.is_follower,
        now_ms=clock.now_ms(),
        name_of=metadata.topic_name,
    )
    if isinstance(begun, ErrorCode):
        return FetchResponse(error_code=begun, responses=())
    return _Fetch(request, max_bytes, reader, maker, replicas, clock, may_read, begun).start()


def error_response(request: FetchRequest, version: int, code: ErrorCode) -> FetchResponse:
    """One error; before topic ids came, for every partition too."""
    if version >= TOPIC_IDS_FROM_VERSION:
        return FetchResponse(error_code=code, session_id=request.session_id, responses=())
    return FetchResponse(
        error_code=code,
        session_id=request.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=asked.partition, error_code=code, high_watermark=-1, records=None)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _permission(context: RequestContext, access: Access, reader: Reader) -> Callable[[str], bool]:
    """Who replicates needs the cluster's permission for all, who consumes one for each topic."""
    if reader.is_follower:
        may_replicate = access.allows(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        return lambda topic: may_replicate
    return functools.cache(partial(access.allows, context, Operation.READ, ResourceType.TOPIC))


def _is_one(topics: Sequence[FetchTopic]) -> bool:
    return len(topics) == 1 and len(topics[0].partitions) == 1


def _reader(request: FetchRequest, version: int) -> Reader:
    replica_id = request.replica_id if version < 15 else request.replica_state.replica_id
    if replica_id >= 0:
        return Reader(replica_id, request.replica_state.replica_epoch, TO_LOG_END, from_leader_only=True)
    consumers = _OLD_CONSUMERS if version < _FOLLOWERS_SERVE_FROM_VERSION else _CONSUMERS
    found = consumers.get(request.isolation_level)
    if found is None:
        # Kafka calls it so too.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"isolation level {request.isolation_level}")
    return found


def _in_rack(reader: Reader, request: FetchRequest, context: RequestContext) -> Reader:
    """The same reader, who may be sent to a replica in the rack that the request says."""
    if reader.is_follower or reader.from_leader_only:
        return reader
    level, listener = request.isolation_level, context.listener_name
    return consumer(level, from_leader_only=False, rack_id=request.rack_id, listener=listener)


class _Fetch:
    """A fetch on its way, which may have to wait."""

    __slots__ = (
        "_clock",
        "_context",
        "_deferred",
        "_maker",
        "_max_bytes",
        "_max_wait_ms",
        "_may_read",
        "_min_bytes",
        "_reader",
        "_replicas",
        "_size",
        "_sizes",
        "_timer",
    )

    _deferred: Deferred[FetchResponse]
    _timer: Timer

    def __init__(
        self,
        request: FetchRequest,
        max_bytes: int,
        reader: Reader,
        maker: FetchAnswers,
        replicas: ReplicaManager,
        clock: Clock,
        may_read: Callable[[str], bool] | None,
        context: FetchContext,
    ) -> None:
        self._may_read = may_read
        self._max_bytes = max_bytes
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._max_wait_ms = request.max_wait_ms
        self._reader = reader
        self._context = context
        self._maker = maker
        self._replicas = replicas
        self._clock = clock
        self._size = 0
        # What each partition had to read when it was last looked at.
        self._sizes: dict[SessionPartition, int] = {}

    def start(self) -> Answer:
        """Look at all that may have something to tell; wait if that is too little."""
        readings = self.look(tuple(self._context.session.to_look_at), self._max_bytes, is_first_look=True)
        unknown = sum(result.error in _UNKNOWN for _, result in readings)
        self._sizes = {partition: result.size for partition, result in readings if result.size}
        self._size = sum(self._sizes.values())
        if (
            self._size >= self._min_bytes
            or self._max_wait_ms <= 0
            or unknown == len(self._context.session.partitions)
            or any(_ends_wait(result) for _, result in readings)
        ):
            return self._respond(readings)
        self._deferred = Deferred(applied=False, on_abandon=self._abandon)
        self._timer = self._clock.call_later(self._max_wait_ms / 1000, self._finish)
        self._context.wait(self._moved)
        return self._deferred

    def look(
        self,
        partitions: Sequence[SessionPartition],
        limit: int,
        *,
        is_first_look: bool,
        nothing_yet: bool = True,
        may_copy: int = _COPY_AT_MOST,
    ) -> list[tuple[SessionPartition, ReadResult]]:
        """Read some partitions; at least something of one, if nothing was read yet, and else up to a limit."""
        readings = []
        for partition in partitions:
            result = self._read(partition, limit, nothing_yet, is_first_look, may_copy > 0)
            if result.size:
                nothing_yet = False
                may_copy -= result.size
            if result.error not in _UNKNOWN:
                # A negative limit is one for the first partition that is read alone, as in Kafka.
                limit = max(0, limit - result.size)
            readings.append((partition, result))
        return readings

    def _read(
        self, partition: SessionPartition, limit: int, at_least_one: bool, is_first_look: bool, may_copy: bool = False
    ) -> ReadResult:
        if partition.topic is None:
            return ReadResult(ErrorCode.UNKNOWN_TOPIC_ID)
        if self._may_read is not None and not self._may_read(partition.topic):
            return ReadResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self._replicas.read(
            self._reader,
            partition.topic,
            partition.partition,
            partition.topic_id,
            partition,
            min(limit, partition.max_bytes),
            at_least_one=at_least_one,
            is_first_look=is_first_look,
            may_copy=may_copy,
        )

    def _moved(self, partition: SessionPartition) -> None:
        """One partition moved while this fetch waits: no other is looked at."""
        result = self._read(partition, self._max_bytes, True, False)
        if result.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return
        self._size += result.size - self._sizes.get(partition, 0)
        self._sizes[partition] = result.size
        if self._size >= self._min_bytes or result.error or _is_not_to_wait(result):
            self._finish()

    def _finish(self) -> None:
        """Read once more, all that moved, and answer."""
        self._timer.cancel()
        readings = self.look(tuple(self._context.session.to_look_at), self._max_bytes, is_first_look=False)
        response = self._respond(readings)
        self._deferred.complete(response)

    def _respond(self, readings: Sequence[tuple[SessionPartition, ReadResult]]) -> FetchResponse:
        concluded = self._context.conclude(readings, self._clock.now_ms())
        self._context.end()
        return self._maker.response(*concluded)

    def _abandon(self) -> None:
        self._timer.cancel()
        self._context.end()


def _is_same_topic(one: FetchableTopicResponse, other: FetchableTopicResponse) -> bool:
    return (one.topic, one.topic_id) == (other.topic, other.topic_id)


class _LargeFetch:
    """A fetch of many partitions: between its parts others have the loop."""

    def __init__(
        self,
        request: FetchRequest,
        version: int,
        max_bytes: int,
        reader: Reader,
        maker: FetchAnswers,
        clock: Clock,
        sessions: FetchSessionCache,
        name_of: Callable[[bytes], str | None],
        fetch: Callable[[FetchContext], _Fetch],
    ) -> None:
        self._new_fetch = fetch
        self._request = request
        self._version = version
        self._max_bytes = max_bytes
        self._reader = reader
        self._maker = maker
        self._clock = clock
        self._sessions = sessions
        self._name_of = name_of

    async def run(self, reply: Deferred[FetchResponse]) -> None:
        """Carry it out and reply."""
        try:
            response = await self._fetch()
        except Exception:
            logger.exception("A bug: a large Fetch failed")
            response = error_response(self._request, self._version, ErrorCode.UNKNOWN_SERVER_ERROR)
        reply.complete(response)

    async def _fetch(self) -> FetchResponse:
        context = await self._begin()
        if isinstance(context, ErrorCode):
            return FetchResponse(error_code=context, responses=())
        try:
            named = await self._look(context)
            error, session_id, _ = context.conclude((), self._clock.now_ms())
        finally:
            context.end()
        if error:
            named = []
        whole: list[FetchableTopicResponse] = []
        endpoints: dict[int, NodeEndpoint] = {}
        for some in batched(named, _PART.size):
            response = self._maker.response(error, session_id, some)
            more = response.responses
            goes_on = bool(whole and more) and _is_same_topic(whole[-1], more[0])
            join(whole, more, _PART, goes_on)
            endpoints |= {each.node_id: each for each in response.node_endpoints}
            await trio.lowlevel.checkpoint()
        return FetchResponse(
            error_code=error, session_id=session_id, responses=whole, node_endpoints=list(endpoints.values())
        )

    async def _begin(self) -> FetchContext | ErrorCode:
        """Take what is asked into the session, a part after the other; the first one says which it is."""
        context: FetchContext | None = None
        for part, _ in parts(self._request, _PART):
            if context is not None:
                context.session.update(part.topics, (), self._name_of)
            else:
                begun = self._sessions.begin(
                    part,
                    self._version,
                    self._reader.waits_for,
                    is_follower=self._reader.is_follower,
                    now_ms=self._clock.now_ms(),
                    name_of=self._name_of,
                )
                if isinstance(begun, ErrorCode):
                    return begun
                context = begun
                if context.kind is FetchKind.FULL:
                    # It will be; so each part's partitions are watched as they come, not all of them at the end.
                    context.session.watch()
            await trio.lowlevel.checkpoint()
        assert context is not None
        return context

    async def _look(self, context: FetchContext) -> list[tuple[SessionPartition, ReadResult]]:
        fetch = self._new_fetch(context)
        named: list[tuple[SessionPartition, ReadResult]] = []
        size = 0
        for some in batched(tuple(context.session.to_look_at), _PART.size):
            left = max(0, self._max_bytes - size)
            found = fetch.look(some, left, is_first_look=True, nothing_yet=not size, may_copy=0)
            size += sum(result.size for _, result in found)
            # Without a session all are told.
            named += found if context.kind is FetchKind.SESSIONLESS else context.news(found)
            await trio.lowlevel.checkpoint()
        return named


def _ends_wait(result: ReadResult) -> bool:
    return _is_not_to_wait(result) or (result.error != ErrorCode.NONE and result.error not in _UNKNOWN)


def _is_not_to_wait(result: ReadResult) -> bool:
    """The reader is to go on elsewhere: from before, at another replica, or in the next segment.

    Clients rely on the last: kafka-go takes an answer that comes as late as it may for one that was cut, and asks for
    the same again. So it would never get past a batch whose last records were compacted away.
    """
    return result.is_diverging or result.preferred_read_replica != NO_REPLICA or result.is_of_older_segment
