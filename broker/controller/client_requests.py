"""What is asked of the controller, and the replies that wait until it is done.

Owns that every request is answered: its timer starts before the work, each topic or partition has its outcome when the
work ends, however it ends, and the reply leaves when what it waits for has come, or when time is up. Must not know how
the controller does it; it is handed the results.
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
    """What became of a topic that was to be created: an error, or the topic as it is to be.

    One that is there but took too long has an error and an id.
    """

    error: KafkaError | None = None
    topic: NewTopic | None = None
    topic_id: bytes = ZERO_UUID


CreateReply = Deferred[Mapping[str, TopicOutcome]]
DeleteReply = Deferred[Mapping[str, ErrorCode]]
ElectReply = Deferred[Mapping[TopicPartition, KafkaError | None]]


class Asked(Generic[R]):
    """A request to the controller, whose event loop calls `end` when the work on it is over, whatever was raised."""

    def __init__(self) -> None:
        self.reply: Deferred[R] = Deferred(applied=False)

    def end(self, failure: KafkaError) -> None:
        """Complete the reply, or leave it to what it waits for; `failure` is the outcome where there is none yet."""
        raise NotImplementedError


class ClientRequest(Asked[Mapping[K, T]], Generic[K, T]):
    """A request of a client for some topics, or for some partitions: the `keys`, each with an outcome of its own.

    The reply waits for those that are `open`. For each topic that is the number of partitions that must have a leader;
    for each partition, who is to lead it.
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
        # A client that allows no time is answered when the work ends.
        self._timer: Timer | None = None
        if timeout_ms > 0:
            self._timer = waits.clock.call_later(timeout_ms / 1000, self._complete)

    def failed(self, key: K, error: KafkaError) -> T:
        """Return the outcome of a key that failed."""
        raise NotImplementedError

    def look(self, metadata: MetadataCache, topics: Iterable[str] | None = None) -> None:
        """Close what has come, as far as these topics are concerned; None: all."""

    def end(self, failure: KafkaError) -> None:
        """Take in that the work is over."""
        for key in self.keys:
            if key not in self.outcomes:
                self.outcomes[key] = self.failed(key, failure)
        self._has_ended = True
        self.look(self._waits.metadata)
        self.complete_if_done()

    def complete_if_done(self) -> None:
        """Reply if there is nothing to wait for, or no time."""
        if self._has_ended and (not self.open or self.timeout_ms <= 0):
            self._complete()

    def _complete(self) -> None:
        """Reply now; what is not done by now is late."""
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
    """New partitions, which the reply waits for until they have leaders."""

    def __init__(self, waits: "TopicWaits", topics: Sequence[W], timeout_ms: int, *, validate_only: bool) -> None:
        super().__init__(waits, [topic.name for topic in topics], timeout_ms)
        self.topics: Sequence[W] = topics
        self.validate_only = validate_only

    def created(self, topic: NewTopic, topic_id: bytes = ZERO_UUID) -> None:
        """Take in that the store has a topic, or that it could be created."""
        self.outcomes[topic.name] = TopicOutcome(topic=topic, topic_id=topic_id)
        if not self.validate_only:
            self.open[topic.name] = len(topic.assignment)

    def failed(self, key: str, error: KafkaError) -> TopicOutcome:
        """Return an error; with the id of a topic that is there."""
        return self.outcomes.get(key, TopicOutcome())._replace(error=error, topic=None)

    def look(self, metadata: MetadataCache, topics: Iterable[str] | None = None) -> None:
        """Close topics whose partitions all have leaders. A client that allows no time is not told of them."""
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
    """Somebody wants topics deleted; the reply waits until nothing is left of them."""

    def marked(self, name: str) -> None:
        """Take in that a topic is going to be deleted."""
        self.outcomes[name] = ErrorCode.NONE
        self.open[name] = 0

    def failed(self, key: str, error: KafkaError) -> ErrorCode:
        """Return the error's code."""
        return error.code


class ElectLeaders(ClientRequest[TopicPartition, KafkaError | None]):
    """Somebody wants the preferred replicas of partitions to lead; or, `unclean`, anybody where nobody does."""

    def __init__(
        self, waits: "TopicWaits", partitions: Collection[TopicPartition], timeout_ms: int, *, unclean: bool
    ) -> None:
        super().__init__(waits, partitions, timeout_ms)
        self.unclean = unclean

    def elected(self, outcomes: Mapping[TopicPartition, int | KafkaError]) -> None:
        """Take in who was elected, or why nobody was."""
        for partition, outcome in outcomes.items():
            if isinstance(outcome, KafkaError):
                self.outcomes[partition] = outcome
            else:
                self.outcomes[partition] = None
                self.open[partition] = outcome

    def failed(self, key: TopicPartition, error: KafkaError) -> KafkaError:
        """Return the error."""
        return error

    def look(self, metadata: MetadataCache, topics: Iterable[str] | None = None) -> None:
        """Close partitions that are known to be led by whoever was elected."""
        for partition, leader in list(self.open.items()):
            known = metadata.partition(*partition)
            if known is not None and known.leader == leader:
                del self.open[partition]


class TopicWaits:
    """All requests of clients that are not answered yet."""

    def __init__(self, clock: Clock, metadata: MetadataCache) -> None:
        self.clock = clock
        self.metadata = metadata
        self.requests: dict[ClientRequest[Any, Any], None] = {}

    def metadata_changed(self, topics: Collection[str]) -> None:
        """Look again at who waits for these topics' leaders."""
        for request in list(self.requests):
            request.look(self.metadata, topics)
            request.complete_if_done()

    def topics_gone(self, topics: Iterable[str]) -> None:
        """Take in that nothing is left of topics, or that what is left cannot be deleted now."""
        deletions = [request for request in self.requests if isinstance(request, DeleteTopics)]
        for topic in topics:
            for request in deletions:
                request.open.pop(topic, None)
                request.complete_if_done()
