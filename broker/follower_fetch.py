"""What a follower asks one leader, and what it does about the answers.

Owns, for each partition that follows this leader, what is to be asked next: records; where the leader's log ends and
starts, if the position was out of its range; nothing for a while, after an error. Where the own log ends it asks the
log itself each time: there is no second copy of it that could differ. Pure: requests and decisions are values, carried
out by somebody else, and an answer to what was asked in an earlier leader epoch decides nothing. Must not know
connections, partitions, nor how long anything takes.
Counterparts in Kafka: AbstractFetcherThread, RemoteLeaderEndPoint. Since 2.7 leaders say in a Fetch where logs part
(KIP-595), and no older version is spoken here, so nobody asks OffsetForLeaderEpoch before.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
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

_TOPIC_IDS_FROM_VERSION: Final = 13
_LATEST_TIMESTAMP: Final = -1
_EARLIEST_TIMESTAMP: Final = -2
# Both sides learn of a change of leader at their own time.
_EXPECTED: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER})


class Epochs(Protocol):
    """Which leader epochs a log holds."""

    @property
    def latest(self) -> int:
        """The newest, -1 if none is known."""


class FollowerLog(Protocol):
    """What has to be known of the follower's own log."""

    @property
    def topic_id(self) -> bytes | None:
        """None for a log from before there were any."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that counts."""

    @property
    def log_end_offset(self) -> int:
        """The offset to fetch next."""

    @property
    def leader_epochs(self) -> Epochs:
        """Its epochs."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above this one, and its end; -1 and -1 if there is none."""


class Wants(Enum):
    """What is to be asked next for a partition."""

    RECORDS = 0
    LEADER_END = 1
    LEADER_START = 2


class Followed:
    """A partition in one leader epoch. Another epoch makes another one of these."""

    __slots__ = ("leader_epoch", "log", "rests_until", "topic_partition", "wants")

    def __init__(self, topic_partition: TopicPartition, leader_epoch: int, log: FollowerLog) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self.log = log
        self.wants = Wants.RECORDS
        self.rests_until = float("-inf")


class Append(NamedTuple):
    """Append what the leader has, possibly nothing, and take over what it says of itself."""

    followed: Followed
    records: memoryview
    high_watermark: int
    log_start_offset: int


class TruncateTo(NamedTuple):
    """Drop all from this offset on: the leader has something else there, or nothing."""

    followed: Followed
    offset: int


class StartAt(NamedTuple):
    """Drop all, and go on at this offset: the leader has nothing older."""

    followed: Followed
    offset: int


Decision = Append | TruncateTo | StartAt


class FetchSettings(NamedTuple):
    """What all requests of this broker have in common. Versions are those of `inter.broker.protocol.version`."""

    broker_id: int
    fetch_version: int
    list_offsets_version: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    backoff_seconds: float


class Question(NamedTuple):
    """A request, its version, and for whom it asks: each with its log end at that time."""

    request: Request
    version: int
    asked: Mapping[tuple[str | bytes, int], tuple[Followed, int]]


