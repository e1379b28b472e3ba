"""StopReplica: replicas that this broker hosts no more, and their logs where those are to be deleted.

Owns what fences a stop, and the renaming of directories off the loop. Must not know what became of the replicas
elsewhere. Counterpart in Kafka: ReplicaManager.stopReplicas.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ottla.broker.loop.clock import Offload
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.role_queue import RoleChanges
from ottla.broker.replicas.watchers import EVERYTHING, OffsetSignal
from ottla.log.future_logs import delete_future
from ottla.log.manager import LogManager, Renaming, rename_directories
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from ottla.wire.types import TopicPartition

logger = logging.getLogger("kafka.server.ReplicaManager")
state_change_logger = logging.getLogger("state.change.logger")

# Leader epochs of StopReplica that fence nothing: of an old controller, and of a topic that is being deleted.
_NO_EPOCH: Final = -1
_EPOCH_DURING_DELETE: Final = -2

# Called with a partition's number, its leader epoch, and whether this broker leads it.
RoleListener = Callable[[int, int, bool], None]


class Replicas(Protocol):
    """What is needed of the replica manager."""

    broker_id: int
    logs: LogManager
    not_found: set[tuple[str, int]]
    offload: Offload
    partitions: dict[tuple[str, int], Partition]
    role_changes: RoleChanges
    role_listeners: dict[str, RoleListener]
    signal: OffsetSignal

    async def idle(self, topic_partition: tuple[str, int]) -> None:
        """Return when no append to a partition is on its way."""

    def tell_listeners(self, partition: Partition, *, runs: bool) -> None:
        """It is stopped."""


async def stop_replicas(replicas: Replicas, request: StopReplicaRequest) -> StopReplicaResponse:
    """Stop all, a slice at a time, and rename what is deleted."""
    delete = request.delete_partitions
    stops = [(p.topic_name, p.partition_index, _NO_EPOCH, delete) for p in request.ungrouped_partitions]
    stops += [(t.name, index, _NO_EPOCH, delete) for t in request.topics for index in t.partition_indexes]
    stops += [
        (topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    errors = []
    renamings: list[tuple[StopReplicaPartitionError, Renaming]] = []
    for topic, index, epoch, delete in stops:
        await replicas.idle((topic, index))
        code, deleted = _stop(replicas, TopicPartition(topic, index), epoch, delete)
        errors.append(StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=code))
        renamings += [(errors[-1], renaming) for renaming in deleted]
        await replicas.role_changes.rest()
    if renamings:
        await _rename(replicas, renamings)
    return StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=errors)


def _stop(replicas: Replicas, key: TopicPartition, leader_epoch: int, delete: bool) -> tuple[ErrorCode, list[Renaming]]:
    """Stop one; returns what is to be renamed on the disk, where it is deleted."""
    partition = replicas.partitions.get(key)
    if key in replicas.not_found:
        return ErrorCode.KAFKA_STORAGE_ERROR, []
    if partition is not None:
        if partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR, []
        if leader_epoch not in (_NO_EPOCH, _EPOCH_DURING_DELETE) and leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, []
        replicas.tell_listeners(partition, runs=False)
    broker_id = replicas.broker_id
    state_change_logger.info("[Broker id=%d] Stopped replica of %s, to delete it: %s", broker_id, key, delete)
    renamings: list[Renaming] = []
    if delete:
        if partition is not None:
            del replicas.partitions[key]
            partition.resign()
        # Without a partition too: the topic may have been deleted while this broker was down.
        renamings = [*filter(None, (delete_future(replicas.logs, key), replicas.logs.delete(key)))]
    replicas.signal.notify(key, EVERYTHING)
    if partition is not None and key.topic in replicas.role_listeners:
        replicas.role_listeners[key.topic](key.partition, partition.leader_epoch, False)
    return ErrorCode.NONE, renamings


async def _rename(replicas: Replicas, renamings: Sequence[tuple[StopReplicaPartitionError, Renaming]]) -> None:
    outcomes = await replicas.offload(rename_directories, [renaming for _, renaming in renamings])
    for (answer, renaming), error in zip(renamings, outcomes, strict=True):
        if error is None:
            replicas.logs.renamed(renaming)
        else:
            replicas.logs.failures.failed(renaming.old.parent, error, "deleting a log of")
            logger.error("%s cannot be deleted: %s", renaming.old, error)
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
