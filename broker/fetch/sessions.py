"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that each fetch names only what changed.

Owns the sessions, the rules of their ids and epochs, their cache, and which partitions a response has to name. Pure:
time and new ids are arguments, partitions are looked at by somebody else. A session keeps the partitions that have to
be looked at (they moved, or the client asked something new); all others have nothing to tell. Must not know logs.
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
# A session unused for so long may be evicted by any other, one as old as that by a larger one.
EVICTION_MS: Final = 120_000
# How long it takes until all partitions of a follower that fetches have been looked at, moved or not.
ROUND_MS: Final = 2000

_LARGEST_EPOCH: Final = 0x7FFFFFFF

TopicName = Callable[[bytes], str | None]
Readings = list[tuple["SessionPartition", ReadResult]]


def next_epoch(epoch: int) -> int:
    """The epoch that the next request of a session has to carry."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _LARGEST_EPOCH else epoch + 1


class SessionPartition:
    """What the client asks of one partition, and what it was told last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "session",
        "told_high_watermark",
        "told_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, session: "FetchSession", topic: str | None, topic_id: bytes, asked: FetchPartition) -> None:
        self.session = session
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.told_high_watermark = -1
        self.told_log_start_offset = -1
        self.ask(asked)

    def ask(self, asked: FetchPartition) -> None:
        """Take what the client asks now."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset

    def partition_moved(self) -> None:
        """The partition has to be looked at; a fetch that waits is told at once."""
        session = self.session
        session.to_look_at[self] = None
        if session.on_moved is not None:
            session.on_moved(self)

    def is_news(self, reading: ReadResult) -> bool:
        """Whether an incremental response has to name the partition."""
        return (
            reading.size > 0
            or reading.high_watermark != self.told_high_watermark
            or reading.log_start_offset != self.told_log_start_offset
            or reading.error != ErrorCode.NONE
            or reading.is_diverging
            or reading.preferred_read_replica >= 0
        )

    def told(self, reading: ReadResult) -> None:
        """Remember what the response says. With an error the partition is named again once the error is gone."""
        self.told_high_watermark = reading.high_watermark if reading.error == ErrorCode.NONE else -1
        self.told_log_start_offset = reading.log_start_offset


class FetchSession:
    """The partitions of one client. One that is in no cache serves a single fetch."""

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
        # A follower's session: it may push out those of consumers.
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.what = what
        self.is_watching = False
        self.partitions: dict[tuple[str | bytes, int], SessionPartition] = {}
        # In the order in which they are to be read: one that gave records goes to the end.
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
        """Have some that did not move looked at too, as many as the time that went by asks for.

        By its fetches a follower stays caught up and may join the in-sync replicas, also where nothing is written. To
        look at all of them each time would cost more than the fetch.
        """
        for _ in range(-(-len(self.partitions) * min(elapsed_ms, ROUND_MS) // ROUND_MS)):
            if not self._round:
                self._round = list(self.partitions.values())
            partition = self._round.pop()
            key = partition.topic_id if self.uses_topic_ids else partition.topic
            if key is not None and self.partitions.get((key, partition.partition)) is partition:
                self.to_look_at[partition] = None

    def resolve_names(self, name_of: TopicName) -> None:
        """Look again for the names of topic ids that nobody knew. They are among those to look at: an error stays."""
        for partition in self.to_look_at:
            if partition.topic is None:
                partition.topic = name_of(partition.topic_id)
                self._watch(partition)

    def watch(self) -> None:
        """Be told of moves from now on."""
        if not self.is_watching:
            self.is_watching = True
            for partition in self.partitions.values():
                self._watch(partition)

    def close(self) -> None:
        """Be told no more, unless a fetch still waits: it closes the session at its end."""
        if self.is_watching and self.on_moved is None:
            for partition in self.partitions.values():
                self._unwatch(partition)
            self.is_watching = False

    def looked_at(self, partition: SessionPartition, reading: ReadResult) -> None:
        """Keep in mind only what has more to tell: an error that may pass, records that are left or not confirmed."""
        keep = reading.error != ErrorCode.NONE or reading.is_diverging or not reading.is_exhausted
        if reading.size > 0 or not keep:
            self.to_look_at.pop(partition, None)
        if reading.size > 0:
            # At the end, so that all get their turn where there is more than fits.
            self.to_look_at[partition] = None

    def _watch(self, partition: SessionPartition) -> None:
        if self.is_watching and partition.topic is not None:
            self._signal.watch(TopicPartition(partition.topic, partition.partition), self.what, partition)

    def _unwatch(self, partition: SessionPartition) -> None:
        if self.is_watching and partition.topic is not None:
            self._signal.unwatch(TopicPartition(partition.topic, partition.partition), self.what, partition)


class FetchKind(Enum):
    """How a fetch stands to its session."""

    SESSIONLESS = 1
    FULL = 2
    INCREMENTAL = 3


class FetchContext:
    """One fetch: the session to read for, and what of the readings its response names."""

    __slots__ = ("_cache", "_on_moved", "epoch", "kind", "session")

    def __init__(self, cache: "FetchSessionCache", kind: FetchKind, session: FetchSession) -> None:
        self._cache = cache
        self.kind = kind
        self.session = session
        self.epoch = session.epoch
        self._on_moved: Callable[[SessionPartition], None] | None = None

    def wait(self, on_moved: Callable[[SessionPartition], None]) -> None:
        """Have `on_moved` called with each partition that moves, until `end`."""
        self._on_moved = on_moved
        self.session.on_moved = on_moved
        self.session.watch()

    def conclude(
        self, readings: Iterable[tuple[SessionPartition, ReadResult]], now_ms: int
    ) -> tuple[ErrorCode, int, Readings]:
        """The error, the session id and the partitions of the response. The session learns what is told."""
        session = self.session
        if self.kind is FetchKind.SESSIONLESS:
            return ErrorCode.NONE, NO_SESSION, list(readings)
        if self.kind is FetchKind.INCREMENTAL and session.epoch != self.epoch:
            # Another request of this session came while this one waited.
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, []
        named = self.tell(readings)
        if self.kind is FetchKind.FULL:
            self._cache.maybe_add(session, now_ms)
        return ErrorCode.NONE, session.id, named

    def tell(self, readings: Iterable[tuple[SessionPartition, ReadResult]]) -> Readings:
        """Have the session learn what is told; the partitions that the response names."""
        session, is_full = self.session, self.kind is FetchKind.FULL
        named = []
        for partition, reading in readings:
            if is_full or partition.is_news(reading):
                named.append((partition, reading))
            partition.told(reading)
            session.looked_at(partition, reading)
        return named

    def end(self) -> None:
        """The fetch waits no more. A session that is in no cache has nobody left."""
        session = self.session
        # A later fetch of the same session may have taken over; it is told from then on.
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
        """The context of a request; `what` is the kind of move that a new session waits for."""
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
        """Give the session an id and a place, if there is one or one can be made."""
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
