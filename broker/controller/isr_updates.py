"""What becomes of in-sync replicas that leaders ask for.

PURE. Owns which of them are written, and the answer. Must not know how they are written or told.
Counterpart in Kafka: KafkaController.tryProcessAlterPartition.

Deviation: who asks must be the leader, and leads with replicas of the partition, itself among them; else it gets
INVALID_REQUEST, as in KRaft mode. Kafka with ZooKeeper would write whatever it is sent.
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

# A partition as it is now, or why it stays as it was.
Outcome = PartitionState | ErrorCode


class Update(NamedTuple):
    """A state to be written, or the outcome where nothing is."""

    write: StateWrite | None
    outcome: Outcome = ErrorCode.UNKNOWN_SERVER_ERROR


def updates(context: ControllerContext, request: AlterPartitionRequest, version: int) -> dict[TopicPartition, Update]:
    """Decide on all partitions of topics that are known; of those named twice, on the last."""
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
        # The leader knows more than this controller, who then is probably none any more.
        return Update(None, ErrorCode.NOT_CONTROLLER)
    if wanted.leader_epoch < now.leader_epoch:
        return Update(None, ErrorCode.FENCED_LEADER_EPOCH)
    if _asked(wanted) == _asked(now):
        # It is asked again, because the answer was lost.
        return Update(None, now)
    if wanted.version < now.version:
        return Update(None, ErrorCode.INVALID_UPDATE_VERSION)
    if not _is_valid(context, partition, wanted, now):
        return Update(None, ErrorCode.INVALID_REQUEST)
    if not all(context.is_live(each) for each in wanted.isr):
        is_old = version < _IDS_FROM_VERSION
        return Update(None, ErrorCode.OPERATION_NOT_ATTEMPTED if is_old else ErrorCode.INELIGIBLE_REPLICA)
    return Update(StateWrite(partition, wanted, False, ()))


def _asked(state: PartitionState) -> tuple[int, int, tuple[int, ...], int]:
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
        # A leader that may miss records has recovered before anybody joins it, and never goes back.
        return len(members) == 1 and now.recovery_state == RECOVERING
    return wanted.recovery_state == RECOVERED


def response(
    context: ControllerContext,
    request: AlterPartitionRequest,
    version: int,
    outcomes: Mapping[TopicPartition, Outcome],
) -> AlterPartitionResponse:
    """Answer for each partition; topics are named as the request names them."""
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
