"""StopReplica: stops replicas, and deletes their logs if the controller says so.

Owns what fences a stop, and the renaming of deleted directories by a worker thread. Must not know the other replicas.
Counterpart in Kafka: ReplicaManager.stopReplicas.
"""

import logging
from collections.abc import Sequence
from typing import Final

from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.replicas.role_queue import RoleChanges
from ottla.broker.replicas.watchers import EVERYTHING
from ottla.log.future_logs import delete_future
from ottla.log.manager import Renaming, rename_directories
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from ottla.wire.types import NO_EPOCH, TopicPartition

logger = logging.getLogger("kafka.server.ReplicaManager")
state_change_logger = logging.getLogger("state.change.logger")

# The leader epoch of a StopReplica for a topic that is being deleted: it fences nothing, and nor does NO_EPOCH.
_EPOCH_DURING_DELETE: Final = -2


class ReplicaStops:
    """Stops the replicas of one broker."""

    def __init__(self, parts: ReplicaParts, role_changes: RoleChanges) -> None:
        self._logs = parts.logs
        self._offload = parts.offload
        self._signal = parts.signal
        self._stopped = parts.events.stopped
        self._hosted = parts.hosted
        self._slow_appends = parts.slow_appends
        self._role_changes = role_changes
        self._fence = parts.fence
        self._broker_id = parts.broker_id

    async def stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop all replicas, a slice at a time, and rename the directories of those that are deleted."""
        if not self._fence.admit(request):
            return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH, partition_errors=())
        delete = request.delete_partitions
        stops = [(p.topic_name, p.partition_index, NO_EPOCH, delete) for p in request.ungrouped_partitions]
        stops += [(t.name, index, NO_EPOCH, delete) for t in request.topics for index in t.partition_indexes]
        stops += [
            (topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        errors = []
        renamings: list[tuple[StopReplicaPartitionError, Renaming]] = []
        for topic, index, epoch, delete in stops:
            await self._slow_appends.idle((topic, index))
            code, deleted = self._stop(TopicPartition(topic, index), epoch, delete)
            errors.append(StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=code))
            renamings += [(errors[-1], renaming) for renaming in deleted]
            await self._role_changes.rest()
        if renamings:
            await self._rename(renamings)
        return StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=errors)

    def _stop(self, key: TopicPartition, leader_epoch: int, delete: bool) -> tuple[ErrorCode, list[Renaming]]:
        """Stop one replica; return the directories to rename if it is deleted."""
        partition = self._hosted.partitions.get(key)
        if key in self._hosted.not_found:
            return ErrorCode.KAFKA_STORAGE_ERROR, []
        if partition is not None:
            if partition.is_offline:
                return ErrorCode.KAFKA_STORAGE_ERROR, []
            if leader_epoch not in (NO_EPOCH, _EPOCH_DURING_DELETE) and leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH, []
            self._stopped.notify(partition)
        state_change_logger.info("[Broker id=%d] Stopped replica of %s, to delete it: %s", self._broker_id, key, delete)
        renamings: list[Renaming] = []
        if delete:
            if partition is not None:
                del self._hosted.partitions[key]
                partition.resign()
            # Also without a partition, because the topic may have been deleted while this broker was down.
            renamings = [*filter(None, (delete_future(self._logs, key), self._logs.delete(key)))]
        self._signal.notify(key, EVERYTHING)
        return ErrorCode.NONE, renamings

    async def _rename(self, renamings: Sequence[tuple[StopReplicaPartitionError, Renaming]]) -> None:
        outcomes = await self._offload(rename_directories, [renaming for _, renaming in renamings])
        for (answer, renaming), error in zip(renamings, outcomes, strict=True):
            if error is None:
                self._logs.renamed(renaming)
            else:
                self._logs.failures.failed(renaming.old.parent, error, "deleting a log of")
                logger.error("%s cannot be deleted, the controller gets KAFKA_STORAGE_ERROR: %s", renaming.old, error)
                answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
