"""What followers ask one leader, and the decisions on its responses.

Owns, for each partition that follows the leader, the next question: for records; for the end and the start of the
leader's log, if the position was out of range; or none for a while, after an error or while throttled. Owns the fetch
session (KIP-227) too, in which a request names only what changed. The position is read from the log each time, because
a copy could differ. Pure: requests and decisions are values, and an answer from an earlier leader epoch decides
nothing. Must not know connections, partitions, quotas, nor how long anything takes.
Counterparts in Kafka: AbstractFetcherThread, RemoteLeaderEndPoint. Leaders return the point of divergence in a Fetch
(KIP-595) since 2.7, and older versions are not used here, so that OffsetForLeaderEpoch is not needed.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from ottla.broker.fetch.sessions import INITIAL_EPOCH, NO_SESSION, TOPIC_IDS_FROM_VERSION, next_epoch
from ottla.broker.loop.hindrance import Hindrance
from ottla.wire.errors import ErrorCode, error_name
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.schema import Request, Response
from ottla.wire.types import ZERO_UUID, TopicPartition

logger = logging.getLogger("kafka.server.ReplicaFetcherThread")

_LATEST_TIMESTAMP: Final = -1
_EARLIEST_TIMESTAMP: Final = -2
# Expected for a moment, because leader and follower hear of a new leader at different times.
_EXPECTED: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER})


class Epochs(Protocol):
    """The leader epochs of a log."""

    @property
    def latest(self) -> int:
        """The newest epoch; NO_EPOCH if there is none."""


class FollowerLog(Protocol):
    """The follower's log."""

    @property
    def topic_id(self) -> bytes | None:
        """None for a log from before topic ids."""

    @property
    def log_start_offset(self) -> int:
        """The first offset."""

    @property
    def log_end_offset(self) -> int:
        """The offset to fetch next."""

    @property
    def leader_epochs(self) -> Epochs:
        """The epochs of the log."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to this one, and its end; -1 and -1 if there is none."""


class Wants(Enum):
    """The next question for a partition."""

    RECORDS = 0
    LEADER_END = 1
    LEADER_START = 2


class Followed:
    """A partition in one leader epoch. Each epoch has its own object."""

    __slots__ = (
        "hindrance",
        "leader_epoch",
        "leader_high_watermark",
        "log",
        "rests_until",
        "topic_id",
        "topic_partition",
        "wants",
    )

    def __init__(self, topic_partition: TopicPartition, leader_epoch: int, log: FollowerLog) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self.log = log
        self.topic_id = log.topic_id or ZERO_UUID
        self.wants = Wants.RECORDS
        self.rests_until = float("-inf")
        # None until the first response.
        self.leader_high_watermark: int | None = None
        self.hindrance = Hindrance(
            logger, topic_partition, "cannot follow its leader for now", "follows its leader again"
        )

    @property
    def is_in_sync(self) -> bool:
        """Whether the log ends at the leader's high watermark or later."""
        known = self.leader_high_watermark
        return known is not None and self.log.log_end_offset >= known


class Append(NamedTuple):
    """Append the leader's records, which may be none, and take over its offsets."""

    followed: Followed
    records: memoryview
    high_watermark: int
    log_start_offset: int


class TruncateTo(NamedTuple):
    """Delete all records from the offset on, because the leader has others there, or none."""

    followed: Followed
    offset: int


class StartAt(NamedTuple):
    """Delete all records and continue at the offset, because the leader has no older records."""

    followed: Followed
    offset: int


Decision = Append | TruncateTo | StartAt


class FetchSettings(NamedTuple):
    """The settings of all requests of this broker. The versions are those of `inter.broker.protocol.version`."""

    broker_id: int
    fetch_version: int
    list_offsets_version: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    backoff_seconds: float


class Asked(NamedTuple):
    """The position that the leader was asked for."""

    followed: Followed
    position: FetchPartition


class Question(NamedTuple):
    """A request and its version, all positions that it stands for, and the names of its topic ids."""

    request: Request
    version: int
    asked: Mapping[TopicPartition, Asked]
    names: Mapping[bytes, str]


IsThrottled = Callable[[TopicPartition], bool]


