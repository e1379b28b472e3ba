"""The controller's task: one event after the other, through one channel.

Owns the channel, the broker's candidacy for controller, and what clients ask of the controller. What the active one
does is in `active`. Must not know the wire between brokers, nor connections.
Counterparts in Kafka: ControllerEventManager, and KafkaController's elect, resign and process.

Every broker runs one; that of one broker is active. All events, the store's, the clients' and the brokers' answers,
come through the one channel, and what the controller knows changes nowhere else.
"""

import logging
import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from ottla.broker.clock import Clock, Timer
from ottla.broker.config import BrokerConfig
from ottla.broker.controller.active import ActiveController, why_not_created
from ottla.broker.controller.admin import (
    AutoCreate,
    CreatePartitions,
    CreateReply,
    CreateTopics,
    DeleteReply,
    DeleteTopics,
    ElectLeaders,
    ElectReply,
    TopicOutcome,
    TopicWaits,
)
from ottla.broker.controller.assignment import BrokerPlace
from ottla.broker.controller.broker_requests import BrokerAsks, BrokersRequest, BrokersResponse, not_active
from ottla.broker.controller.cluster_store import ClusterStore, ControllerMovedError, new_topic_id
from ottla.broker.controller.context import ControllerContext
from ottla.broker.controller.peers import BrokerQueues, Peer
from ottla.broker.controller.reassignment import Reassign, ReassignReply, Wanted
from ottla.broker.controller.request_batch import ControlRequest
from ottla.broker.controller.steps import UNCLEAN_KEY, Settings
from ottla.broker.controller.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    Existing,
    NewTopic,
    Rules,
    check_name,
    count_partitions,
    plan_topic,
    topic_by_name,
)
from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.request_context import Deferred
from ottla.log.config import LogConfig
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.messages.leader_and_isr import LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.schema import Response
from ottla.wire.types import TopicPartition
from ottla.zk import znodes
from ottla.zk.store import EventType, NodeExistsError, Session, StoreError, WatchEvent

logger = logging.getLogger("kafka.controller.KafkaController")

_NOT_CONTROLLER: Final = "This is not the correct controller for this cluster."
# What Kafka's controllers wait before they look for the first time.
_FIRST_REBALANCE_AFTER_SECONDS: Final = 5


class _Answer(NamedTuple):
    """A broker has answered."""

    broker_id: int
    request: ControlRequest
    response: Response


class _UncleanElections(NamedTuple):
    """Partitions would now rather lose records than wait, unless their topics say otherwise."""


class _Rebalance(NamedTuple):
    """It is time to look whether partitions are led by those who should."""


_Event = (
    _UncleanElections
    | _Rebalance
    | WatchEvent
    | CreateTopics
    | CreatePartitions
    | DeleteTopics
    | ElectLeaders
    | AutoCreate
    | Reassign
    | BrokerAsks
    | _Answer
)


