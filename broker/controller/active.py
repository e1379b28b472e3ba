"""The active controller, which handles each event from its election to its resignation.

Owns the context, and the order of reading, deciding, writing and sending. Must not know where events come from.
Counterparts in Kafka: the on... and process... methods of KafkaController.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

import trio

from ottla.broker.controller import broker_requests, elections, reassignment, topic_deletion
from ottla.broker.controller.actions import Steps
from ottla.broker.controller.assignment import BrokerPlace
from ottla.broker.controller.client_requests import DeleteTopics
from ottla.broker.controller.context import PartitionPhase, Replica, ReplicaPhase
from ottla.broker.controller.state_machines import (
    begin_partitions,
    begin_replicas,
    move_partitions,
    replicas_new,
    replicas_offline,
    replicas_online,
)
from ottla.broker.controller.store import ControllerMovedError, new_topic_id
from ottla.broker.controller.topic_plans import NewTopic, plan_partitions
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition import AlterPartitionResponse
from ottla.wire.messages.create_partitions import CreatePartitionsTopic
from ottla.wire.messages.leader_and_isr import LeaderAndIsrResponse
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.wire.types import TopicPartition
from ottla.zk import znodes
from ottla.zk.store import EventType

logger = logging.getLogger("kafka.controller.KafkaController")
deletion_logger = logging.getLogger("kafka.controller.TopicDeletionManager")


class ActiveController:
    """The controller while this broker is elected."""

    def __init__(self, steps: Steps, topics_gone: Callable[[Iterable[str]], None]) -> None:
        self.steps = steps
        self.context = steps.context
        self._store = steps.store
        self._queues = steps.queues
        self._topics_gone = topics_gone

    async def begin(self) -> None:
        """Read the cluster, send it to all brokers, and continue the work of the last controller."""
        context = self.context
        await self._store.enable_feature_versioning()
        # Everything that they announce is read below anyway.
        for below in (znodes.LOG_DIR_EVENT_NOTIFICATION, znodes.ISR_CHANGE_NOTIFICATION):
            await self._store.delete(await self._store.notification_paths(below))
        context.brokers = await self._store.brokers({})
        for broker_id in context.brokers:
            self._queues.add(broker_id)
        await self._add_topics(await self._store.topic_names())
        context.leadership = await self._store.partition_states(context.all_partitions())
        # Brokers must know each other before they lead or follow.
        self.steps.send_metadata(context.brokers)
        await self._begin_deletions(await self._store.topics_to_delete())
        batch = self.steps.batch()
        online, offline = begin_replicas(context)
        replicas_online(context, batch, online)
        await self.steps.shrink_isr(batch, replicas_offline(context, batch, offline))
        begin_partitions(context)
        await self.steps.bring_online(batch)
        self.steps.send(batch)
        begun = await reassignment.begin_written(self.steps)
        rest = {each: found for each, found in context.reassignments().items() if each not in begun}
        await reassignment.go_on(self.steps, rest)
        await self._resume_deletions()
        await elections.begin_written(self.steps)

    # Changes in the store

    async def store_changed(self, event: EventType, path: str) -> None:
        """Handle the change of a watched path."""
        match path:
            case znodes.BROKER_IDS:
                await self._brokers_changed()
            case znodes.TOPICS:
                await self.topics_changed()
            case znodes.DELETE_TOPICS:
                await self._deletions_changed()
            case znodes.REASSIGN_PARTITIONS:
                await reassignment.begin_written(self.steps)
            case znodes.PREFERRED_REPLICA_ELECTION:
                await elections.begin_written(self.steps)
            case znodes.ISR_CHANGE_NOTIFICATION:
                await self._isr_changes_written()
            case znodes.LOG_DIR_EVENT_NOTIFICATION:
                await self._log_dirs_failed()
            case _ if event is EventType.DELETED:
                # The watch of its parent handles this.
                pass
            case _ if path.startswith(znodes.BROKER_IDS):
                await self._broker_modified()
            case _ if path.startswith(znodes.TOPICS):
                await self.topic_modified(znodes.name_of(path))

    async def _isr_changes_written(self) -> None:
        """Read in-sync replicas that leaders wrote by themselves, as brokers do before version 2.7-IV2."""
        context = self.context
        paths, changes = await self._store.notifications(znodes.ISR_CHANGE_NOTIFICATION, znodes.decode_partitions)
        known = {each for partitions in changes for each in partitions if each in context.leadership}
        found = await self._store.partition_states(known)
        context.leadership.update(found)
        self.steps.send_metadata(context.brokers, found)
        await self._store.delete(paths)
        await self._go_on_where_in_sync(found)

    async def _log_dirs_failed(self) -> None:
        """Send notifying brokers a LeaderAndIsr of all their replicas; their responses name the offline ones."""
        context = self.context
        below = znodes.LOG_DIR_EVENT_NOTIFICATION
        paths, found = await self._store.notifications(below, znodes.decode_log_dir_event)
        brokers = sorted(set(found) & context.brokers.keys())
        logger.info("Brokers %s have offline replicas; asking which ones", brokers)
        batch = self.steps.batch()
        replicas_online(
            context,
            batch,
            [
                each
                for each in context.replicas_on(brokers)
                if context.is_online(each.broker_id, each.partition, or_shutting_down=True)
            ],
        )
        self.steps.send(batch)
        await self._store.delete(paths)

    # Brokers

    async def _brokers_changed(self) -> None:
        """Handle brokers that started, failed, or restarted before the controller saw the failure."""
        before = self.context.brokers
        now = await self._store.brokers(self.context.brokers)
        new = sorted(now.keys() - before.keys())
        dead = sorted(before.keys() - now.keys())
        bounced = sorted(each for each in now.keys() & before.keys() if now[each].epoch > before[each].epoch)
        if new or dead or bounced:
            logger.info("Brokers: new %s, gone %s, restarted %s, live %s", new, dead, bounced, sorted(now))
        for broker_id in (*dead, *bounced):
            self._queues.remove(broker_id)
        for broker_id in (*new, *bounced):
            self._queues.add(broker_id)
        if new:
            self.context.brokers |= {broker_id: now[broker_id] for broker_id in new}
            await self._brokers_started(new)
        for broker_id in (*bounced, *dead):
            del self.context.brokers[broker_id]
        if bounced or dead:
            await self._brokers_failed([*bounced, *dead])
        if bounced:
            self.context.brokers |= {broker_id: now[broker_id] for broker_id in bounced}
            await self._brokers_started(bounced)

    async def _broker_modified(self) -> None:
        """Send the changed addresses of brokers to all brokers."""
        now = await self._store.brokers(self.context.brokers)
        changed = False
        for broker_id, broker in self.context.brokers.items():
            if broker_id in now and now[broker_id].info != broker.info and now[broker_id].epoch == broker.epoch:
                self.context.brokers[broker_id] = now[broker_id]
                changed = True
        if changed:
            self.steps.send_metadata(self.context.brokers)

    async def _brokers_started(self, broker_ids: Collection[int]) -> None:
        context = self.context
        for broker_id in broker_ids:
            context.offline_directories.pop(broker_id, None)
        self.steps.send_metadata(context.brokers.keys() - set(broker_ids))
        self.steps.send_metadata(broker_ids, context.partitions_with_leaders())
        batch = self.steps.batch()
        replicas = context.replicas_on(broker_ids)
        replicas_online(context, batch, replicas)
        await self.steps.bring_online(batch)
        self.steps.send(batch)
        moving = context.reassignments()
        new = set(broker_ids)
        await reassignment.go_on(
            self.steps, {each: found for each, found in moving.items() if not new.isdisjoint(found.target)}
        )
        topic_deletion.resume_topics(context, {each.partition.topic for each in replicas})
        await self._resume_deletions()

    async def _brokers_failed(self, broker_ids: Collection[int]) -> None:
        context = self.context
        for broker_id in broker_ids:
            context.offline_directories.pop(broker_id, None)
            context.shutting_down.discard(broker_id)
        await self._replicas_failed(context.replicas_on(broker_ids))

    async def _replicas_failed(self, replicas: Sequence[Replica]) -> None:
        context = self.context
        batch = self.steps.batch()
        move_partitions(context, context.partitions_with_offline_leader(), PartitionPhase.OFFLINE)
        await self.steps.bring_online(batch)
        to_stay = [each for each in replicas if each.partition.topic not in context.topics_to_delete]
        await self.steps.shrink_isr(batch, replicas_offline(context, batch, to_stay))
        batch.add_update_metadata(context.brokers)
        self.steps.send(batch)
        stuck = (ReplicaPhase.DELETION_STARTED, ReplicaPhase.OFFLINE)
        going = [each for each in replicas if each.partition.topic in context.topics_to_delete]
        topic_deletion.deletion_failed(context, [each for each in going if context.replica_phases.get(each) in stuck])
        await self._resume_deletions()

    # Topics

    async def topics_changed(self) -> None:
        """Handle created and removed topics, whether a broker or a tool changed them."""
        names = await self._store.topic_names()
        gone = [each for each in self.context.topics if each not in names]
        for topic in gone:
            self.context.remove_topic(topic)
        new = names.difference(self.context.topics)
        if new or gone:
            logger.info("Topics: new %s, gone %s", sorted(new), gone)
        await self._add_topics(new)
        await self._create_partitions([each for topic in new for each in self.context.partitions_of(topic)])

    async def add_partitions(self, wanted: CreatePartitionsTopic, *, validate_only: bool) -> NewTopic:
        """Write a topic's new partitions, and return the topic. `topic_modified` brings them online."""
        context, name = self.context, wanted.name
        if name in context.topics_to_delete:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        found, version = (await self._store.topics([name])).get(name, (None, 0))
        brokers = [BrokerPlace(broker_id, broker.info.rack) for broker_id, broker in context.brokers.items()]
        assignment = plan_partitions(wanted, found, brokers)
        if not validate_only:
            await self._store.set_assignment(name, assignment, version)
        return NewTopic(name, {index: each.replicas for index, each in assignment.partitions.items()}, {})

    async def topic_modified(self, topic: str) -> None:
        """Bring the new partitions of a topic online."""
        context = self.context
        found = (await self._store.topics([topic])).get(topic)
        if found is None or topic not in context.assignments:
            return
        if topic not in context.topic_ids:
            # Its partitions may have leaders, so the controller must read everything again.
            raise ControllerMovedError(f"the znode of topic {topic} is readable again")
        added = {index: each for index, each in found[0].partitions.items() if index not in context.assignments[topic]}
        if added and topic in context.topics_to_delete:
            logger.warning("Topic %s gets no new partitions, because it is being deleted", topic)
        elif added:
            logger.info("Topic %s has the new partitions %s", topic, sorted(added))
            for index, each in added.items():
                context.set_assignment(TopicPartition(topic, index), each)
            await self._create_partitions([TopicPartition(topic, index) for index in added])

    async def _add_topics(self, names: Collection[str]) -> None:
        if not names:
            return
        found = await self._store.topics(names)
        for topic, (assignment, version) in found.items():
            if assignment.topic_id is None:
                # A tool without topic ids created it.
                assignment = assignment._replace(topic_id=new_topic_id())
                await self._store.set_assignment(topic, assignment, version)
            elif (other := self.context.topic_names.get(assignment.topic_id, topic)) != topic:
                logger.error("%s is passed over: its id is that of the topic %s", znodes.topic_path(topic), other)
                self.context.set_topic(topic, None, {})
                continue
            self.context.set_topic(topic, assignment.topic_id, assignment.partitions)
        for topic in found.keys() ^ set(names):
            # Its znode is watched, because somebody may repair it. Until then the topic is empty, and may be deleted.
            self.context.set_topic(topic, None, {})

    async def _create_partitions(self, partitions: Collection[TopicPartition]) -> None:
        if not partitions:
            return
        context = self.context
        batch = self.steps.batch()
        replicas = context.replicas_of(partitions)
        move_partitions(context, partitions, PartitionPhase.NEW)
        replicas_new(context, batch, replicas)
        # Thousands of partitions take a while, so other tasks run between the steps.
        await trio.lowlevel.checkpoint()
        await self.steps.bring_online(batch, partitions)
        await trio.lowlevel.checkpoint()
        replicas_online(context, batch, replicas)
        await trio.lowlevel.checkpoint()
        self.steps.send(batch)

    # Deletions

    async def delete_topics(self, request: DeleteTopics) -> None:
        """Mark topics for deletion, and start their deletion."""
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        known = [name for name in request.keys if name in self.context.assignments]
        for name in request.keys:
            if name not in self.context.assignments:
                request.outcomes[name] = request.failed(name, unknown)
        await self._store.mark_for_deletion(known)
        for name in known:
            request.marked(name)
        await self._deletions_changed()

    async def _deletions_changed(self) -> None:
        """Start the deletion of topics that are marked in the store."""
        await self._begin_deletions(await self._store.topics_to_delete())
        await trio.lowlevel.checkpoint()
        await self._resume_deletions()

    async def _begin_deletions(self, names: Collection[str]) -> None:
        known = {name for name in names if name in self.context.assignments}
        if not self.steps.dynamic.static.delete_topic_enable:
            known = set()
        forgotten = set(names) - known
        if forgotten:
            deletion_logger.warning("Not deleting %s: unknown, or delete.topic.enable is false", sorted(forgotten))
            await self._store.delete(map(znodes.delete_topic_path, forgotten))
        if new := known - self.context.topics_to_delete:
            deletion_logger.info("Deleting the topics %s", sorted(new))
        topic_deletion.begin(self.context, new)

    async def _resume_deletions(self) -> None:
        context = self.context
        if not context.topics_to_delete:
            return
        batch = self.steps.batch()
        finished = topic_deletion.resume(context, batch)
        await trio.lowlevel.checkpoint()
        self.steps.send(batch)
        if finished:
            await self._store.remove_topics(finished)
            for topic in finished:
                deletion_logger.info("Topic %s is deleted", topic)
                context.remove_topic(topic)
        self._topics_gone([*finished, *topic_deletion.halted_for_long(context)])

    # Requests of brokers, and their responses

    async def serve_broker(self, pending: broker_requests.PendingBrokerRequest) -> None:
        """Handle a broker's request. A change of the ISR may complete a reassignment."""
        response = pending.response = await broker_requests.serve(self.steps, pending.request, pending.version)
        if isinstance(response, AlterPartitionResponse):
            partitions = [
                TopicPartition(topic.topic_name, each.partition_index)
                for topic in response.topics
                for each in topic.partitions
            ]
            await self._go_on_where_in_sync(partitions)

    async def _go_on_where_in_sync(self, partitions: Iterable[TopicPartition]) -> None:
        if await reassignment.go_on_where_in_sync(self.steps, partitions):
            await self._resume_deletions()

    async def stop_replica_received(
        self, broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse
    ) -> None:
        """Handle the response to a StopReplica, which says what the broker deleted."""
        to_delete = {
            TopicPartition(topic.topic_name, each.partition_index)
            for topic in request.topic_states
            for each in topic.partition_states
            if each.delete_partition and topic.topic_name in self.context.topics_being_deleted
        }
        if not to_delete:
            return
        failed = {
            TopicPartition(each.topic_name, each.partition_index)
            for each in response.partition_errors
            if each.error_code != ErrorCode.NONE
        }
        if response.error_code != ErrorCode.NONE:
            failed = to_delete
        if halted := failed & to_delete:
            deletion_logger.error("Broker %s could not delete %s; the deletion waits", broker_id, sorted(halted))
            topic_deletion.deletion_failed(self.context, [Replica(each, broker_id) for each in halted])
        topic_deletion.replicas_deleted(self.context, broker_id, to_delete - failed)
        await self._resume_deletions()

    async def leader_and_isr_received(self, broker_id: int, response: LeaderAndIsrResponse) -> None:
        """Handle the response to a LeaderAndIsr, which says which replicas are offline because their disk failed."""
        context = self.context
        if response.error_code != ErrorCode.NONE:
            logger.error("Broker %s refused a LeaderAndIsr request: %s", broker_id, ErrorCode(response.error_code).name)
            return
        before = context.offline_directories.get(broker_id, set())
        now = set(before)
        # Before version 5 the response names topics.
        errors = [(each.topic_name, each) for each in response.partition_errors if not response.topics]
        errors += [
            (context.topic_names[topic.topic_id], each)
            for topic in response.topics
            if topic.topic_id in context.topic_names
            for each in topic.partition_errors
        ]
        for name, each in errors:
            partition = TopicPartition(name, each.partition_index)
            if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                now.add(partition)
            elif each.error_code == ErrorCode.NONE:
                now.discard(partition)
        if now != before:
            context.offline_directories[broker_id] = now
            await self._replicas_failed([Replica(each, broker_id) for each in now - before])

    # Partitions without leaders

    async def bring_online(self) -> None:
        """Elect leaders for all partitions without one."""
        batch = self.steps.batch()
        await self.steps.bring_online(batch)
        self.steps.send(batch)
