"""The in-sync replicas that leaders request by AlterPartition.

PURE. Owns the decision which are written, and the response. Must not know how they are written or sent.
Counterpart in Kafka: KafkaController.tryProcessAlterPartition.

Deviation: the sender must be the leader, and the in-sync replicas must be replicas of the partition with the leader
among them; otherwise the error is INVALID_REQUEST, as in KRaft mode. Kafka with ZooKeeper writes any request.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from ottla.broker.controller.context import ControllerContext
from ottla.broker.controller.state_machines import StateWrite
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionDataResult,
    TopicDataResult,
)
from ottla.wire.types import ZERO_UUID, TopicPartition
from ottla.zk.znodes import RECOVERED, RECOVERING, PartitionState

_IDS_FROM_VERSION: Final = 2
_EPOCHS_FROM_VERSION: Final = 3

# The state of a partition after the request, or the error.
Outcome = PartitionState | ErrorCode


class Update(NamedTuple):
    """A state to be written, or the outcome if there is none."""

    write: StateWrite | None
    outcome: Outcome = ErrorCode.UNKNOWN_SERVER_ERROR


def updates(context: ControllerContext, request: AlterPartitionRequest, version: int) -> dict[TopicPartition, Update]:
    """Return the decision on each partition of known topics. The last one of a partition counts."""
    found = {}
    for topic in request.topics:
        name = context.topic_names.get(topic.topic_id) if version >= _IDS_FROM_VERSION else topic.topic_name
        for asked in topic.partitions if name is not None else ():
            isr = tuple(_isr(asked, version))
            partition = TopicPartition(name or "", asked.partition_index)
            wanted = PartitionState(
                request.broker_id,
                asked.leader_epoch,
                isr,
                context.epoch,
                asked.leader_recovery_state,
                asked.partition_epoch,
            )
            found[partition] = _update(context, partition, wanted, version)
    return found


def _isr(asked: PartitionData, version: int) -> Iterable[int]:
    return (each.broker_id for each in asked.new_isr_with_epochs) if version >= _EPOCHS_FROM_VERSION else asked.new_isr


def _update(context: ControllerContext, partition: TopicPartition, wanted: PartitionState, version: int) -> Update:
    now = context.leadership.get(partition)
    if now is None:
        return Update(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wanted.version > now.version or wanted.leader_epoch > now.leader_epoch:
        # The leader knows a later state, so this broker is probably not the controller any more.
        return Update(None, ErrorCode.NOT_CONTROLLER)
    if wanted.leader_epoch < now.leader_epoch:
        return Update(None, ErrorCode.FENCED_LEADER_EPOCH)
    if _comparable(wanted) == _comparable(now):
        # The leader repeats a request whose response was lost.
        return Update(None, now)
    if wanted.version < now.version:
        return Update(None, ErrorCode.INVALID_UPDATE_VERSION)
    if not _is_valid(context, partition, wanted, now):
        return Update(None, ErrorCode.INVALID_REQUEST)
    if not all(context.is_live(each) for each in wanted.isr):
        is_old = version < _IDS_FROM_VERSION
        return Update(None, ErrorCode.OPERATION_NOT_ATTEMPTED if is_old else ErrorCode.INELIGIBLE_REPLICA)
    return Update(StateWrite(partition, wanted, False, ()))


def _comparable(state: PartitionState) -> tuple[int, int, tuple[int, ...], int]:
    return state.leader, state.leader_epoch, state.isr, state.recovery_state


def _is_valid(
    context: ControllerContext, partition: TopicPartition, wanted: PartitionState, now: PartitionState
) -> bool:
    members = set(wanted.isr)
    if wanted.leader != now.leader or wanted.leader not in members or len(members) < len(wanted.isr):
        return False
    if not members.issubset(context.assignment(partition).replicas):
        return False
    if wanted.recovery_state == RECOVERING:
        # A leader that may miss records recovers before any replica joins it, and never returns to RECOVERING.
        return len(members) == 1 and now.recovery_state == RECOVERING
    return wanted.recovery_state == RECOVERED


def response(
    context: ControllerContext,
    request: AlterPartitionRequest,
    version: int,
    outcomes: Mapping[TopicPartition, Outcome],
) -> AlterPartitionResponse:
    """Return the response, with names or ids of topics as in the request."""
    topics = []
    if version >= _IDS_FROM_VERSION:
        unknown = [topic for topic in request.topics if topic.topic_id not in context.topic_names]
        topics = [
            TopicDataResult(
                topic_id=topic.topic_id,
                partitions=[_result(each.partition_index, ErrorCode.UNKNOWN_TOPIC_ID) for each in topic.partitions],
            )
            for topic in unknown
        ]
    for name, partitions in groupby(sorted(outcomes), key=lambda each: each.topic):
        topics.append(
            TopicDataResult(
                topic_name=name,
                topic_id=context.topic_ids.get(name, ZERO_UUID),
                partitions=[_result(each.partition, outcomes[each]) for each in partitions],
            )
        )
    return AlterPartitionResponse(error_code=ErrorCode.NONE, topics=topics)


def _result(index: int, outcome: Outcome) -> PartitionDataResult:
    if isinstance(outcome, ErrorCode):
        return PartitionDataResult(
            partition_index=index, error_code=outcome, leader_id=0, leader_epoch=0, isr=(), partition_epoch=0
        )
    return PartitionDataResult(
        partition_index=index,
        error_code=ErrorCode.NONE,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=outcome.isr,
        leader_recovery_state=outcome.recovery_state,
        partition_epoch=outcome.version,
    )
