"""A fetch of thousands of partitions, handled in parts so that other tasks run between them. It does not wait.

Owns the order of the parts, and the response made of theirs. No counterpart in Kafka, whose handlers have threads.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from ottla.broker.fetch.long_poll import LongPoll
from ottla.broker.fetch.responses import FetchAnswers
from ottla.broker.fetch.sessions import FetchContext, FetchKind, FetchSessionCache, SessionPartition
from ottla.broker.loop.clock import Clock
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.reads import Reader, ReadResult
from ottla.broker.requests.large_requests import Cut, batched, join, parts
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, NodeEndpoint

logger = logging.getLogger("kafka.server.KafkaApis")

_PART: Final = Cut("topics", "responses", "partitions", "partitions")


def _is_same_topic(one: FetchableTopicResponse, other: FetchableTopicResponse) -> bool:
    return (one.topic, one.topic_id) == (other.topic, other.topic_id)


class LargeFetch:
    """A fetch of many partitions, handled in parts. Other tasks run between them."""

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
        poll: Callable[[FetchContext], LongPoll],
        failed: Callable[[], FetchResponse],
    ) -> None:
        self._new_poll = poll
        self._failed = failed
        self._request = request
        self._version = version
        self._max_bytes = max_bytes
        self._reader = reader
        self._maker = maker
        self._clock = clock
        self._sessions = sessions
        self._name_of = name_of

    async def run(self, reply: Deferred[FetchResponse]) -> None:
        """Complete the reply with the response, or with UNKNOWN_SERVER_ERROR after a bug."""
        try:
            response = await self._fetch()
        except Exception:
            logger.exception("A bug: a large Fetch failed, the client gets UNKNOWN_SERVER_ERROR")
            response = self._failed()
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
            continues = bool(whole and more) and _is_same_topic(whole[-1], more[0])
            join(whole, more, _PART, continues)
            endpoints |= {each.node_id: each for each in response.node_endpoints}
            await trio.lowlevel.checkpoint()
        return FetchResponse(
            error_code=error, session_id=session_id, responses=whole, node_endpoints=list(endpoints.values())
        )

    async def _begin(self) -> FetchContext | ErrorCode:
        """Add the request's partitions to its session, part by part. The first part begins or finds the session."""
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
                    # Watch the partitions of each part now, not all of them at the end.
                    context.session.watch()
            await trio.lowlevel.checkpoint()
        assert context is not None
        return context

    async def _look(self, context: FetchContext) -> list[tuple[SessionPartition, ReadResult]]:
        poll = self._new_poll(context)
        named: list[tuple[SessionPartition, ReadResult]] = []
        size = 0
        for some in batched(tuple(context.session.to_look_at), _PART.size):
            left = max(0, self._max_bytes - size)
            found = poll.look(some, left, is_first_look=True, nothing_yet=not size, may_copy=0)
            size += sum(result.size for _, result in found)
            # Without a session, the response has all partitions.
            named += found if context.kind is FetchKind.SESSIONLESS else context.news(found)
            await trio.lowlevel.checkpoint()
        return named