class Controller:
    """One broker's controller, active or not."""

    def __init__(
        self,
        dynamic: DynamicConfig,
        clock: Clock,
        metadata: MetadataCache,
        *,
        broker_id: int,
        peers: Callable[[int], Peer],
        random_below: Callable[[int], int] = random.randrange,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._metadata = metadata
        self._peers = peers
        self._dynamic = dynamic
        config = dynamic.static
        self._settings = Settings(
            broker_id,
            config.inter_broker_listener_name,
            config.delete_topic_enable,
            lambda: bool(dynamic.current.values[UNCLEAN_KEY]),
            new_topic_id,
        )
        # That of brokers, unless the controller has one of its own.
        self._listener = (config.values["control.plane.listener.name"] or config.inter_broker_listener_name).upper()
        self._rules = Rules(config.num_partitions, config.default_replication_factor, self._check_configs, random_below)
        self._waits = TopicWaits(clock, metadata)
        self._being_created: set[str] = set()
        self._complaints: set[str] = set()
        self._active: ActiveController | None = None
        self._rebalance_timer: Timer | None = None
        self._sender, self._events = trio.open_memory_channel[_Event](math.inf)
        self._store: ClusterStore
        self._queues: BrokerQueues

    # What may be called from anywhere on the loop; nothing here waits.

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._active is not None

    def on_store_event(self, event: WatchEvent) -> None:
        """Take an event of the session that `run` is given."""
        self._put(event)

    def metadata_changed(self, topics: Collection[str]) -> None:
        """Take in that this broker was told something new of topics."""
        self._waits.metadata_changed(topics)

    async def unclean_election_changed(self, config: BrokerConfig) -> None:
        """Take in whether partitions may have leaders that are not in sync."""
        if config.values[UNCLEAN_KEY]:
            self._put(_UncleanElections())

    def create_topics(self, topics: Sequence[CreatableTopic], timeout_ms: int, *, validate_only: bool) -> CreateReply:
        """Have topics, no two of one name, created; the reply comes when they have leaders."""
        reply: CreateReply = Deferred(applied=False)
        self._put(CreateTopics(topics, timeout_ms, validate_only, reply))
        return reply

    def create_partitions(
        self, topics: Sequence[CreatePartitionsTopic], timeout_ms: int, *, validate_only: bool
    ) -> CreateReply:
        """Have partitions added to topics, no two of one name; the reply comes when they have leaders."""
        reply: CreateReply = Deferred(applied=False)
        self._put(CreatePartitions(topics, timeout_ms, validate_only, reply))
        return reply

    def delete_topics(self, names: Collection[str], timeout_ms: int) -> DeleteReply:
        """Have topics deleted; the reply comes when they are gone."""
        reply: DeleteReply = Deferred(applied=False)
        self._put(DeleteTopics(names, timeout_ms, reply))
        return reply

    def elect_leaders(self, partitions: Collection[TopicPartition], timeout_ms: int, *, unclean: bool) -> ElectReply:
        """Have leaders elected; the reply comes when they are known to lead."""
        reply: ElectReply = Deferred(applied=False)
        self._put(ElectLeaders(partitions, unclean, timeout_ms, reply))
        return reply

    def ask(self, request: BrokersRequest, version: int) -> Deferred[BrokersResponse]:
        """Have done what a broker asks of the controller."""
        reply: Deferred[BrokersResponse] = Deferred(applied=False)
        self._put(BrokerAsks(request, version, reply))
        return reply

    def reassign(self, wanted: Wanted) -> ReassignReply:
        """Have partitions come to other replicas; the reply comes when that has begun."""
        reply: ReassignReply = Deferred(applied=False)
        self._put(Reassign(wanted, reply))
        return reply

    def reassignments(self) -> dict[TopicPartition, znodes.ReplicaAssignment]:
        """Return the partitions whose replicas are changing; KafkaError NOT_CONTROLLER if another one knows."""
        if self._active is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, _NOT_CONTROLLER)
        return self._active.context.reassignments()

    def auto_create(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Have topics created that a client has only asked for; return what it is answered, at once.

        LEADER_NOT_AVAILABLE, as Kafka says: ask again.
        """
        answers, planned = {}, []
        for name in names:
            try:
                check_name(name)
                if name in self._being_created:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                topic = topic_by_name(name, self._dynamic.static.values, len(self._metadata.brokers))
                planned.append(plan_topic(topic, self._existing(self._metadata.topics), self._rules))
                answers[name] = ErrorCode.LEADER_NOT_AVAILABLE
            except KafkaError as error:
                exists = error.code is ErrorCode.TOPIC_ALREADY_EXISTS
                answers[name] = ErrorCode.LEADER_NOT_AVAILABLE if exists else error.code
                # Clients ask over and over; an operator is told once.
                if error.code is ErrorCode.INVALID_REPLICATION_FACTOR and error.detail not in self._complaints:
                    self._complaints.add(error.detail)
                    logger.error("Topic '%s' cannot be created: %s", name, error.detail)
        if planned:
            self._being_created.update(topic.name for topic in planned)
            self._put(AutoCreate(planned))
        return answers

    def address(self, broker_id: int) -> tuple[str, int] | None:
        """Return where the active controller reaches a broker; None if it knows of none."""
        broker = None if self._active is None else self._active.context.brokers.get(broker_id)
        endpoints = () if broker is None else broker.info.endpoints
        return next(((each.host, each.port) for each in endpoints if each.listener == self._listener), None)

    # The task

    async def run(self, session: Session, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be a candidate, and the controller when elected; started when this broker was told all that it is to do."""
        self._store = ClusterStore(session)
        async with trio.open_nursery() as nursery:
            self._queues = BrokerQueues(nursery, self._peers, self._answered)
            await self._stand_for_election()
            await self._queues.flush(self._broker_id)
            task_status.started()
            async for event in self._events:
                try:
                    await self._take(event)
                except ControllerMovedError:
                    self._resign()
                    await self._stand_for_election()
                except Exception:
                    logger.exception("[Controller id=%d] Failed at %s", self._broker_id, type(event).__name__)

    def _put(self, event: _Event) -> None:
        self._sender.send_nowait(event)

    def _answered(self, broker_id: int, request: ControlRequest, response: Response) -> None:
        self._put(_Answer(broker_id, request, response))

    async def _take(self, event: _Event) -> None:
        match event:
            case WatchEvent(type, path):
                await self._take_store_event(type, path)
            case CreateTopics():
                await self._create_topics(event)
            case CreatePartitions():
                await self._create_partitions(event)
            case DeleteTopics():
                await self._delete_topics(event)
            case ElectLeaders():
                await self._elect_leaders(event)
            case Reassign():
                await self._reassign(event)
            case BrokerAsks():
                await self._answer_broker(event)
            case AutoCreate(topics):
                await self._auto_create(topics)
            case _UncleanElections() if self._active is not None:
                await self._active.bring_online()
            case _Rebalance():
                await self._rebalance()
            case _Answer(broker_id, request, response):
                await self._take_answer(broker_id, request, response)

    async def _take_store_event(self, event: EventType, path: str) -> None:
        if path in (znodes.CONTROLLER, znodes.CONTROLLER_EPOCH):
            await self._moved()
        elif event is EventType.EXPIRED:
            self._resign()
        elif event is EventType.BEGUN:
            await self._stand_for_election()
        elif self._active is not None:
            await self._active.store_changed(event, path)

    async def _take_answer(self, broker_id: int, request: ControlRequest, response: Response) -> None:
        if self._active is None:
            return
        if isinstance(request, StopReplicaRequest) and isinstance(response, StopReplicaResponse):
            await self._active.replicas_stopped(broker_id, request, response)
        elif isinstance(response, LeaderAndIsrResponse):
            await self._active.leaders_answered(broker_id, response)

    # Candidacy

    async def _stand_for_election(self) -> None:
        """Become the controller, if nobody is; again, if that was undone meanwhile. Whoever is, its end is seen."""
        if self._active is None:
            # A stranger may have written something else into what is this one's still; or it was elected in this
            # session before it heard that the last one had expired, and then resigned.
            await self._store.give_up()
        while await self._store.controller_id() is None:
            self._resign()
            try:
                elected = await self._store.become_controller(self._broker_id, self._clock.now_ms())
                if elected is None:
                    return
                epoch, version = elected
                logger.info("[Controller id=%d] Elected as the controller, with epoch %d", self._broker_id, epoch)
                context = ControllerContext(epoch, version)
                self._active = ActiveController(
                    self._settings, context, self._store, self._queues, self._waits.topics_gone
                )
                await self._active.begin()
                self._rebalance_after(_FIRST_REBALANCE_AFTER_SECONDS)
                logger.info("[Controller id=%d] Ready, with epoch %d", self._broker_id, epoch)
            except ControllerMovedError:
                self._resign()
            except Exception:
                # Whoever comes next may know better.
                await self._store.resign()
                self._resign()
                raise

    async def _moved(self) -> None:
        """Take in that /controller changed; a new election is open when it is gone."""
        if self._active is not None and await self._store.controller_id() == self._broker_id:
            return
        self._resign()
        await self._stand_for_election()

    def _resign(self) -> None:
        if self._active is not None:
            logger.info("[Controller id=%d] Resigned", self._broker_id)
        self._active = None
        if self._rebalance_timer is not None:
            self._rebalance_timer.cancel()
        self._queues.clear()
        self._store.lose()

    def _rebalance_after(self, seconds: float) -> None:
        config = self._dynamic.static
        if config.auto_leader_rebalance_enable:
            if self._rebalance_timer is not None:
                self._rebalance_timer.cancel()
            self._rebalance_timer = self._clock.call_later(seconds, lambda: self._put(_Rebalance()))

    async def _rebalance(self) -> None:
        config = self._dynamic.static
        if self._active is not None:
            self._rebalance_after(config.leader_imbalance_check_interval_seconds)
            await self._active.rebalance(config.leader_imbalance_per_broker_percentage)

    # Clients

    def _existing(self, topics: Collection[str]) -> Existing:
        brokers = [BrokerPlace(each.broker_id, each.rack) for each in self._metadata.brokers.values()]
        to_delete = () if self._active is None else self._active.context.topics_to_delete
        return Existing(topics, to_delete, brokers)

    def _check_configs(self, configs: Mapping[str, str]) -> None:
        try:
            LogConfig.from_topic(configs, self._dynamic.log_defaults)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    async def _create_topics(self, request: CreateTopics) -> None:
        outcomes: dict[str, TopicOutcome] = {}
        active = self._active
        try:
            if active is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            if count_partitions(request.topics, self._rules.num_partitions) > MAX_PARTITIONS_PER_REQUEST:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            names = set(active.context.topics)
            for topic in request.topics:
                outcomes[topic.name] = self._plan(topic, names)
                if outcomes[topic.name].error is None and not request.validate_only:
                    names.add(topic.name)
            planned = [outcome.topic for outcome in outcomes.values() if outcome.topic is not None]
            if not request.validate_only and planned:
                outcomes |= await self._write_topics(active, planned)
        except KafkaError as error:
            outcomes = {topic.name: TopicOutcome(error) for topic in request.topics}
        except ControllerMovedError:
            outcomes = {topic.name: TopicOutcome(KafkaError(ErrorCode.NOT_CONTROLLER)) for topic in request.topics}
            self._waits.wait_for_leaders(request, outcomes)
            raise
        self._waits.wait_for_leaders(request, outcomes)

    def _plan(self, topic: CreatableTopic, names: Collection[str]) -> TopicOutcome:
        try:
            return TopicOutcome(topic=plan_topic(topic, self._existing(names), self._rules))
        except KafkaError as error:
            return TopicOutcome(error)

    async def _write_topics(self, active: ActiveController, topics: Sequence[NewTopic]) -> dict[str, TopicOutcome]:
        outcomes = {}
        for topic, (topic_id, error) in zip(topics, await active.create_topics(topics), strict=True):
            if error is None:
                outcomes[topic.name] = TopicOutcome(topic=topic, topic_id=topic_id)
            else:
                outcomes[topic.name] = TopicOutcome(KafkaError(*why_not_created(topic.name, error)))
        return outcomes

    async def _create_partitions(self, request: CreatePartitions) -> None:
        moved = TopicOutcome(KafkaError(ErrorCode.NOT_CONTROLLER))
        outcomes = {topic.name: moved for topic in request.topics}
        try:
            if self._active is not None:
                for topic in request.topics:
                    outcomes[topic.name] = await self._add_partitions(self._active, topic, request.validate_only)
        finally:
            self._waits.wait_for_leaders(request, outcomes)

    async def _add_partitions(
        self, active: ActiveController, topic: CreatePartitionsTopic, validate_only: bool
    ) -> TopicOutcome:
        try:
            return TopicOutcome(topic=await active.add_partitions(topic, validate_only=validate_only))
        except KafkaError as error:
            return TopicOutcome(error)
        except StoreError as error:
            return TopicOutcome(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))

    async def _delete_topics(self, request: DeleteTopics) -> None:
        errors = dict.fromkeys(request.names, ErrorCode.NOT_CONTROLLER)
        try:
            if self._active is not None:
                errors = await self._active.delete_topics(request.names)
        finally:
            self._waits.wait_until_gone(request, errors)
            if self._active is not None:
                self._waits.topics_gone(self._active.gone_or_halted(request.names))

    async def _elect_leaders(self, request: ElectLeaders) -> None:
        moved: int | KafkaError = KafkaError(ErrorCode.NOT_CONTROLLER)
        outcomes = dict.fromkeys(request.partitions, moved)
        try:
            if self._active is not None:
                outcomes = await self._active.elect_leaders(request.partitions, unclean=request.unclean)
        finally:
            self._waits.wait_for_elected(request, outcomes)

    async def _reassign(self, event: Reassign) -> None:
        outcomes: Mapping[TopicPartition, KafkaError | None] | KafkaError
        outcomes = KafkaError(ErrorCode.NOT_CONTROLLER, _NOT_CONTROLLER)
        try:
            if self._active is not None:
                outcomes = await self._active.reassign(event.wanted)
        finally:
            event.reply.complete(outcomes)

    async def _answer_broker(self, event: BrokerAsks) -> None:
        if self._active is None:
            event.reply.complete(not_active(event.request))
        else:
            await self._active.answer(event)

    async def _auto_create(self, topics: Sequence[NewTopic]) -> None:
        """Write topics; whichever broker's controller is active finds them."""
        try:
            errors: Sequence[StoreError | None]
            if self._active is not None:
                errors = [error for _, error in await self._active.create_topics(topics)]
            else:
                errors = await self._store.create_topics([(topic, new_topic_id()) for topic in topics])
            for topic, error in zip(topics, errors, strict=True):
                # Whoever asks again before all brokers have heard of the topic wants no more than that it be there.
                if error is not None and not isinstance(error, NodeExistsError):
                    logger.warning("Topic %s was not created: %r", topic.name, error)
        finally:
            self._being_created.difference_update(topic.name for topic in topics)
