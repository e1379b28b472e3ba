"""ListPartitionReassignments: the reassignments of partitions that are in progress.

Behaviour:
- Only the controller answers, from its state. Other brokers return NOT_CONTROLLER.
- A partition that is not being reassigned is left out, also if the request names it.
Versions: 0.
Counterpart in Kafka: KafkaApis.handleListPartitionReassignmentsRequest, KafkaController.listPartitionReassignments.
"""

from ottla.broker.controller.controller import Controller
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.wire.types import TopicPartition


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext, *, controller: Controller
) -> ListPartitionReassignmentsResponse:
    """Return all reassignments, or those of the partitions in the request."""
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    try:
        found = controller.reassignments()
    except KafkaError as error:
        return _response(error.code, error.detail, {})
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for partition, assignment in found.items():
        if wanted is None or partition in wanted:
            by_topic.setdefault(partition.topic, []).append(
                OngoingPartitionReassignment(
                    partition_index=partition.partition,
                    replicas=assignment.replicas,
                    adding_replicas=assignment.adding,
                    removing_replicas=assignment.removing,
                )
            )
    # As in Kafka, the message is "" and not null.
    return _response(ErrorCode.NONE, "", by_topic)


def error_response(
    request: ListPartitionReassignmentsRequest, version: int, code: ErrorCode
) -> ListPartitionReassignmentsResponse:
    """Return the error alone."""
    return _response(code, None, {})


def _response(
    code: ErrorCode, message: str | None, by_topic: dict[str, list[OngoingPartitionReassignment]]
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        topics=[OngoingTopicReassignment(name=name, partitions=found) for name, found in by_topic.items()],
    )