class FollowerFetch:
    """The partitions that follow one leader."""

    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings
        # In the order of reading for a leader without a session: a partition that got records goes to the end.
        self._followed: dict[TopicPartition, Followed] = {}
        self._nameless: set[TopicPartition] = set()
        self._resting: dict[TopicPartition, Followed] = {}
        self._seeking: dict[TopicPartition, Followed] = {}
        # Throttled partitions, which are left out; chosen anew with each question.
        self._held: frozenset[TopicPartition] = frozenset()
        self._holds_until = float("inf")
        # The fetch session: the positions that the leader remembers, and the partitions that may have others by now.
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self._session: dict[TopicPartition, Asked] = {}
        self._names: dict[bytes, str] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._refusal = Hindrance(logger, "Fetching from a leader", "fails as a whole", "succeeds again")

    def __len__(self) -> int:
        return len(self._followed)

    def follow(
        self, topic_partition: TopicPartition, leader_epoch: int, log: FollowerLog, high_watermark: int
    ) -> TruncateTo | None:
        """Fetch for a partition in this leader epoch; return a truncation to carry out first, if any.

        A log without epochs is truncated to its high watermark, because no leader can tell where it diverges.
        """
        self.unfollow(topic_partition)
        followed = self._followed[topic_partition] = Followed(topic_partition, leader_epoch, log)
        if log.topic_id is None:
            self._nameless.add(topic_partition)
        has_epochs = log.leader_epochs.latest >= 0
        return None if has_epochs or log.log_end_offset <= high_watermark else TruncateTo(followed, high_watermark)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch for a partition no more."""
        self._changed[topic_partition] = None
        self._followed.pop(topic_partition, None)
        self._nameless.discard(topic_partition)
        self._resting.pop(topic_partition, None)
        self._seeking.pop(topic_partition, None)

    def is_followed(self, followed: Followed) -> bool:
        """Whether the partition is still followed in the same epoch."""
        return self._followed.get(followed.topic_partition) is followed

    def drop(self, followed: Followed) -> None:
        """Fetch for a partition no more in this epoch, because it failed."""
        if self.is_followed(followed):
            self.unfollow(followed.topic_partition)

    def rest(self, followed: Followed, now: float) -> None:
        """Ask for records again after the backoff, because of an error that may pass."""
        if self.is_followed(followed):
            self._want(followed, Wants.RECORDS)
            if followed.rests_until <= now:
                followed.rests_until = now + self._settings.backoff_seconds
                self._resting[followed.topic_partition] = followed

    def failed(self, now: float) -> None:
        """Let all partitions rest, because the leader cannot be reached."""
        self._end_session()
        for followed in self._followed.values():
            self.rest(followed, now)

    def wakes_at(self) -> float:
        """Return the time at which the first partition stops resting or may be throttled no more."""
        return min([self._holds_until, *(followed.rests_until for followed in self._resting.values())])

    def _want(self, followed: Followed, wants: Wants) -> None:
        followed.wants = wants
        self._changed[followed.topic_partition] = None
        if wants is Wants.RECORDS:
            self._seeking.pop(followed.topic_partition, None)
        else:
            self._seeking[followed.topic_partition] = followed

    # Asking

    def next_question(self, now: float, broker_epoch: int, is_throttled: IsThrottled | None = None) -> Question | None:
        """Return the next request to the leader; None if there is nothing to ask.

        `is_throttled` is given while the quota is exceeded. Throttled partitions are left out then, but for those in
        sync, which would leave the in-sync replicas otherwise.
        """
        for followed in tuple(self._resting.values()):
            if followed.rests_until <= now:
                del self._resting[followed.topic_partition]
                self._changed[followed.topic_partition] = None
        for wanted, timestamp in ((Wants.LEADER_END, _LATEST_TIMESTAMP), (Wants.LEADER_START, _EARLIEST_TIMESTAMP)):
            some = [followed for followed in self._seeking.values() if followed.wants is wanted]
            if some:
                return self._ask_offsets(some, timestamp)
        if is_throttled is not None or self._held:
            self._hold(is_throttled, now)
        return self._ask_records(broker_epoch)

    def _hold(self, is_throttled: IsThrottled | None, now: float) -> None:
        held: frozenset[TopicPartition] = frozenset()
        if is_throttled is not None:
            held = frozenset(
                each.topic_partition
                for each in self._followed.values()
                if not each.is_in_sync and is_throttled(each.topic_partition)
            )
        self._changed |= dict.fromkeys(held ^ self._held)
        self._held = held
        self._holds_until = now + self._settings.backoff_seconds if held else float("inf")

    def _ask_records(self, broker_epoch: int) -> Question | None:
        settings = self._settings
        version = settings.fetch_version
        if self._nameless:
            version = min(version, TOPIC_IDS_FROM_VERSION - 1)
        if self._session_epoch == INITIAL_EPOCH:
            self._session, self._names = {}, {}
            self._changed = dict.fromkeys(self._followed)
        by_id = version >= TOPIC_IDS_FROM_VERSION
        topics, forgotten = self._changes(by_id)
        if not self._session:
            self._end_session()
            return None
        request = FetchRequest(
            replica_id=settings.broker_id,
            replica_state=ReplicaState(replica_id=settings.broker_id, replica_epoch=broker_epoch),
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        return Question(request, version, self._session, self._names)

    def _changes(self, by_id: bool) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Return the changes since the last request of the session: added or moved positions, and forgotten ones."""
        topics: dict[str | bytes, FetchTopic] = {}
        added: dict[str | bytes, list[FetchPartition]] = {}
        forgotten: dict[str | bytes, ForgottenTopic] = {}
        removed: dict[str | bytes, list[int]] = {}
        changed, self._changed = self._changed, {}
        for topic_partition in changed:
            name, index = topic_partition
            before = self._session.pop(topic_partition, None)
            followed = self._followed.get(topic_partition)
            if followed is not None and not self._is_asked_for(followed):
                followed = None
            if before is not None and (followed is None or (by_id and followed.topic_id != before.followed.topic_id)):
                topic_id = before.followed.topic_id
                key = topic_id if by_id else name
                indexes = removed.setdefault(key, [])
                indexes.append(index)
                forgotten.setdefault(key, ForgottenTopic(topic=name, topic_id=topic_id, partitions=indexes))
            if followed is not None:
                position = self._position(followed)
                self._session[topic_partition] = Asked(followed, position)
                if before is None or before.position != position or before.followed.topic_id != followed.topic_id:
                    key = followed.topic_id if by_id else name
                    self._names[followed.topic_id] = name
                    positions = added.setdefault(key, [])
                    positions.append(position)
                    topics.setdefault(key, FetchTopic(topic=name, topic_id=followed.topic_id, partitions=positions))
        return list(topics.values()), list(forgotten.values())

    def _is_asked_for(self, followed: Followed) -> bool:
        topic_partition = followed.topic_partition
        is_held = topic_partition in self._resting or topic_partition in self._held
        return followed.wants is Wants.RECORDS and not is_held

    def _position(self, followed: Followed) -> FetchPartition:
        log = followed.log
        return FetchPartition(
            partition=followed.topic_partition.partition,
            current_leader_epoch=followed.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.leader_epochs.latest,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=self._settings.partition_max_bytes,
        )

    def _ask_offsets(self, some: Sequence[Followed], timestamp: int) -> Question:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for followed in some:
            name, index = followed.topic_partition
            topics.setdefault(name, []).append(
                ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
                )
            )
        request = ListOffsetsRequest(
            replica_id=self._settings.broker_id,
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        asked = {each.topic_partition: Asked(each, self._position(each)) for each in some}
        return Question(request, self._settings.list_offsets_version, asked, {})

    def _end_session(self) -> None:
        """Begin a new session with the next request, which ends this one."""
        self._session_epoch = INITIAL_EPOCH

    # Deciding

    def decide(self, question: Question, response: Response, now: float) -> Iterator[Decision]:
        """Yield a decision for each partition of a response that needs one.

        Carry out each decision before the next one is taken, because a decision depends on what is followed, and on
        the log end, at that moment.
        """
        if isinstance(response, FetchResponse) and not self._goes_on(response, now):
            return
        for followed, answer in self._answers(question, response):
            code = answer.error_code
            if code == ErrorCode.NONE:
                decision = self._decide(followed, answer, now)
                if decision is not None:
                    yield decision
            elif code == ErrorCode.OFFSET_OUT_OF_RANGE and followed.wants is Wants.RECORDS:
                self._want(followed, Wants.LEADER_END)
            elif code == ErrorCode.FENCED_LEADER_EPOCH:
                logger.info("%s waits for its new leader epoch", followed.topic_partition)
                self.drop(followed)
            else:
                followed.hindrance.met(f"the leader answers {error_name(code)}", may_pass=code in _EXPECTED)
                self.rest(followed, now)

    def _goes_on(self, response: FetchResponse, now: float) -> bool:
        """Update the session from a response; return whether the response has answers for partitions."""
        was_full = self._session_epoch == INITIAL_EPOCH
        if response.error_code == ErrorCode.NONE:
            # Without an id the leader keeps no session: it had no slot, or evicted this one.
            self._session_id = response.session_id
            self._session_epoch = next_epoch(self._session_epoch) if response.session_id else INITIAL_EPOCH
            self._refusal.passed()
            return True
        self._refusal.met(f"the leader answers {error_name(response.error_code)}", may_pass=True)
        # If the leader does not know the session, or knows another epoch of it, a new one is tried at once.
        self._end_session()
        if was_full:
            self.failed(now)
        return False

    def _answers(
        self, question: Question, response: Response
    ) -> Iterator[tuple[Followed, PartitionData | ListOffsetsPartitionResponse]]:
        """Yield the answers for partitions that are still followed and have not moved since the question."""
        found: Iterable[tuple[str | None, PartitionData | ListOffsetsPartitionResponse]]
        if isinstance(response, FetchResponse):
            by_id = question.version >= TOPIC_IDS_FROM_VERSION
            found = (
                (question.names.get(topic.topic_id) if by_id else topic.topic, data)
                for topic in response.responses
                for data in topic.partitions
            )
        else:
            assert isinstance(response, ListOffsetsResponse)
            found = ((topic.name, data) for topic in response.topics for data in topic.partitions)
        for name, data in found:
            asked = None if name is None else question.asked.get(TopicPartition(name, data.partition_index))
            if asked is not None:
                followed = asked.followed
                self._changed[followed.topic_partition] = None
                if self.is_followed(followed) and followed.log.log_end_offset == asked.position.fetch_offset:
                    yield followed, data

    def _decide(
        self, followed: Followed, answer: PartitionData | ListOffsetsPartitionResponse, now: float
    ) -> Decision | None:
        end = followed.log.log_end_offset
        if isinstance(answer, PartitionData):
            diverging = answer.diverging_epoch
            if diverging.epoch >= 0:
                return TruncateTo(followed, truncation_offset(followed.log, diverging.epoch, diverging.end_offset))
            records = answer.records or b""
            assert isinstance(records, bytes | memoryview)
            if records:
                # To the end, so that all partitions get records where one response does not hold all.
                del self._followed[followed.topic_partition]
                self._followed[followed.topic_partition] = followed
            followed.leader_high_watermark = answer.high_watermark
            return Append(followed, memoryview(records), answer.high_watermark, answer.log_start_offset)
        if followed.wants is Wants.LEADER_END:
            if answer.offset < end:
                # The leader was elected without being in sync.
                self._want(followed, Wants.RECORDS)
                return TruncateTo(followed, answer.offset)
            self._want(followed, Wants.LEADER_START)
            return None
        if answer.offset > end:
            self._want(followed, Wants.RECORDS)
            return StartAt(followed, answer.offset)
        # The position is in the leader's range now.
        self.rest(followed, now)
        return None


def truncation_offset(log: FollowerLog, epoch: int, leader_end_offset: int) -> int:
    """Return the offset to truncate a log to, if its leader has `epoch` up to `leader_end_offset`.

    `epoch` is the leader's largest up to the follower's last. If the follower does not have it, the follower's later
    epochs are not the leader's: they are truncated, and the next response names an older epoch.
    """
    own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
    if own_epoch == epoch:
        return min(own_end_offset, leader_end_offset, log.log_end_offset)
    if own_end_offset < 0:
        return min(leader_end_offset, log.log_end_offset)
    return min(own_end_offset, log.log_end_offset)