class FollowerFetch:
    """The partitions that follow one leader. In the order in which they are asked for: who got records goes last."""

    def __init__(self, settings: FetchSettings) -> None:
        self._settings = settings
        self._followed: dict[TopicPartition, Followed] = {}

    def __len__(self) -> int:
        return len(self._followed)

    def follow(
        self, topic_partition: TopicPartition, leader_epoch: int, log: FollowerLog, high_watermark: int
    ) -> TruncateTo | None:
        """Replicate from now on, in this leader epoch; returns what is to be done before.

        Where a log has lost its epochs, no leader can say where it parts: what is not committed has to go.
        """
        followed = self._followed[topic_partition] = Followed(topic_partition, leader_epoch, log)
        has_epochs = log.leader_epochs.latest >= 0
        return None if has_epochs or log.log_end_offset <= high_watermark else TruncateTo(followed, high_watermark)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Ask no more for it."""
        self._followed.pop(topic_partition, None)

    def is_followed(self, followed: Followed) -> bool:
        """Whether it is followed still, in the same epoch."""
        return self._followed.get(followed.topic_partition) is followed

    def drop(self, followed: Followed) -> None:
        """It cannot go on like this: ask no more until the controller says something new."""
        if self.is_followed(followed):
            del self._followed[followed.topic_partition]

    def rest(self, followed: Followed, now: float) -> None:
        """Something went wrong that may pass: ask again after a while, for records."""
        followed.wants = Wants.RECORDS
        if followed.rests_until <= now:
            followed.rests_until = now + self._settings.backoff_seconds

    def rest_all(self, now: float) -> None:
        """The leader cannot be asked."""
        for followed in self._followed.values():
            self.rest(followed, now)

    def wakes_at(self) -> float:
        """When the first of those that rest is to be asked for again."""
        return min((followed.rests_until for followed in self._followed.values()), default=float("inf"))

    # Asking

    def next_question(self, now: float, broker_epoch: int) -> Question | None:
        """What to ask the leader now; None if there is nothing."""
        ready = [followed for followed in self._followed.values() if followed.rests_until <= now]
        for wanted, timestamp in ((Wants.LEADER_END, _LATEST_TIMESTAMP), (Wants.LEADER_START, _EARLIEST_TIMESTAMP)):
            some = [followed for followed in ready if followed.wants is wanted]
            if some:
                return self._ask_offsets(some, timestamp)
        return self._ask_records(ready, broker_epoch) if ready else None

    def _ask_records(self, ready: Sequence[Followed], broker_epoch: int) -> Question:
        settings = self._settings
        version = settings.fetch_version
        if version >= _TOPIC_IDS_FROM_VERSION and any(followed.log.topic_id is None for followed in ready):
            version = _TOPIC_IDS_FROM_VERSION - 1
        asked: dict[tuple[str | bytes, int], tuple[Followed, int]] = {}
        topics: dict[str | bytes, FetchTopic] = {}
        for followed in ready:
            name, index = followed.topic_partition
            log = followed.log
            topic_id = log.topic_id or ZERO_UUID
            key = topic_id if version >= _TOPIC_IDS_FROM_VERSION else name
            asked[key, index] = followed, log.log_end_offset
            partitions = topics.setdefault(key, FetchTopic(topic=name, topic_id=topic_id, partitions=[])).partitions
            assert isinstance(partitions, list)
            partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=followed.leader_epoch,
                    fetch_offset=log.log_end_offset,
                    last_fetched_epoch=log.leader_epochs.latest,
                    log_start_offset=log.log_start_offset,
                    partition_max_bytes=settings.partition_max_bytes,
                )
            )
        request = FetchRequest(
            replica_id=settings.broker_id,
            replica_state=ReplicaState(replica_id=settings.broker_id, replica_epoch=broker_epoch),
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            topics=list(topics.values()),
        )
        return Question(request, version, asked)

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
        asked: dict[tuple[str | bytes, int], tuple[Followed, int]] = {
            each.topic_partition: (each, each.log.log_end_offset) for each in some
        }
        return Question(request, self._settings.list_offsets_version, asked)

    # Deciding

    def decide(self, question: Question, response: Response, now: float) -> Iterator[Decision]:
        """What to do about an answer, one partition after the other.

        Each decision is to be carried out before the next one is taken: it is made on what is followed, and on where
        its log ends, at that moment.
        """
        for followed, answer in self._answers(question, response, now):
            code = answer.error_code
            if code == ErrorCode.NONE:
                decision = self._decide(followed, answer, now)
                if decision is not None:
                    yield decision
            elif code == ErrorCode.OFFSET_OUT_OF_RANGE and followed.wants is Wants.RECORDS:
                followed.wants = Wants.LEADER_END
            elif code == ErrorCode.FENCED_LEADER_EPOCH:
                logger.info("%s waits for its new leader epoch", followed.topic_partition)
                self.drop(followed)
            else:
                level = logging.DEBUG if code in _EXPECTED else logging.WARNING
                logger.log(level, "%s rests, its leader answers with error %d", followed.topic_partition, code)
                self.rest(followed, now)

    def _answers(
        self, question: Question, response: Response, now: float
    ) -> Iterator[tuple[Followed, PartitionData | ListOffsetsPartitionResponse]]:
        """The answers that still have to do with what is followed, each looked at when it is taken."""
        found: Iterable[tuple[tuple[str | bytes, int], PartitionData | ListOffsetsPartitionResponse]]
        if isinstance(response, FetchResponse):
            if response.error_code != ErrorCode.NONE:
                logger.warning("The leader answers a fetch with error %d", response.error_code)
                self.rest_all(now)
                return
            by_id = question.version >= _TOPIC_IDS_FROM_VERSION
            found = (
                ((topic.topic_id if by_id else topic.topic, data.partition_index), data)
                for topic in response.responses
                for data in topic.partitions
            )
        else:
            assert isinstance(response, ListOffsetsResponse)
            found = (
                ((topic.name, data.partition_index), data) for topic in response.topics for data in topic.partitions
            )
        for key, data in found:
            followed, offset = question.asked.get(key, (None, 0))
            if followed is not None and self.is_followed(followed) and followed.log.log_end_offset == offset:
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
                # Where there is more than one answer holds, all get their turn.
                del self._followed[followed.topic_partition]
                self._followed[followed.topic_partition] = followed
            return Append(followed, memoryview(records), answer.high_watermark, answer.log_start_offset)
        if followed.wants is Wants.LEADER_END:
            if answer.offset < end:
                # Its leader was elected without being in sync.
                followed.wants = Wants.RECORDS
                return TruncateTo(followed, answer.offset)
            followed.wants = Wants.LEADER_START
            return None
        if answer.offset > end:
            followed.wants = Wants.RECORDS
            return StartAt(followed, answer.offset)
        # It is in the leader's range now.
        self.rest(followed, now)
        return None


def truncation_offset(log: FollowerLog, epoch: int, leader_end_offset: int) -> int:
    """Up to where a log may hold what its leader holds, which knows `epoch` up to `leader_end_offset`.

    `epoch` is the leader's largest that is not above the follower's last. Where the follower does not have it, its own
    epochs above the one before cannot be the leader's, and the next answer tells of an older one.
    """
    own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
    if own_epoch == epoch:
        return min(own_end_offset, leader_end_offset, log.log_end_offset)
    if own_end_offset < 0:
        return min(leader_end_offset, log.log_end_offset)
    return min(own_end_offset, log.log_end_offset)
