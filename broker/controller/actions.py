"""The steps that the active controller's actions consist of: begin a batch of requests, write states, send the batch.

Owns the writes of many partitions' states, with retries where a leader changed its ISR meanwhile. Must not know the
reason of a change. Counterparts in Kafka: ZkPartitionStateMachine, ZkReplicaStateMachine, as far as they write.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import trio

from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.controller.broker_queues import BrokerQueues
from ottla.broker.controller.context import ControllerContext, PartitionPhase, Replica
from ottla.broker.controller.leader_choice import after_failure
from ottla.broker.controller.request_batch import RequestBatch
from ottla.broker.controller.state_machines import Choose, elect, isr_shrunk, leaders_written, new_leaders, shrink_isr
from ottla.broker.controller.store import ClusterStore
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.controller.KafkaController")

UNCLEAN_KEY: Final = "unclean.leader.election.enable"


class Steps:
    """The steps, over one context, store and set of queues."""

    def __init__(
        self,
        broker_id: int,
        dynamic: DynamicConfig,
        context: ControllerContext,
        store: ClusterStore,
        queues: BrokerQueues,
    ) -> None:
        self.dynamic = dynamic
        self.context = context
        self.store = store
        self.queues = queues
        self._broker_id = broker_id

    def batch(self) -> RequestBatch:
        """Return an empty batch of requests."""
        return RequestBatch(self._broker_id, self.dynamic.static.inter_broker_listener_name)

    def send(self, batch: RequestBatch) -> None:
        """Queue the requests of a batch for their brokers."""
        for broker_id, request in batch.requests(self.context):
            self.queues.send(broker_id, request)

    def send_metadata(self, broker_ids: Collection[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Send brokers an UpdateMetadata with all live brokers and these partitions."""
        batch = self.batch()
        batch.add_update_metadata(broker_ids, partitions)
        self.send(batch)

    async def bring_online(self, batch: RequestBatch, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Elect leaders for NEW and OFFLINE partitions, of these or of all, unless their topics are being deleted."""
        context = self.context
        considered = context.partition_phases if partitions is None else partitions
        to_stay = [each for each in considered if each.topic not in context.topics_to_delete]
        writes = new_leaders(context, to_stay)
        if writes:
            await trio.lowlevel.checkpoint()
            written, conflicts = await self.store.write_states(writes)
            await trio.lowlevel.checkpoint()
            for write in conflicts:
                logger.error("%s has a state in the store already; it gets no new leader", write.partition)
            leaders_written(context, batch, written)
        offline = [each for each in to_stay if context.partition_phases.get(each) is PartitionPhase.OFFLINE]
        if offline:
            unclean = await self._unclean_topics(offline)
            await self.elect(
                batch,
                offline,
                lambda context, partition, state: after_failure(
                    context, partition, state, allow_unclean=partition.topic in unclean
                ),
            )

    async def elect(
        self, batch: RequestBatch, partitions: Sequence[TopicPartition], choose: Choose
    ) -> dict[TopicPartition, int]:
        """Elect leaders and write them; return the elected leaders."""
        elected: dict[TopicPartition, int] = {}
        while partitions:
            found = await self.store.partition_states(partitions)
            written, conflicts = await self.store.write_states(elect(self.context, partitions, found, choose))
            leaders_written(self.context, batch, written)
            elected |= {write.partition: write.state.leader for write in written}
            # A leader changed its ISR meanwhile: try again.
            partitions = [write.partition for write in conflicts]
        return elected

    async def shrink_isr(self, batch: RequestBatch, replicas: Sequence[Replica]) -> None:
        """Remove replicas from the ISR of their partitions."""
        while replicas:
            found = await self.store.partition_states(each.partition for each in replicas)
            writes, others = shrink_isr(self.context, replicas, found)
            written, conflicts = await self.store.write_states(writes)
            isr_shrunk(self.context, batch, written, others)
            again = {write.partition for write in conflicts}
            replicas = [each for each in replicas if each.partition in again and each not in others]

    async def _unclean_topics(self, partitions: Iterable[TopicPartition]) -> set[str]:
        """Return the topics that allow unclean elections, of those with a partition without live in-sync replicas."""
        context = self.context
        topics = {
            partition.topic
            for partition in partitions
            if (state := context.leadership.get(partition)) is not None
            and not any(context.is_online(each, partition) for each in state.isr)
        }
        configs = await self.store.topic_configs(topics)
        default = str(self.dynamic.current.values[UNCLEAN_KEY]).lower()
        return {topic for topic in topics if configs[topic].get(UNCLEAN_KEY, default).lower() == "true"}
