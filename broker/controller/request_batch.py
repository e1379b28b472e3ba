"""The controller's requests to brokers, collected while it decides, at most one of each kind for each broker.

PURE. Owns the content of LeaderAndIsr, UpdateMetadata and StopReplica. Must not know how requests are sent.
Counterpart in Kafka: ControllerBrokerRequestBatch.

A batch collects only names of partitions; the requests have the state of the context when they are made.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from ottla.broker.controller.context import ControllerContext
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ottla.wire.types import ZERO_UUID, TopicPartition
from ottla.zk.znodes import LEADER_DURING_DELETE, BrokerInfo

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest

_SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class RequestBatch:
    """The requests of one batch."""

    def __init__(self, controller_id: int, inter_broker_listener: str) -> None:
        self._controller_id = controller_id
        self._inter_broker_listener = inter_broker_listener
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = {}
        self._update_brokers: set[int] = set()
        self._update_partitions: dict[TopicPartition, None] = {}

    def add_leader_and_isr(
        self, context: ControllerContext, broker_ids: Iterable[int], partition: TopicPartition, *, is_new: bool
    ) -> None:
        """Add a LeaderAndIsr of a partition for some brokers, and an UpdateMetadata for all."""
        for broker_id in broker_ids:
            partitions = self._leader_and_isr.setdefault(broker_id, {})
            partitions[partition] = partitions.get(partition, False) or is_new
        self.add_update_metadata(context.brokers, [partition])

    def add_stop_replica(self, broker_id: int, partition: TopicPartition, *, delete: bool) -> None:
        """Add a StopReplica, which may delete the replica."""
        partitions = self._stop_replica.setdefault(broker_id, {})
        partitions[partition] = partitions.get(partition, False) or delete

    def add_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Add an UpdateMetadata with all live brokers, and the partitions of all calls."""
        self._update_brokers.update(broker_ids)
        self._update_partitions.update(dict.fromkeys(partitions))

    def requests(self, context: ControllerContext) -> list[tuple[int, ControlRequest]]:
        """Return the requests of live brokers, in the order in which to send them."""
        found: list[tuple[int, ControlRequest]] = []
        for broker_id, partitions in self._leader_and_isr.items():
            if broker_id in context.brokers:
                found.append((broker_id, self._leader_and_isr_request(context, broker_id, partitions)))
        known = sorted(each for each in self._update_partitions if each in context.leadership)
        topics = [
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=context.topic_ids.get(topic, ZERO_UUID),
                partition_states=[_update_state(context, partition) for partition in of_topic],
            )
            for topic, of_topic in groupby(known, key=lambda each: each.topic)
        ]
        brokers = [_update_broker(context.brokers[broker_id].info) for broker_id in sorted(context.brokers)]
        for broker_id in sorted(self._update_brokers):
            if broker_id in context.brokers:
                found.append((broker_id, self._update_request(context, broker_id, topics, brokers)))
        for broker_id, deletions in self._stop_replica.items():
            if broker_id in context.brokers:
                found.append((broker_id, self._stop_replica_request(context, broker_id, deletions)))
        return found

    def _leader_and_isr_request(
        self, context: ControllerContext, broker_id: int, partitions: dict[TopicPartition, bool]
    ) -> LeaderAndIsrRequest:
        known = sorted(each for each in partitions if each in context.leadership)
        leaders = {context.leadership[each].leader for each in known}
        return LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker_id].epoch,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=topic,
                    topic_id=context.topic_ids.get(topic, ZERO_UUID),
                    partition_states=[_leader_state(context, each, partitions[each]) for each in of_topic],
                )
                for topic, of_topic in groupby(known, key=lambda each: each.topic)
            ],
            live_leaders=[
                LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)
                for leader in sorted(leaders & context.brokers.keys())
                for endpoint in context.brokers[leader].info.endpoints
                if endpoint.listener == self._inter_broker_listener
            ],
        )

    def _update_request(
        self,
        context: ControllerContext,
        broker_id: int,
        topics: list[UpdateMetadataTopicState],
        brokers: list[UpdateMetadataBroker],
    ) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker_id].epoch,
            topic_states=topics,
            live_brokers=brokers,
        )

    def _stop_replica_request(
        self, context: ControllerContext, broker_id: int, deletions: dict[TopicPartition, bool]
    ) -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker_id].epoch,
            topic_states=[
                StopReplicaTopicState(
                    topic_name=topic,
                    partition_states=[
                        StopReplicaPartitionState(
                            partition_index=partition.partition,
                            leader_epoch=context.leader_epoch(partition),
                            delete_partition=deletions[partition],
                        )
                        for partition in of_topic
                    ],
                )
                for topic, of_topic in groupby(sorted(deletions), key=lambda each: each.topic)
            ],
        )


def _leader_state(context: ControllerContext, partition: TopicPartition, is_new: bool) -> LeaderAndIsrPartitionState:
    state = context.leadership[partition]
    assignment = context.assignment(partition)
    return LeaderAndIsrPartitionState(
        partition_index=partition.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.version,
        replicas=assignment.replicas,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
        is_new=is_new,
        leader_recovery_state=state.recovery_state,
    )


def _update_state(context: ControllerContext, partition: TopicPartition) -> UpdateMetadataPartitionState:
    state = context.leadership[partition]
    replicas = context.assignment(partition).replicas
    # This leader means that the topic is being deleted, and brokers remove it.
    is_going = partition.topic in context.topics_to_delete
    return UpdateMetadataPartitionState(
        partition_index=partition.partition,
        controller_epoch=state.controller_epoch,
        leader=LEADER_DURING_DELETE if is_going else state.leader,
        leader_epoch=0 if is_going else state.leader_epoch,
        isr=state.isr,
        zk_version=0 if is_going else state.version,
        replicas=replicas,
        offline_replicas=[each for each in replicas if not context.is_online(each, partition)],
    )


def _update_broker(info: BrokerInfo) -> UpdateMetadataBroker:
    endpoints = [
        UpdateMetadataEndpoint(
            port=each.port,
            host=each.host,
            listener=each.listener,
            security_protocol=_SECURITY_PROTOCOLS[each.security_protocol],
        )
        for each in info.endpoints
    ]
    return UpdateMetadataBroker(id=info.broker_id, endpoints=endpoints, rack=info.rack)
