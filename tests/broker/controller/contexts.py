"""Controller contexts for tests of decisions."""

from ottla.broker.controller.context import ControllerContext, LiveBroker, PartitionPhase, Replica, ReplicaPhase
from ottla.broker.controller.request_batch import RequestBatch
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import BrokerInfo, Endpoint, PartitionState, ReplicaAssignment

P = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))


def context_of(brokers: tuple[int, ...], *replicas: tuple[int, ...], topic: str = "t") -> ControllerContext:
    """A context with live brokers, and one topic whose NEW partitions have these replicas."""
    context = ControllerContext(epoch=7)
    for broker_id in brokers:
        revive(context, broker_id)
    context.set_topic(topic, TOPIC_ID, {index: ReplicaAssignment(each) for index, each in enumerate(replicas)})
    for partition in context.partitions_of(topic):
        context.partition_phases[partition] = PartitionPhase.NEW
    for replica in context.replicas_of_topic(topic):
        context.replica_phases[replica] = ReplicaPhase.NEW
    return context


def revive(context: ControllerContext, broker_id: int, epoch: int = 100) -> None:
    info = BrokerInfo(broker_id, (Endpoint("PLAINTEXT", f"host{broker_id}", 9092),))
    context.brokers[broker_id] = LiveBroker(info, epoch + broker_id)


def lead(
    context: ControllerContext, partition: TopicPartition, leader: int, *isr: int, leader_epoch: int = 5
) -> PartitionState:
    """Give a partition a leader and ISR of an earlier election."""
    state = PartitionState(leader, leader_epoch, isr, controller_epoch=2, version=leader_epoch)
    context.leadership[partition] = state
    context.partition_phases[partition] = PartitionPhase.ONLINE
    for broker_id in context.assignment(partition).replicas:
        context.replica_phases[Replica(partition, broker_id)] = ReplicaPhase.ONLINE
    return state


def new_batch() -> RequestBatch:
    return RequestBatch(0, "PLAINTEXT")
