"""FindCoordinator, versions 0 to 6: the broker that coordinates a group or a transactional id.

Deviations: there are no coordinators yet. Every key is answered COORDINATOR_NOT_AVAILABLE, which clients retry.
Counterpart in Kafka: KafkaApis.handleFindCoordinatorRequest.
"""

from typing import Final

from ottla.broker.request_context import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_KEYS_FROM_VERSION: Final = 4
_SHARE_FROM_VERSION: Final = 6
_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_NO_NODE: Final = -1
# In Kafka's words, as clients show them.
_MESSAGES: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
}


def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Say that there is no coordinator."""
    if request.key_type not in (_GROUP, _TRANSACTION, _SHARE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown coordinator type received: {request.key_type}")
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if request.key_type == _SHARE and context.api_version < _SHARE_FROM_VERSION:
        code = ErrorCode.INVALID_REQUEST
    if context.api_version < _KEYS_FROM_VERSION:
        return error_response(request, context.api_version, code)
    return FindCoordinatorResponse(coordinators=[_coordinator(key, code, "") for key in request.coordinator_keys])


def error_response(request: FindCoordinatorRequest, version: int, code: ErrorCode) -> FindCoordinatorResponse:
    """No coordinator, for every key."""
    message = _MESSAGES.get(code, code.name)
    if version < _KEYS_FROM_VERSION:
        return FindCoordinatorResponse(error_code=code, error_message=message, node_id=_NO_NODE, host="", port=-1)
    return FindCoordinatorResponse(coordinators=[_coordinator(key, code, message) for key in request.coordinator_keys])


def _coordinator(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=_NO_NODE, host="", port=-1, error_code=code, error_message=message)
