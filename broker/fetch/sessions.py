"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that each fetch names only what changed.

Owns the sessions, the rules of their ids and epochs, their cache, and which partitions a response names. Pure: time and
new ids are arguments, and the handler reads the partitions. A session keeps the partitions to look at, because they
moved or the client asked for another position; the others have no news. Must not know logs.
Counterpart in Kafka: FetchSession.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final

from ottla.broker.replicas.reads import ReadResult
from ottla.broker.replicas.watchers import OffsetSignal
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.types import TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
TOPIC_IDS_FROM_VERSION: Final = 13
# Any other session may evict one that was unused for EVICTION_MS, and a larger one a session as old as that.
EVICTION_MS: Final = 120_000
# All partitions of a follower's session are looked at once in ROUND_MS, moved or not.
ROUND_MS: Final = 2000

_LARGEST_EPOCH: Final = 0x7FFFFFFF

TopicName = Callable[[bytes], str | None]
Readings = list[tuple["SessionPartition", ReadResult]]


def next_epoch(epoch: int) -> int:
    """Return the epoch that the next request of a session has to carry."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _LARGEST_EPOCH else epoch + 1


class SessionPartition:
    """The position that the client asked for, and the offsets that the last response named."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "last_high_watermark",
        "last_log_start_offset",
        "log_start_offset",
        "max_bytes",
        "partition",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(self, session: "FetchSession", topic: str | None, topic_id: bytes, asked: FetchPartition) -> None:
        self.session = session
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.last_high_watermark = -1
        self.last_log_start_offset = -1
        self.ask(asked)

    def ask(self, asked: FetchPartition) -> None:
        """Take over the position that the client asks for."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset

    def partition_moved(self) -> None:
        """Mark the partition to be looked at, and call the fetch that waits."""
        session = self.session
        session.to_look_at[self] = None
        if session.on_moved is not None:
            session.on_moved(self)

    def is_news(self, reading: ReadResult) -> bool:
        """Whether an incremental response has to name the partition."""
        return (
            reading.size > 0
            or reading.high_watermark != self.last_high_watermark
            or reading.log_start_offset != self.last_log_start_offset
            or reading.error != ErrorCode.NONE
            or reading.is_diverging
            or reading.preferred_read_replica >= 0
        )

    def remember(self, reading: ReadResult) -> None:
        """Remember the offsets of a response. After an error the partition is named again once the error is gone."""
        self.last_high_watermark = reading.high_watermark if reading.error == ErrorCode.NONE else -1
        self.last_log_start_offset = reading.log_start_offset


class FetchSession:
    """The partitions of one client. A session that is not cached serves a single fetch."""

    __slots__ = (
        "_round",
        "_signal",
        "cached_size",
        "created_ms",
        "epoch",
        "id",
        "is_cached",
        "is_privileged",
        "is_watching",
        "last_used_ms",
        "on_moved",
        "partitions",
        "to_look_at",
        "uses_topic_ids",
        "what",
    )

    def __init__(self, signal: OffsetSignal, what: int, *, is_privileged: bool, uses_topic_ids: bool) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.created_ms = 0
        self.last_used_ms = 0
        self.cached_size = 0
        self.is_cached = False
        # A follower's session: it may evict those of consumers.
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.what = what
        self.is_watching = False
        self.partitions: dict[tuple[str | bytes, int], SessionPartition] = {}
        # In the order of reading: a partition that returned records goes to the end.
        self.to_look_at: dict[SessionPartition, None] = {}
        self.on_moved: Callable[[SessionPartition], None] | None = None
        self._signal = signal
        self._round: list[SessionPartition] = []

    def update(self, topics: Sequence[FetchTopic], forgotten: Sequence[ForgottenTopic], name_of: TopicName) -> None:
        """Add and change partitions, then forget some."""
        for topic in topics:
            name = name_of(topic.topic_id) if self.uses_topic_ids else topic.topic
            key = topic.topic_id if self.uses_topic_ids else topic.topic
            for asked in topic.partitions:
                partition = self.partitions.get((key, asked.partition))
                if partition is None:
                    partition = SessionPartition(self, name, topic.topic_id, asked)
                    self.partitions[key, asked.partition] = partition
                    self._watch(partition)
                else:
                    partition.ask(asked)
                self.to_look_at[partition] = None
        for gone in forgotten:
            key = gone.topic_id if self.uses_topic_ids else gone.topic
            for index in gone.partitions:
                removed = self.partitions.pop((key, index), None)
                if removed is not None:
                    self.to_look_at.pop(removed, None)
                    self._unwatch(removed)

    def look_around(self, elapsed_ms: int) -> None:
        """Mark some partitions that did not move too: the share of ROUND_MS that has elapsed.

        Each look keeps a follower caught up, and lets it join the in-sync replicas, also where nothing is written. To
        look at all partitions each time would cost more than the fetch.
        """
        for _ in range(-(-len(self.partitions) * min(elapsed_ms, ROUND_MS) // ROUND_MS)):
            if not self._round:
                self._round = list(self.partitions.values())
            partition = self._round.pop()
            key = partition.topic_id if self.uses_topic_ids else partition.topic
            if key is not None and self.partitions.get((key, partition.partition)) is partition:
                self.to_look_at[partition] = None

    def resolve_names(self, name_of: TopicName) -> None:
        """Look up unknown topic ids again. Their partitions are in `to_look_at`, because errors stay there."""
        for partition in self.to_look_at:
            if partition.topic is None:
                partition.topic = name_of(partition.topic_id)
                self._watch(partition)

    def watch(self) -> None:
        """Watch all partitions from now on."""
        if not self.is_watching:
            self.is_watching = True
            for partition in self.partitions.values():
                self._watch(partition)

    def close(self) -> None:
        """Watch no more, unless a fetch still waits: that fetch closes the session at its end."""
        if self.is_watching and self.on_moved is None:
            for partition in self.partitions.values():
                self._unwatch(partition)
            self.is_watching = False

    def looked_at(self, partition: SessionPartition, reading: ReadResult) -> None:
        """Keep a partition to look at only if it has an error, more records, or records that are not confirmed."""
        keep = reading.error != ErrorCode.NONE or reading.is_diverging or not reading.is_exhausted
        if reading.size > 0 or not keep:
            self.to_look_at.pop(partition, None)
        if reading.size > 0:
            # At the end, so that the others come first where there are more records than fit.
            self.to_look_at[partition] = None

    def _watch(self, partition: SessionPartition) -> None:
        if self.is_watching and partition.topic is not None:
            self._signal.watch(TopicPartition(partition.topic, partition.partition), self.what, partition)

    def _unwatch(self, partition: SessionPartition) -> None:
        if self.is_watching and partition.topic is not None:
            self._signal.unwatch(TopicPartition(partition.topic, partition.partition), self.what, partition)


class FetchKind(Enum):
    """How a fetch uses sessions."""

    SESSIONLESS = 1
    FULL = 2
    INCREMENTAL = 3


class FetchContext:
    """One fetch: its session, and the results that its response names."""

    __slots__ = ("_cache", "_on_moved", "epoch", "kind", "session")

    def __init__(self, cache: "FetchSessionCache", kind: FetchKind, session: FetchSession) -> None:
        self._cache = cache
        self.kind = kind
        self.session = session
        self.epoch = session.epoch
        self._on_moved: Callable[[SessionPartition], None] | None = None

    def wait(self, on_moved: Callable[[SessionPartition], None]) -> None:
        """Call `on_moved` with each partition that moves, until `end`."""
        self._on_moved = on_moved
        self.session.on_moved = on_moved
        self.session.watch()

    def conclude(
        self, readings: Iterable[tuple[SessionPartition, ReadResult]], now_ms: int
    ) -> tuple[ErrorCode, int, Readings]:
        """Return the error, the session id and the results of the response; the session remembers them."""
        session = self.session
        if self.kind is FetchKind.SESSIONLESS:
            return ErrorCode.NONE, NO_SESSION, list(readings)
        if self.kind is FetchKind.INCREMENTAL and session.epoch != self.epoch:
            # Another request of this session arrived while this one waited.
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, []
        named = self.news(readings)
        if self.kind is FetchKind.FULL:
            self._cache.maybe_add(session, now_ms)
        return ErrorCode.NONE, session.id, named

    def news(self, readings: Iterable[tuple[SessionPartition, ReadResult]]) -> Readings:
        """Return the results that the response names; the session remembers them."""
        session, is_full = self.session, self.kind is FetchKind.FULL
        named = []
        for partition, reading in readings:
            if is_full or partition.is_news(reading):
                named.append((partition, reading))
            partition.remember(reading)
            session.looked_at(partition, reading)
        return named

    def end(self) -> None:
        """End the wait of the fetch, and close a session that is not cached."""
        session = self.session
        # A later fetch of the same session may have set its own callback.
        if session.on_moved is self._on_moved:
            session.on_moved = None
        if not session.is_cached:
            session.close()


class FetchSessionCache:
    """All sessions, at most `slots` of them."""

    def __init__(self, slots: int, signal: OffsetSignal, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._signal = signal
        self._new_id = new_id
        # Least recently used first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, request: FetchRequest, version: int, what: int, *, is_follower: bool, now_ms: int, name_of: TopicName
    ) -> FetchContext | ErrorCode:
        """Return the context of a request, or an error; a new session watches for moves of `what`."""
        uses_topic_ids = version >= TOPIC_IDS_FROM_VERSION
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._remove(request.session_id)
            kind = FetchKind.SESSIONLESS if request.session_epoch == FINAL_EPOCH else FetchKind.FULL
        else:
            known = self._sessions.get(request.session_id)
            if known is None:
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if known.epoch != request.session_epoch:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH
            if known.uses_topic_ids != uses_topic_ids:
                return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
            known.update(request.topics, request.forgotten_topics_data, name_of)
            if known.partitions:
                known.resolve_names(name_of)
                if known.is_privileged:
                    known.look_around(now_ms - known.last_used_ms)
                known.epoch = next_epoch(known.epoch)
                self._touch(known, now_ms)
                return FetchContext(self, FetchKind.INCREMENTAL, known)
            self._remove(known.id)
            kind = FetchKind.SESSIONLESS
        session = FetchSession(self._signal, what, is_privileged=is_follower, uses_topic_ids=uses_topic_ids)
        session.update(request.topics, (), name_of)
        return FetchContext(self, kind, session)

    def maybe_add(self, session: FetchSession, now_ms: int) -> None:
        """Cache the session with a new id, if a slot is free or another session can be evicted."""
        if len(self._sessions) >= self._slots and not self._evict(session, now_ms):
            return
        while session.id == NO_SESSION or session.id in self._sessions:
            session.id = self._new_id()
        session.epoch = next_epoch(INITIAL_EPOCH)
        session.created_ms = now_ms
        session.is_cached = True
        self._sessions[session.id] = session
        self._touch(session, now_ms)
        session.watch()

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        session.last_used_ms = now_ms
        session.cached_size = len(session.partitions)
        self._sessions.move_to_end(session.id)

    def _evict(self, newcomer: FetchSession, now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            victim = oldest
        else:
            candidates = [
                (session.is_privileged, session.cached_size, session.id)
                for session in self._sessions.values()
                if now_ms - session.created_ms > EVICTION_MS or (newcomer.is_privileged and not session.is_privileged)
            ]
            least = min(candidates, default=None)
            if least is None or (newcomer.is_privileged, len(newcomer.partitions), 0) < least:
                return False
            victim = self._sessions[least[2]]
        self._remove(victim.id)
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.is_cached = False
            session.close()
