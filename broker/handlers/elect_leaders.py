"""ElectLeaders: elect the preferred replicas, or any replica if a partition has no leader (unclean).

Behaviour:
- The reply comes when this broker knows that the elected replicas lead, or after the timeout.
- A partition that is named twice is answered once.
- If the client asks for all partitions, those that need no election are left out.
Deviations: An unknown type of election gets INVALID_REQUEST, as in KRaft mode.
Versions: 0 to 2. Version 0 elects preferred replicas only; from 1 the election type, and an error code for the whole
response.
Counterpart in Kafka: KafkaApis.handleElectLeaders, ReplicaManager.electLeaders.
"""

from collections.abc import Mapping
from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.controller.controller import Controller
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.types import TopicPartition

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


def handle(
    request: ElectLeadersRequest, context: RequestContext, *, controller: Controller, metadata: MetadataCache
) -> Deferred[ElectLeadersResponse]:
    """Put the election into the controller's queue."""
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    asks_for_all = request.topic_partitions is None
    if request.topic_partitions is None:
        named = [TopicPartition(topic, index) for topic in metadata.topics for index in metadata.partitions(topic)]
    else:
        named = [TopicPartition(each.topic, index) for each in request.topic_partitions for index in each.partitions]
    wanted = dict.fromkeys(named)

    def respond(outcomes: Mapping[TopicPartition, KafkaError | None]) -> ElectLeadersResponse:
        by_topic: dict[str, list[PartitionResult]] = {}
        for partition in wanted:
            error = outcomes[partition]
            if not asks_for_all or error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                by_topic.setdefault(partition.topic, []).append(_result(partition.partition, error))
        return _response(ErrorCode.NONE, by_topic)

    elected = controller.elect_leaders(wanted, request.timeout_ms, unclean=request.election_type == _UNCLEAN)
    return elected.map(respond)


def error_response(request: ElectLeadersRequest, version: int, code: ErrorCode) -> ElectLeadersResponse:
    """Return the error for the whole request and for each partition."""
    error = KafkaError(code)
    by_topic = {
        each.topic: [_result(index, error) for index in each.partitions] for each in request.topic_partitions or ()
    }
    return _response(code, by_topic)


def _result(index: int, error: KafkaError | None) -> PartitionResult:
    return PartitionResult(
        partition_id=index,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=(error.detail if error else "") or None,
    )


def _response(code: ErrorCode, by_topic: Mapping[str, list[PartitionResult]]) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=results) for topic, results in by_topic.items()
        ],
    )
