"""Requests of clients to the controller, and their replies.

Owns that every request gets a reply. Its timer starts before the work. Each topic or partition has an outcome when the
work ends, even by an exception. The reply is complete when all partitions have leaders or topics are gone, or after the
timeout. Must not know how the controller works; it passes the outcomes.
Counterparts in Kafka: ZkAdminManager, DelayedCreatePartitions, DelayedDeleteTopics, DelayedElectLeader.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.controller.topic_plans import NewTopic
from ottla.broker.loop.clock import Clock, Timer
from ottla.broker.loop.deferred import Deferred
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.types import ZERO_UUID, TopicPartition

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")
W = TypeVar("W", CreatableTopic, CreatePartitionsTopic)


class TopicOutcome(NamedTuple):
    """The outcome of a creation: an error, or the planned topic. A topic that was late has an error and an id."""

    error: KafkaError | None = None
    topic: NewTopic | None = None
    topic_id: bytes = ZERO_UUID


CreateReply = Deferred[Mapping[str, TopicOutcome]]
DeleteReply = Deferred[Mapping[str, ErrorCode]]
ElectReply = Deferred[Mapping[TopicPartition, KafkaError | None]]


class PendingRequest(Generic[R]):
    """A request to the controller with its reply. The event loop calls `end` after the work, whatever was raised."""

    def __init__(self) -> None:
        self.reply: Deferred[R] = Deferred(applied=False)

    def end(self, failure: KafkaError) -> None:
        """Complete the reply, unless it waits for something. `failure` is the outcome where there is none yet."""
        raise NotImplementedError


class ClientRequest(PendingRequest[Mapping[K, T]], Generic[K, T]):
    """A client's request about topics or partitions: the `keys`, each with an outcome of its own.

    The reply waits for the `open` keys. The value of a topic is the number of partitions that must have a leader; that
    of a partition is the elected leader.
    """

    def __init__(self, waits: "TopicWaits", keys: Collection[K], timeout_ms: int) -> None:
        super().__init__()
        self.keys = keys
        self.timeout_ms = timeout_ms
        self.outcomes: dict[K, T] = {}
        self.open: dict[K, int] = {}
        self._has_ended = False
        self._waits = waits
        waits.requests[self] = None
        self.reply.on_abandon = self._drop
        # Without a timeout the reply is complete when the work ends.
        self._timer: Timer | None = None
        if timeout_ms > 0:
            self._timer = waits.clock.call_later(timeout_ms / 1000, self._complete)

    def failed(self, key: K, error: KafkaError) -> T:
        """Return the outcome of a key that failed."""
        raise NotImplementedError

    def check(self, metadata: MetadataCache, topics: Iterable[str] | None = None) -> None:
        """Remove the open keys of these topics, None for all, whose partitions have leaders in the metadata."""

    def end(self, failure: KafkaError) -> None:
        """Give keys without an outcome `failure`, then reply if no key is open."""
        for key in self.keys:
            if key not in self.outcomes:
                self.outcomes[key] = self.failed(key, failure)
        self._has_ended = True
        self.check(self._waits.metadata)
        self.reply_if_done()

    def reply_if_done(self) -> None:
        """Reply if the work is done, and either no key is open or there is no timeout."""
        if self._has_ended and (not self.open or self.timeout_ms <= 0):
            self._complete()

    def _complete(self) -> None:
        """Reply now, with REQUEST_TIMED_OUT for open keys."""
        self._drop()
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        is_late = self.open.keys() | (set(self.keys) - self.outcomes.keys())
        self.reply.complete(
            {key: self.failed(key, late) if key in is_late else self.outcomes[key] for key in self.keys}
        )

    def _drop(self) -> None:
        self._waits.requests.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()


class _Creation(ClientRequest[str, TopicOutcome], Generic[W]):
    """New partitions; the reply waits until they have leaders."""

    def __init__(self, waits: "TopicWaits", topics: Sequence[W], timeout_ms: int, *, validate_only: bool) -> None:
        super().__init__(waits, [topic.name for topic in topics], timeout_ms)
        self.topics: Sequence[W] = topics
        self.validate_only = validate_only

    def created(self, topic: NewTopic, topic_id: bytes = ZERO_UUID) -> None:
        """Note that a topic is in the store, or could be created."""
        self.outcomes[topic.name] = TopicOutcome(topic=topic, topic_id=topic_id)
        if not self.validate_only:
            self.open[topic.name] = len(topic.assignment)

    def failed(self, key: str, error: KafkaError) -> TopicOutcome:
        """Return the error, with the id of a topic that was created."""
        return self.outcomes.get(key, TopicOutcome())._replace(error=error, topic=None)

    def check(self, metadata: MetadataCache, topics: Iterable[str] | None = None) -> None:
        """Remove topics whose partitions all have leaders. Without a timeout they stay, and count as late."""
        if self.timeout_ms <= 0:
            return
        for name in [each for each in (self.open if topics is None else topics) if each in self.open]:
            partitions = metadata.partitions(name)
            if len(partitions) >= self.open[name] and all(each.leader >= 0 for each in partitions.values()):
                del self.open[name]


class CreateTopics(_Creation[CreatableTopic]):
    """A client's CreateTopics."""


