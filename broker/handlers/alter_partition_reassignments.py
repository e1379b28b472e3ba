"""AlterPartitionReassignments: give partitions other replicas, or cancel that.

Behaviour:
- The reply comes when the reassignments have begun, not when they are complete.
- Null for the replicas of a partition cancels its reassignment.
- Of a partition that is named twice, the last entry counts.
Versions: 0.
Counterpart in Kafka: KafkaApis.handleAlterPartitionReassignmentsRequest.
"""

from collections.abc import Mapping

from ottla.broker.controller.controller import Controller
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.types import TopicPartition


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, *, controller: Controller
) -> Deferred[AlterPartitionReassignmentsResponse]:
    """Put the reassignments into the controller's queue."""
    wanted = {
        TopicPartition(topic.name, each.partition_index): each.replicas
        for topic in request.topics
        for each in topic.partitions
    }

    def respond(
        outcomes: Mapping[TopicPartition, KafkaError | None] | KafkaError,
    ) -> AlterPartitionReassignmentsResponse:
        if isinstance(outcomes, KafkaError):
            return _response(outcomes.code, outcomes.detail, {})
        # As in Kafka, the message is "" and not null.
        return _response(ErrorCode.NONE, "", outcomes)

    return controller.reassign(wanted).map(respond)


def error_response(
    request: AlterPartitionReassignmentsRequest, version: int, code: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    """Return the error for the whole request and for each partition."""
    error = KafkaError(code)
    return _response(
        code,
        None,
        {
            TopicPartition(topic.name, each.partition_index): error
            for topic in request.topics
            for each in topic.partitions
        },
    )


def _response(
    code: ErrorCode, message: str | None, outcomes: Mapping[TopicPartition, KafkaError | None]
) -> AlterPartitionReassignmentsResponse:
    by_topic: dict[str, list[ReassignablePartitionResponse]] = {}
    for partition, error in outcomes.items():
        by_topic.setdefault(partition.topic, []).append(
            ReassignablePartitionResponse(
                partition_index=partition.partition,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=(error.detail if error else "") or None,
            )
        )
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[ReassignableTopicResponse(name=name, partitions=found) for name, found in by_topic.items()],
    )
