"""The controller's task, which handles one event after the other from one channel.

Owns the channel, the broker's candidacy, and the requests to the controller. `active` handles the rest while this
broker is elected. Must not know the wire between brokers, nor connections.
Counterparts in Kafka: ControllerEventManager, and KafkaController's elect, resign and process.

Every broker runs a controller; one of them is active. All events come through the channel: the store's, clients'
requests, brokers' requests and responses. Nothing else changes the controller's knowledge.
"""

import logging
import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import trio

from ottla.broker.cluster.config_description import topic_config
from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_names import check_name
from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.controller import elections, reassignment
from ottla.broker.controller.actions import UNCLEAN_KEY, Steps
from ottla.broker.controller.active import ActiveController
from ottla.broker.controller.assignment import BrokerPlace
from ottla.broker.controller.broker_queues import BrokerQueues, Peer
from ottla.broker.controller.broker_requests import BrokersRequest, BrokersResponse, PendingBrokerRequest
from ottla.broker.controller.client_requests import (
    CreatePartitions,
    CreateReply,
    CreateTopics,
    DeleteReply,
    DeleteTopics,
    ElectLeaders,
    ElectReply,
    PendingRequest,
    TopicOutcome,
    TopicWaits,
)
from ottla.broker.controller.context import ControllerContext
from ottla.broker.controller.reassignment import Reassign, ReassignReply, Wanted, not_controller
from ottla.broker.controller.request_batch import ControlRequest
from ottla.broker.controller.store import ClusterStore, ControllerMovedError, new_topic_id
from ottla.broker.controller.topic_plans import (
    MAX_PARTITIONS_PER_REQUEST,
    Existing,
    NewTopic,
    Rules,
    count_partitions,
    plan_topic,
    topic_by_name,
)
from ottla.broker.loop.clock import Clock, Timer
from ottla.broker.loop.deferred import Deferred
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.messages.leader_and_isr import LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.schema import Response
from ottla.wire.types import TopicPartition
from ottla.zk import znodes
from ottla.zk.store import EventType, NodeExistsError, Session, StoreError, StoreFailedError, WatchEvent

logger = logging.getLogger("kafka.controller.KafkaController")

# As in Kafka, the time between an election and the first rebalance.
_FIRST_REBALANCE_AFTER_SECONDS: Final = 5
_CANDIDATE_AGAIN_AFTER_SECONDS: Final = 1

R = TypeVar("R")


class _ResponseReceived(NamedTuple):
    """A broker has responded to a request of the controller."""

    broker_id: int
    request: ControlRequest
    response: Response


class _AutoCreate(NamedTuple):
    """Topics to create, because clients asked for their metadata."""

    topics: Sequence[NewTopic]


class _UncleanElections(NamedTuple):
    """`unclean.leader.election.enable` is true now, the default of all topics."""


class _Rebalance(NamedTuple):
    """The timer of the next rebalance has fired."""


_Event = _UncleanElections | _Rebalance | WatchEvent | PendingRequest[Any] | _AutoCreate | _ResponseReceived


