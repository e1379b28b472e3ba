"""What clients ask of the controller: topics to create, enlarge and delete, leaders to elect, and the replies that wait
until it is done.

Owns these waits and their time-outs. Must not know how the controller does it; it is handed the results.
Counterparts in Kafka: ZkAdminManager, DelayedCreatePartitions, DelayedDeleteTopics, DelayedElectLeader.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.broker.clock import Clock, Timer
from ottla.broker.controller.topics import NewTopic
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.request_context import Deferred
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.types import ZERO_UUID, TopicPartition

K = TypeVar("K")
T = TypeVar("T")


class TopicOutcome(NamedTuple):
    """What became of a topic that was to be created: an error, or the topic as it is to be.

    One that is there but took too long has an error and an id.
    """

    error: KafkaError | None = None
    topic: NewTopic | None = None
    topic_id: bytes = ZERO_UUID


CreateReply = Deferred[Mapping[str, TopicOutcome]]
DeleteReply = Deferred[Mapping[str, ErrorCode]]
ElectReply = Deferred[Mapping[TopicPartition, KafkaError | None]]


class CreateTopics(NamedTuple):
    """Somebody wants topics created."""

    topics: Sequence[CreatableTopic]
    timeout_ms: int
    validate_only: bool
    reply: CreateReply


class CreatePartitions(NamedTuple):
    """Somebody wants topics to have more partitions."""

    topics: Sequence[CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool
    reply: CreateReply


class DeleteTopics(NamedTuple):
    """Somebody wants topics deleted."""

    names: Collection[str]
    timeout_ms: int
    reply: DeleteReply


class ElectLeaders(NamedTuple):
    """Somebody wants the preferred replicas of partitions to lead; or, `unclean`, anybody where nobody does."""

    partitions: Collection[TopicPartition]
    unclean: bool
    timeout_ms: int
    reply: ElectReply


class AutoCreate(NamedTuple):
    """Somebody asked for topics that there are not."""

    topics: Sequence[NewTopic]


class _Wait(Generic[K, T]):
    """A reply that waits for some topics, or for some partitions.

    For each topic `open` holds the number of partitions that must have a leader; for each partition, who is to lead it.
    """

    __slots__ = ("finish", "open", "reply", "timer")

    def __init__(self, open_: dict[K, int], reply: Deferred[T], finish: Callable[[Collection[K]], T]) -> None:
        self.open = open_
        self.reply = reply
        self.finish = finish
        self.timer: Timer | None = None


class TopicWaits:
    """All replies that wait."""

    def __init__(self, clock: Clock, metadata: MetadataCache) -> None:
        self._clock = clock
        self._metadata = metadata
        self._creations: dict[_Wait[str, Mapping[str, TopicOutcome]], None] = {}
        self._deletions: dict[_Wait[str, Mapping[str, ErrorCode]], None] = {}
        self._elections: dict[_Wait[TopicPartition, Mapping[TopicPartition, KafkaError | None]], None] = {}

    def wait_for_leaders(self, request: CreateTopics | CreatePartitions, outcomes: Mapping[str, TopicOutcome]) -> None:
        """Reply when all partitions of each topic have leaders; REQUEST_TIMED_OUT for those that take too long."""
        if request.validate_only:
            request.reply.complete(outcomes)
            return
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT)

        def finish(still_open: Collection[str]) -> Mapping[str, TopicOutcome]:
            return {
                name: outcome._replace(error=late, topic=None) if name in still_open else outcome
                for name, outcome in outcomes.items()
            }

        created = {name: len(outcome.topic.assignment) for name, outcome in outcomes.items() if outcome.topic}
        wait = _Wait(created, request.reply, finish)
        if request.timeout_ms > 0:
            self._settle(wait, list(created))
        self._park(wait, self._creations, request.timeout_ms)

    def wait_until_gone(self, request: DeleteTopics, errors: Mapping[str, ErrorCode]) -> None:
        """Reply when each topic that is to be deleted is gone; REQUEST_TIMED_OUT for those that take too long."""

        def finish(still_open: Collection[str]) -> Mapping[str, ErrorCode]:
            late = ErrorCode.REQUEST_TIMED_OUT
            return {name: late if name in still_open else error for name, error in errors.items()}

        to_delete = {name: 0 for name, error in errors.items() if error is ErrorCode.NONE}
        self._park(_Wait(to_delete, request.reply, finish), self._deletions, request.timeout_ms)

    def wait_for_elected(self, request: ElectLeaders, outcomes: Mapping[TopicPartition, int | KafkaError]) -> None:
        """Reply when whoever was elected is known to lead; REQUEST_TIMED_OUT for those that take too long."""

        def finish(still_open: Collection[TopicPartition]) -> Mapping[TopicPartition, KafkaError | None]:
            late = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            return {
                partition: outcome if isinstance(outcome, KafkaError) else late if partition in still_open else None
                for partition, outcome in outcomes.items()
            }

        elected = {partition: each for partition, each in outcomes.items() if isinstance(each, int)}
        wait = _Wait(elected, request.reply, finish)
        self._settle_elected(wait)
        self._park(wait, self._elections, request.timeout_ms)

    def metadata_changed(self, topics: Collection[str]) -> None:
        """Look again at who waits for these topics' leaders."""
        for wait in list(self._creations):
            self._settle(wait, topics)
            self._finish_if_done(wait, self._creations)
        for election in list(self._elections):
            self._settle_elected(election)
            self._finish_if_done(election, self._elections)

    def topics_gone(self, topics: Iterable[str]) -> None:
        """Take in that nothing is left of topics, or that what is left cannot be deleted now."""
        for topic in topics:
            for wait in list(self._deletions):
                wait.open.pop(topic, None)
                self._finish_if_done(wait, self._deletions)

    def _settle(self, wait: _Wait[str, Mapping[str, TopicOutcome]], topics: Iterable[str]) -> None:
        for name in topics:
            partitions = self._metadata.partitions(name)
            if len(partitions) >= wait.open.get(name, 0) and all(each.leader >= 0 for each in partitions.values()):
                wait.open.pop(name, None)

    def _settle_elected(self, wait: _Wait[TopicPartition, T]) -> None:
        for partition, leader in list(wait.open.items()):
            known = self._metadata.partition(*partition)
            if known is not None and known.leader == leader:
                del wait.open[partition]

    def _park(self, wait: _Wait[K, T], waits: dict[_Wait[K, T], None], timeout_ms: int) -> None:
        if not wait.open or timeout_ms <= 0:
            wait.reply.complete(wait.finish(wait.open))
            return
        waits[wait] = None
        wait.timer = self._clock.call_later(timeout_ms / 1000, lambda: self._expire(wait, waits))
        wait.reply.on_abandon = lambda: self._drop(wait, waits)

    def _expire(self, wait: _Wait[K, T], waits: dict[_Wait[K, T], None]) -> None:
        waits.pop(wait, None)
        wait.reply.complete(wait.finish(wait.open))

    def _finish_if_done(self, wait: _Wait[K, T], waits: dict[_Wait[K, T], None]) -> None:
        if not wait.open:
            self._drop(wait, waits)
            wait.reply.complete(wait.finish(()))

    def _drop(self, wait: _Wait[K, T], waits: dict[_Wait[K, T], None]) -> None:
        waits.pop(wait, None)
        if wait.timer is not None:
            wait.timer.cancel()
