"""The response of a Produce: an answer for each partition, the new leader where this broker leads no more, and waiting.

Owns the form of these answers. Must not know how records are validated or appended.
Counterparts in Kafka: ProduceResponse, and the callbacks of KafkaApis.handleProduceRequest.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import Partition
from ottla.log.append_info import LogAppendInfo
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.records.batch import InvalidRecordsError, NotOneBatchError, UnreadableStartError

Key = tuple[str, int]

_LEADERS_FROM_VERSION: Final = 10
# A wait for this broker's disk alone has no timeout, because Kafka flushes before the timeout begins.
_UNTIL_FLUSHED: Final = 2**31 - 1
# As in Kafka, these errors come without the log start offset. A healthy client may cause them.
_WITHOUT_START_OFFSET: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)


def appended(index: int, info: LogAppendInfo) -> PartitionProduceResponse:
    """Return the answer for records in the log."""
    return PartitionProduceResponse(
        index=index,
        error_code=0,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )


def failed(index: int, code: ErrorCode) -> PartitionProduceResponse:
    """Return an error."""
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)


def explained(index: int, error: KafkaError) -> PartitionProduceResponse:
    """Return an error with its text."""
    answer = failed(index, error.code)
    answer.error_message = error.detail
    return answer


def refused(index: int, error: KafkaError, partition: Partition) -> PartitionProduceResponse:
    """Return the error of validation or of the log."""
    answer = failed(index, error.code)
    if error.code not in _WITHOUT_START_OFFSET and not isinstance(error, NotOneBatchError):
        answer.log_start_offset = partition.log.log_start_offset
    if isinstance(error, UnreadableStartError):
        return explained(index, error)
    if isinstance(error, InvalidRecordsError):
        answer.error_message = error.detail
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in error.record_errors
        ]
    return answer


class ProduceAnswers:
    """Makes the response. It must not refer to the records, because they must not be kept while a reply waits."""

    __slots__ = ("_acks", "_listener", "_replicas", "_version")

    def __init__(self, context: RequestContext, replicas: ReplicaManager, acks: int) -> None:
        self._acks = acks
        self._replicas = replicas
        self._listener = context.listener_name
        self._version = context.api_version

    def response(self, answers: Mapping[Key, PartitionProduceResponse]) -> ProduceResponse:
        """Return all answers by topic. With acks=0 an error closes the connection."""
        by_topic: dict[str, list[PartitionProduceResponse]] = {}
        endpoints: dict[int, NodeEndpoint] = {}
        for (topic, index), answer in answers.items():
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._version >= _LEADERS_FROM_VERSION:
                self._point_to_leader(topic, index, answer, endpoints)
            if answer.error_code != ErrorCode.NONE and self._acks == 0:
                raise CloseConnection(f"Produce with acks=0 failed for {topic}-{index}: error {answer.error_code}")
            by_topic.setdefault(topic, []).append(answer)
        return ProduceResponse(
            responses=[TopicProduceResponse(name=name, partition_responses=found) for name, found in by_topic.items()],
            node_endpoints=list(endpoints.values()),
        )

    def acknowledged(
        self,
        answers: Mapping[Key, PartitionProduceResponse],
        appended: Sequence[tuple[Partition, int]],
        timeout_ms: int,
    ) -> Deferred[ProduceResponse]:
        """Return a response that comes when all appended records are acknowledged."""

        def respond(errors: list[ErrorCode]) -> ProduceResponse:
            for (partition, _), error in zip(appended, errors, strict=True):
                answers[partition.topic_partition].error_code = error
            return self.response(answers)

        if self._acks != -1 or not any(partition.followers for partition, _ in appended):
            timeout_ms = _UNTIL_FLUSHED
        return self._replicas.await_acks(appended, self._acks, timeout_ms, respond)

    def _point_to_leader(
        self, topic: str, index: int, answer: PartitionProduceResponse, endpoints: dict[int, NodeEndpoint]
    ) -> None:
        leader, epoch, node = self._replicas.current_leader(topic, index, self._listener)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        if node is not None:
            endpoints[leader] = NodeEndpoint(node_id=leader, host=node.host, port=node.port, rack=node.rack)
