"""Metadata: the brokers, the controller, and the leaders and replicas of topics.

Behaviour:
- A topic that does not exist is created if client and broker allow it. The response is LEADER_NOT_AVAILABLE, which
  clients retry. A request for all topics creates none.
- Names and ids are not mixed: if a request has ids, its names are ignored.
- A denied topic is in the response only if the client named it, without the name of an id or the id of a name.
Deviations: Of Kafka's internal topics only __consumer_offsets is created. A topic with neither name nor id gets
INVALID_REQUEST, in Kafka UNKNOWN_SERVER_ERROR.
Versions: 0 to 12. In 0 no topics means all, and unreachable replicas are left out; from 1 null means all; from 4 a
client can decline creation; from 6 LISTENER_NOT_FOUND; from 8 authorized operations (of the cluster until 10); from 10
topic ids in the response, from 12 in the request.
Counterpart in Kafka: KafkaApis.handleTopicMetadataRequest, ZkMetadataCache.getTopicMetadata.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache, PartitionMetadata
from ottla.broker.cluster.topic_names import is_internal, name_fault
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import EVERYBODY, Access, Operation, ResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import (
    OPERATIONS_OMITTED,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.types import ZERO_UUID

_IDS_FROM_VERSION: Final = 12
_LISTENER_ERROR_FROM_VERSION: Final = 6
_NO_LEADER: Final = -1


def handle(
    request: MetadataRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    cluster_id: str,
    auto_create: Callable[[Iterable[str]], dict[str, ErrorCode]] | None,
    access: Access = EVERYBODY,
) -> MetadataResponse:
    """Return brokers and topics from the cache. `auto_create` is None if the broker does not create missing topics."""
    version = context.api_version
    wanted = _read(request, version)
    answers: list[MetadataResponseTopic] = []
    if wanted is None:
        names: Iterable[str] = sorted(metadata.topics)
    elif wanted.ids:
        found = {topic_id: metadata.topic_name(topic_id) for topic_id in wanted.ids}
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        answers = [_topic(None, unknown, topic_id) for topic_id, name in found.items() if name is None]
        names = [name for name in found.values() if name is not None]
    else:
        names = wanted.names
    shown = access.allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, names, log_denial=wanted is not None)
    known = [name for name in names if name in shown and metadata.contains(name)]
    missing = [name for name in names if name in shown and not metadata.contains(name)]
    visible = [_known_topic(metadata, name, context.listener_name, version) for name in known]
    if missing:
        may_create = wanted is not None and request.allow_auto_topic_creation
        codes = _create(missing, auto_create if may_create else None, context, access)
        visible += [_topic(name, code, ZERO_UUID) for name, code in codes.items()]
    if request.include_topic_authorized_operations:
        for topic in visible:
            if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                operations = access.operations(context, ResourceType.TOPIC, topic.name or "")
                topic.topic_authorized_operations = operations
    answers += visible
    if wanted is not None:
        answers += [_denied(name, metadata, by_id=bool(wanted.ids)) for name in names if name not in shown]
    with_cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)
            for node in metadata.nodes(context.listener_name)
        ],
        cluster_id=cluster_id,
        controller_id=-1 if metadata.controller_id is None else metadata.controller_id,
        topics=answers,
        cluster_authorized_operations=access.cluster_operations(context) if with_cluster else OPERATIONS_OMITTED,
    )


def _create(
    names: Collection[str],
    auto_create: Callable[[Iterable[str]], dict[str, ErrorCode]] | None,
    context: RequestContext,
    access: Access,
) -> dict[str, ErrorCode]:
    """Create the missing topics that the client may create, and return the code for each missing topic."""
    if auto_create is None:
        return _refuse(names)
    creatable = set(names)
    if not access.allows(context, Operation.CREATE, ResourceType.CLUSTER, log_denial=False):
        creatable = access.allowed(context, Operation.CREATE, ResourceType.TOPIC, names)
    codes = auto_create([name for name in names if name in creatable]) if creatable else {}
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return codes | {name: denied for name in names if name not in creatable}


def _denied(name: str, metadata: MetadataCache, *, by_id: bool) -> MetadataResponseTopic:
    """Return the error of a denied topic, without the name of an id and without the id of a name."""
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=None if by_id else name,
        topic_id=metadata.topic_id(name) if by_id else ZERO_UUID,
        is_internal=False,
        partitions=(),
    )


class _Wanted:
    """The topics that a request names, each once."""

    def __init__(self, names: Iterable[str], ids: Iterable[bytes]) -> None:
        self.names = dict.fromkeys(names)
        self.ids = dict.fromkeys(each for each in ids if each != ZERO_UUID)


def _read(request: MetadataRequest, version: int) -> _Wanted | None:
    """Return the topics of a request, or None for all topics."""
    topics = request.topics
    if topics is None or (version == 0 and not topics):
        return None
    if version < _IDS_FROM_VERSION:
        for topic in topics:
            if topic.name is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
            if topic.topic_id != ZERO_UUID:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}"
                )
    names = [topic.name for topic in topics if topic.name is not None]
    wanted = _Wanted(names, [topic.topic_id for topic in topics])
    if not wanted.ids and len(names) < len(topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic has neither a name nor an id")
    return wanted


def _refuse(names: Iterable[str]) -> dict[str, ErrorCode]:
    invalid, unknown = ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {name: unknown if name_fault(name) is None else invalid for name in names}


def _topic(name: str | None, code: ErrorCode, topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=(),
    )


def _known_topic(metadata: MetadataCache, name: str, listener: str, version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=name,
        topic_id=metadata.topic_id(name),
        is_internal=is_internal(name),
        partitions=[
            _partition(metadata, index, partition, listener, version)
            for index, partition in sorted(metadata.partitions(name).items())
        ],
    )


def _partition(
    metadata: MetadataCache, index: int, partition: PartitionMetadata, listener: str, version: int
) -> MetadataResponsePartition:
    leader, replicas, isr = partition.leader, partition.replicas, partition.isr
    code = ErrorCode.NONE
    if version == 0:
        # Because clients of version 0 connect to every replica.
        replicas = tuple(each for each in replicas if metadata.node(each, listener) is not None)
        isr = tuple(each for each in isr if metadata.node(each, listener) is not None)
        if len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
    if metadata.node(leader, listener) is None:
        knows_listener_error = version >= _LISTENER_ERROR_FROM_VERSION and leader in metadata.brokers
        code = ErrorCode.LISTENER_NOT_FOUND if knows_listener_error else ErrorCode.LEADER_NOT_AVAILABLE
        leader = _NO_LEADER
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=partition.offline_replicas,
    )


def error_response(request: MetadataRequest, version: int, code: ErrorCode) -> MetadataResponse:
    """Return the error for each topic."""
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id, partitions=())
        for topic in request.topics or ()
    ]
    return MetadataResponse(brokers=(), topics=topics)