class CreatePartitions(_Creation[CreatePartitionsTopic]):
    """A client's CreatePartitions."""


class DeleteTopics(ClientRequest[str, ErrorCode]):
    """A client's DeleteTopics; the reply waits until the topics are gone."""

    def marked(self, name: str) -> None:
        """Note that a topic is marked for deletion."""
        self.outcomes[name] = ErrorCode.NONE
        self.open[name] = 0

    def failed(self, key: str, error: KafkaError) -> ErrorCode:
        """Return the error's code."""
        return error.code


class ElectLeaders(ClientRequest[TopicPartition, KafkaError | None]):
    """A client's ElectLeaders: of preferred replicas; or, `unclean`, of any live replica where there is no leader."""

    def __init__(
        self, waits: "TopicWaits", partitions: Collection[TopicPartition], timeout_ms: int, *, unclean: bool
    ) -> None:
        super().__init__(waits, partitions, timeout_ms)
        self.unclean = unclean

    def elected(self, outcomes: Mapping[TopicPartition, int | KafkaError]) -> None:
        """Note the elected leaders, or the errors."""
        for partition, outcome in outcomes.items():
            if isinstance(outcome, KafkaError):
                self.outcomes[partition] = outcome
            else:
                self.outcomes[partition] = None
                self.open[partition] = outcome

    def failed(self, key: TopicPartition, error: KafkaError) -> KafkaError:
        """Return the error."""
        return error

    def check(self, metadata: MetadataCache, topics: Iterable[str] | None = None) -> None:
        """Remove partitions that have the elected leader."""
        for partition, leader in list(self.open.items()):
            known = metadata.partition(*partition)
            if known is not None and known.leader == leader:
                del self.open[partition]


class TopicWaits:
    """All requests of clients without a reply."""

    def __init__(self, clock: Clock, metadata: MetadataCache) -> None:
        self.clock = clock
        self.metadata = metadata
        self.requests: dict[ClientRequest[Any, Any], None] = {}

    def metadata_changed(self, topics: Collection[str]) -> None:
        """Complete requests that wait for leaders of these topics."""
        for request in list(self.requests):
            request.check(self.metadata, topics)
            request.reply_if_done()

    def topics_gone(self, topics: Iterable[str]) -> None:
        """Complete requests that wait for the deletion of topics that are gone, or cannot be deleted now."""
        deletions = [request for request in self.requests if isinstance(request, DeleteTopics)]
        for topic in topics:
            for request in deletions:
                request.open.pop(topic, None)
                request.reply_if_done()