class Controller:
    """The controller of one broker, active or not."""

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
        # The inter-broker listener, unless the controller has a listener of its own.
        self._listener = (config.values["control.plane.listener.name"] or config.inter_broker_listener_name).upper()
        self._rules = Rules(config.num_partitions, config.default_replication_factor, random_below)
        self._waits = TopicWaits(clock, metadata)
        self._being_created: set[str] = set()
        self._complaints: set[str] = set()
        self._active: ActiveController | None = None
        self._rebalance_timer: Timer | None = None
        self._sender, self._events = trio.open_memory_channel[_Event](math.inf)
        self._store: ClusterStore
        self._queues: BrokerQueues

    # May be called from anywhere on the loop; nothing here waits.

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._active is not None

    def on_store_event(self, event: WatchEvent) -> None:
        """Queue an event of the session that `run` uses."""
        self._put(event)

    def metadata_changed(self, topics: Collection[str]) -> None:
        """Complete requests that wait for leaders of these topics."""
        self._waits.metadata_changed(topics)

    async def unclean_election_changed(self, config: BrokerConfig) -> None:
        """Queue an election of leaders that are not in sync, if the configuration allows them now."""
        if config.values[UNCLEAN_KEY]:
            self._put(_UncleanElections())

    def create_topics(self, topics: Sequence[CreatableTopic], timeout_ms: int, *, validate_only: bool) -> CreateReply:
        """Create topics with distinct names; the reply comes when they have leaders."""
        return self._submit(CreateTopics(self._waits, topics, timeout_ms, validate_only=validate_only))

    def create_partitions(
        self, topics: Sequence[CreatePartitionsTopic], timeout_ms: int, *, validate_only: bool
    ) -> CreateReply:
        """Add partitions to topics with distinct names; the reply comes when they have leaders."""
        return self._submit(CreatePartitions(self._waits, topics, timeout_ms, validate_only=validate_only))

    def delete_topics(self, names: Collection[str], timeout_ms: int) -> DeleteReply:
        """Delete topics; the reply comes when they are gone."""
        return self._submit(DeleteTopics(self._waits, names, timeout_ms))

    def elect_leaders(self, partitions: Collection[TopicPartition], timeout_ms: int, *, unclean: bool) -> ElectReply:
        """Elect leaders; the reply comes when this broker's metadata has them."""
        return self._submit(ElectLeaders(self._waits, partitions, timeout_ms, unclean=unclean))

    def ask(self, request: BrokersRequest, version: int) -> Deferred[BrokersResponse]:
        """Handle a broker's request; return its response."""
        return self._submit(PendingBrokerRequest(request, version))

    def reassign(self, wanted: Wanted) -> ReassignReply:
        """Reassign partitions to other replicas; the reply comes when the reassignments are under way."""
        return self._submit(Reassign(wanted))

    def reassignments(self) -> dict[TopicPartition, znodes.ReplicaAssignment]:
        """Return the partitions whose replicas are changing; KafkaError NOT_CONTROLLER if this one is not active."""
        if self._active is None:
            raise not_controller()
        return self._active.context.reassignments()

    def auto_create(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Create missing topics; return the error of each for the client at once.

        As in Kafka it is LEADER_NOT_AVAILABLE, after which clients ask again.
        """
        answers, planned = {}, []
        existing = self._existing(self._metadata.topics)
        for name in names:
            try:
                check_name(name)
                if name in self._being_created:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                topic = topic_by_name(name, self._dynamic.static.values, len(self._metadata.brokers))
                planned.append(self._plan(topic, existing))
                answers[name] = ErrorCode.LEADER_NOT_AVAILABLE
            except KafkaError as error:
                exists = error.code is ErrorCode.TOPIC_ALREADY_EXISTS
                answers[name] = ErrorCode.LEADER_NOT_AVAILABLE if exists else error.code
                # Clients ask repeatedly; the log has each error once.
                if error.code is ErrorCode.INVALID_REPLICATION_FACTOR and error.detail not in self._complaints:
                    self._complaints.add(error.detail)
                    logger.error("Topic '%s' cannot be created: %s", name, error.detail)
        if planned:
            self._being_created.update(topic.name for topic in planned)
            self._put(_AutoCreate(planned))
        return answers

    def address(self, broker_id: int) -> tuple[str, int] | None:
        """Return the address that the active controller uses for a broker; None if there is none."""
        broker = None if self._active is None else self._active.context.brokers.get(broker_id)
        endpoints = () if broker is None else broker.info.endpoints
        return next(((each.host, each.port) for each in endpoints if each.listener == self._listener), None)

    # The task

    async def run(self, session: Session, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be a candidate, and the controller when elected.

        If this broker is elected at once, it reports started after it got its roles.
        """
        self._store = ClusterStore(session)
        async with trio.open_nursery() as nursery:
            self._queues = BrokerQueues(nursery, self._peers, self._received)
            await self._stand_for_election()
            await self._queues.flush(self._broker_id)
            task_status.started()
            async for event in self._events:
                await self._process(event)

    def _put(self, event: _Event) -> None:
        self._sender.send_nowait(event)

    def _submit(self, request: PendingRequest[R]) -> Deferred[R]:
        self._put(request)
        return request.reply

    def _received(self, broker_id: int, request: ControlRequest, response: Response) -> None:
        self._put(_ResponseReceived(broker_id, request, response))

    async def _process(self, event: _Event) -> None:
        """Handle an event. No failure keeps the next event from its turn."""
        try:
            try:
                await self._handle_and_reply(event)
            except ControllerMovedError:
                self._resign()
                await self._stand_for_election()
        except StoreFailedError as error:
            # The store may have a part of the changes, so the next controller must read everything again.
            logger.error(
                "[Controller id=%d] The store failed at %s: %s. Resigning; a candidate again in %d s",
                self._broker_id,
                type(event).__name__,
                error,
                _CANDIDATE_AGAIN_AFTER_SECONDS,
            )
            self._resign()
            begun = WatchEvent(EventType.BEGUN, "")
            self._clock.call_later(_CANDIDATE_AGAIN_AFTER_SECONDS, lambda: self._put(begun))
        except Exception:
            logger.exception("[Controller id=%d] Failed at %s", self._broker_id, type(event).__name__)

    async def _handle_and_reply(self, event: _Event) -> None:
        """Handle an event. A request is ended, and so gets its reply, whatever is raised."""
        failure = KafkaError(ErrorCode.NOT_CONTROLLER)
        try:
            await self._handle(event)
        except KafkaError as error:
            failure = error
        except ControllerMovedError:
            raise
        except Exception as error:
            failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error) if isinstance(error, StoreError) else "")
            raise
        finally:
            if isinstance(event, PendingRequest):
                event.end(failure)

    async def _handle(self, event: _Event) -> None:
        match event:
            case WatchEvent(type, path):
                await self._handle_store_event(type, path)
            case _AutoCreate(topics):
                await self._auto_create(topics)
            case _ if self._active is not None:
                await self._handle_as_active(event, self._active)

    async def _handle_as_active(self, event: _Event, active: ActiveController) -> None:
        match event:
            case CreateTopics():
                await self._create_topics(event, active)
            case CreatePartitions():
                await self._create_partitions(event, active)
            case DeleteTopics():
                await active.delete_topics(event)
            case ElectLeaders():
                event.elected(await elections.elect_leaders(active.steps, event.keys, unclean=event.unclean))
            case Reassign():
                event.outcomes = {}
                await reassignment.begin(active.steps, event.wanted, event.outcomes)
            case PendingBrokerRequest():
                await active.serve_broker(event)
            case _UncleanElections():
                await active.bring_online()
            case _Rebalance():
                config = self._dynamic.static
                self._rebalance_after(config.leader_imbalance_check_interval_seconds)
                await elections.rebalance(active.steps, config.leader_imbalance_per_broker_percentage)
            case _ResponseReceived(broker_id, StopReplicaRequest() as request, StopReplicaResponse() as response):
                await active.stop_replica_received(broker_id, request, response)
            case _ResponseReceived(broker_id, _, LeaderAndIsrResponse() as response):
                await active.leader_and_isr_received(broker_id, response)

    async def _handle_store_event(self, event: EventType, path: str) -> None:
        if path in (znodes.CONTROLLER, znodes.CONTROLLER_EPOCH):
            await self._moved()
        elif event is EventType.EXPIRED:
            self._resign()
        elif event is EventType.BEGUN:
            await self._stand_for_election()
        elif self._active is not None:
            await self._active.store_changed(event, path)

    # Candidacy

    async def _stand_for_election(self) -> None:
        """Become the controller if there is none, and again if that was undone meanwhile. /controller is watched."""
        if self._active is None:
            # This session may own /controller still: a stranger overwrote its data; or this broker was elected in this
            # session, and resigned when it learnt only then that the last session had expired.
            await self._store.give_up()
        while await self._store.controller_id() is None:
            self._resign()
            try:
                epoch = await self._store.become_controller(self._broker_id, self._clock.now_ms())
                if epoch is None:
                    return
                logger.info("[Controller id=%d] Elected as the controller, with epoch %d", self._broker_id, epoch)
                context = ControllerContext(epoch)
                steps = Steps(self._broker_id, self._dynamic, context, self._store, self._queues)
                self._active = ActiveController(steps, self._waits.topics_gone)
                await self._active.begin()
                self._rebalance_after(_FIRST_REBALANCE_AFTER_SECONDS)
                logger.info("[Controller id=%d] Ready, with epoch %d", self._broker_id, epoch)
            except ControllerMovedError:
                self._resign()
            except Exception:
                # Another controller may succeed.
                try:
                    await self._store.resign()
                finally:
                    self._resign()
                raise

    async def _moved(self) -> None:
        """Handle a change of /controller: resign, and stand for election if the znode is gone."""
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

    # Clients

    def _existing(self, topics: Collection[str]) -> Existing:
        brokers = [BrokerPlace(each.broker_id, each.rack) for each in self._metadata.brokers.values()]
        to_delete = () if self._active is None else self._active.context.topics_to_delete
        return Existing(topics, to_delete, brokers)

    def _plan(self, topic: CreatableTopic, existing: Existing) -> NewTopic:
        """Return the topic to create; KafkaError if it cannot be created."""
        planned = plan_topic(topic, existing, self._rules)
        topic_config(planned.configs, self._dynamic)
        return planned

    async def _create_topics(self, request: CreateTopics, active: ActiveController) -> None:
        if count_partitions(request.topics, self._rules.num_partitions) > MAX_PARTITIONS_PER_REQUEST:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        names = set(active.context.topics)
        existing = self._existing(names)
        planned = []
        for topic in request.topics:
            try:
                plan = self._plan(topic, existing)
            except KafkaError as error:
                request.outcomes[topic.name] = TopicOutcome(error)
                continue
            if request.validate_only:
                request.created(plan)
            else:
                names.add(topic.name)
                planned.append((plan, new_topic_id()))
        if planned:
            for (plan, topic_id), failure in zip(planned, await self._store.create_topics(planned), strict=True):
                if failure is None:
                    request.created(plan, topic_id)
                else:
                    request.outcomes[plan.name] = TopicOutcome(_why_not_created(plan.name, failure))
            await active.topics_changed()

    async def _create_partitions(self, request: CreatePartitions, active: ActiveController) -> None:
        for topic in request.topics:
            try:
                request.created(await active.add_partitions(topic, validate_only=request.validate_only))
            except KafkaError as error:
                request.outcomes[topic.name] = TopicOutcome(error)
            except StoreError as error:
                request.outcomes[topic.name] = TopicOutcome(_why_not_created(topic.name, error))
        for name in list(request.open):
            await active.topic_modified(name)

    async def _auto_create(self, topics: Sequence[NewTopic]) -> None:
        """Write topics, which the active controller of any broker finds."""
        try:
            errors = await self._store.create_topics([(topic, new_topic_id()) for topic in topics])
            for topic, error in zip(topics, errors, strict=True):
                # A client that asks again before all brokers know the topic only needs it to exist.
                if error is not None and not isinstance(error, NodeExistsError):
                    logger.warning("Topic %s was not created: %r", topic.name, error)
            if self._active is not None:
                await self._active.topics_changed()
        finally:
            self._being_created.difference_update(topic.name for topic in topics)


def _why_not_created(name: str, error: StoreError) -> KafkaError:
    if isinstance(error, NodeExistsError):
        return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
