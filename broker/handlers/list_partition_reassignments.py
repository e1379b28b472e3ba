"""ListPartitionReassignments, version 0: the partitions that are on their way to other brokers.

The controller tells what the store says of the replicas that come and go.
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
    """Tell all reassignments, or those of some partitions; a partition that stays where it is, is left out."""
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
    # Not null, as in Kafka.
    return _response(ErrorCode.NONE, "", by_topic)


def error_response(
    request: ListPartitionReassignmentsRequest, version: int, code: ErrorCode
) -> ListPartitionReassignmentsResponse:
    """Nothing but the error."""
    return _response(code, None, {})


def _response(
    code: ErrorCode, message: str | None, by_topic: dict[str, list[OngoingPartitionReassignment]]
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        topics=[OngoingTopicReassignment(name=name, partitions=found) for name, found in by_topic.items()],
    )
