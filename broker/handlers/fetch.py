"""Fetch: read records, as a consumer or as a follower, and wait for more of them.

Behaviour:
- The reply comes at once if there is enough to read, or with an error; else when the request's own partitions have
  enough, or after `max_wait_ms`. It does not wait if the reader is behind, in a segment that is not the last one.
- Unknown and denied partitions do not end a wait, as in Kafka. They are in the response with the others.
- The first batch comes whole, even if it is larger than the limits.
- A request of thousands of partitions is handled in parts, and does not wait.
Versions: 4 to 17. From 5 log start offsets; from 7 fetch sessions; from 9 the client's leader epoch; from 10 zstd; from
11 reading from followers; from 12 divergence by the last fetched epoch; from 13 topic ids; from 15 the follower's
epoch; from 16 the endpoints of new leaders. There are no snapshots (12), and no directory ids (17).
Counterpart in Kafka: KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, DelayedFetch.
"""

import functools
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.fetch.large import LargeFetch
from ottla.broker.fetch.long_poll import Answer, LongPoll
from ottla.broker.fetch.responses import FetchAnswers
from ottla.broker.fetch.sessions import (
    FINAL_EPOCH,
    NO_SESSION,
    TOPIC_IDS_FROM_VERSION,
    FetchSessionCache,
)
from ottla.broker.loop.clock import Clock, StartSoon
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.reads import TO_LOG_END, Reader, consumer
from ottla.broker.requests.authorizer import Access, Operation, ResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.large_arrays import LargeArray
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

logger = logging.getLogger("kafka.server.KafkaApis")


_FOLLOWERS_SERVE_FROM_VERSION: Final = 11
# By isolation level. The newer ones may read from followers too (KIP-392).
_OLD_CONSUMERS: Final = {level: consumer(level, from_leader_only=True) for level in (0, 1)}
_CONSUMERS: Final = {level: consumer(level, from_leader_only=False) for level in (0, 1)}


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
    """Read, and return a response now or later. `access` is None without an authorizer.

    With `rack_aware`, a consumer that names its rack is referred to a replica there.
    """
    version = context.api_version
    reader = _reader(request, version)
    if rack_aware and request.rack_id:
        reader = _in_rack(reader, request, context)
    maker = FetchAnswers(version, context.listener_name, reader, replicas)
    max_bytes = min(request.max_bytes, fetch_max_bytes)
    topics = request.topics
    if access is None and request.session_epoch == FINAL_EPOCH and request.session_id == NO_SESSION and _is_one(topics):
        # The fast path: one partition, no session, no authorizer.
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
        poll = partial(LongPoll, request, max_bytes, reader, maker, replicas, clock, may_read)
        failed = partial(error_response, request, version, ErrorCode.UNKNOWN_SERVER_ERROR)
        name_of = metadata.topic_name
        large = LargeFetch(request, version, max_bytes, reader, maker, clock, sessions, name_of, poll, failed)
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
    return LongPoll(request, max_bytes, reader, maker, replicas, clock, may_read, begun).start()


def error_response(request: FetchRequest, version: int, code: ErrorCode) -> FetchResponse:
    """Return the error for the whole request; before topic ids also for each partition."""
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
    """Return the check of a topic: a follower needs one permission on the cluster, a consumer one on each topic."""
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
        # Kafka's error for an unknown level.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"isolation level {request.isolation_level}")
    return found


def _in_rack(reader: Reader, request: FetchRequest, context: RequestContext) -> Reader:
    """Return a consumer that may be referred to a replica in the rack of the request."""
    if reader.is_follower or reader.from_leader_only:
        return reader
    level, listener = request.isolation_level, context.listener_name
    return consumer(level, from_leader_only=False, rack_id=request.rack_id, listener=listener)
