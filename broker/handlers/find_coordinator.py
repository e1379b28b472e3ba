"""FindCoordinator: the broker that coordinates a group or a transactional id.

Behaviour:
- A group's coordinator is the leader of the partition of __consumer_offsets that keeps its offsets, that of a
  transactional id the leader of its partition of __transaction_state.
- The first request creates that topic, and gets COORDINATOR_NOT_AVAILABLE, which clients retry.
Deviations: Share groups have no coordinator: COORDINATOR_NOT_AVAILABLE.
Versions: 0 to 6. From 1 transactional ids; from 4 many keys; from 6 share groups (INVALID_REQUEST before).
Counterpart in Kafka: KafkaApis.handleFindCoordinatorRequest.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache, Node
from ottla.broker.cluster.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.broker.net.session import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_KEYS_FROM_VERSION: Final = 4
_SHARE_FROM_VERSION: Final = 6
GROUP: Final = 0
TRANSACTION: Final = 1
_SHARE: Final = 2
_TOPICS: Final = {GROUP: GROUP_METADATA_TOPIC, TRANSACTION: TRANSACTION_STATE_TOPIC}
_NO_NODE: Final = -1
# Kafka's messages, because clients show them.
_MESSAGES: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
}


def handle(
    request: FindCoordinatorRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    partition_for: Mapping[int, Callable[[str], int | None]],
    create: Callable[[Iterable[str]], object],
) -> FindCoordinatorResponse:
    """Return the coordinator of each key.

    `partition_for`, by type of key, returns None until the topic that `create` creates exists.
    """
    version = context.api_version
    topic = _TOPICS.get(request.key_type)
    if topic is None and request.key_type != _SHARE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown coordinator type received: {request.key_type}")
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if request.key_type == _SHARE and version < _SHARE_FROM_VERSION:
        code = ErrorCode.INVALID_REQUEST

    def find(key: str) -> Node | None:
        if topic is None:
            return None
        index = partition_for[request.key_type](key)
        if index is None:
            create([topic])
            return None
        partition = metadata.partition(topic, index)
        return None if partition is None else metadata.node(partition.leader, context.listener_name)

    if version >= _KEYS_FROM_VERSION:
        found = [_coordinator(key, find(key), code) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    node = find(request.key)
    if node is None:
        return error_response(request, version, code)
    # As in Kafka, the message of no error is its name.
    return FindCoordinatorResponse(
        error_code=ErrorCode.NONE, error_message="NONE", node_id=node.broker_id, host=node.host, port=node.port
    )


def error_response(request: FindCoordinatorRequest, version: int, code: ErrorCode) -> FindCoordinatorResponse:
    """Return the error for each key."""
    message = _MESSAGES.get(code, code.name)
    if version < _KEYS_FROM_VERSION:
        return FindCoordinatorResponse(error_code=code, error_message=message, node_id=_NO_NODE, host="", port=-1)
    return FindCoordinatorResponse(coordinators=[_failed(key, code, message) for key in request.coordinator_keys])


def _coordinator(key: str, node: Node | None, code_without: ErrorCode) -> Coordinator:
    if node is None:
        return _failed(key, code_without, "")
    return Coordinator(
        key=key, node_id=node.broker_id, host=node.host, port=node.port, error_code=ErrorCode.NONE, error_message=""
    )


def _failed(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=_NO_NODE, host="", port=-1, error_code=code, error_message=message)
