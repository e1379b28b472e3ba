"""Guards: with an authorizer, a handler gets a request without its denied entries.

Owns, for each API, the permission that each entry of a request needs, and the response to a denial: entry by entry if
the API answers so, else for the whole request. Must not know what a handler does. The handlers of WITHOUT_GUARD check
permissions themselves. Without an authorizer there is no guard.
Counterpart in Kafka: the authHelper calls in KafkaApis.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import Access, Operation, ResourceType
from ottla.broker.requests.table import ErrorResponse, Handler
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import ProduceRequest

# Kafka's messages, because clients show them.
_MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
_DENIED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
# By type of a config resource (topic, broker, logger, client metrics, group): the resource that needs the permission.
_CONFIGS_OF: Final = {
    2: ResourceType.TOPIC,
    4: ResourceType.CLUSTER,
    8: ResourceType.CLUSTER,
    16: ResourceType.CLUSTER,
    32: ResourceType.GROUP,
}
_COORDINATORS_OF: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
_SHARE: Final = 2
_KEYS_FROM_VERSION: Final = 4
_ADDED_BY_BROKERS_FROM_VERSION: Final = 4


class Permission(NamedTuple):
    """The permission that a request needs, as its row in the table says, and the access to check it with."""

    access: Access
    context: RequestContext
    operation: Operation
    resource_type: ResourceType

    def allows(self, resource_type: ResourceType, *name: str) -> bool:
        """Whether the row's operation is allowed on a resource."""
        return self.access.allows(self.context, self.operation, resource_type, *name)

    def codes(self, names: Iterable[str]) -> list[ErrorCode]:
        """Return the code for each name: NONE, or the denial for the row's type of resource."""
        names = list(names)
        allowed = self.access.allowed(self.context, self.operation, self.resource_type, names)
        return [ErrorCode.NONE if name in allowed else _DENIED[self.resource_type] for name in names]


# Returns the code for each entry of a request. Entries with NONE go to the handler.
Judge = Callable[[Permission, Any, Sequence[Any]], Sequence[ErrorCode]]


class Entries(NamedTuple):
    """An API whose request names resources in field `asked`, and whose response answers them in field `answered`."""

    asked: str
    answered: str
    judge: Judge
    message: Mapping[ErrorCode, str] = MappingProxyType({})

    def handle(self, handler: Handler, error_response: ErrorResponse, permission: Permission, request: Any) -> Any:
        """Call the handler with the allowed entries, and return its response with the denied ones added."""
        entries = getattr(request, self.asked)
        codes = self.judge(permission, request, entries)
        denied = {code: None for code in codes if code != ErrorCode.NONE}
        if not denied:
            return handler(request, permission.context)
        parts = {code: self._part(request, entries, codes, code) for code in (ErrorCode.NONE, *denied)}
        allowed = parts.pop(ErrorCode.NONE)
        response = handler(allowed, permission.context) if getattr(allowed, self.asked) else None
        # After the handler, because with acks=0 this closes the connection, and the allowed entries must be handled.
        refusals = [
            self._refused(error_response(each, permission.context.api_version, code), code)
            for code, each in parts.items()
        ]

        def joined(answer: Any) -> Any:
            answers = [getattr(each, self.answered) for each in (answer, *refusals) if each is not None]
            whole = refusals[0] if answer is None else answer
            setattr(whole, self.answered, [each for some in answers for each in some])
            return whole

        return response.map(joined) if isinstance(response, Deferred) else joined(response)

    def _part(self, request: Any, entries: Sequence[Any], codes: Sequence[ErrorCode], wanted: ErrorCode) -> Any:
        part = copy.copy(request)
        setattr(part, self.asked, [entry for entry, code in zip(entries, codes, strict=True) if code == wanted])
        return part

    def _refused(self, response: Any, code: ErrorCode) -> Any:
        if code in self.message:
            for answer in getattr(response, self.answered):
                for each in getattr(answer, "partitions", [answer]):
                    each.error_message = self.message[code]
        return response


# Judges


def _by_name(permission: Permission, request: object, entries: Sequence[Any]) -> Sequence[ErrorCode]:
    return permission.codes(entry.name for entry in entries)


def _by_itself(permission: Permission, request: object, entries: Sequence[str]) -> Sequence[ErrorCode]:
    return permission.codes(entries)


def _of_epochs(permission: Permission, request: object, entries: Sequence[Any]) -> Sequence[ErrorCode]:
    """With permission for cluster actions, which brokers have, every topic is allowed."""
    if permission.access.allows(permission.context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, log_denial=False):
        return [ErrorCode.NONE] * len(entries)
    return permission.codes(entry.topic for entry in entries)


def _of_new_topics(permission: Permission, request: object, entries: Sequence[Any]) -> Sequence[ErrorCode]:
    """With permission to create on the cluster, all topics are allowed. The handler refuses topics named twice."""
    access, context = permission.access, permission.context
    if access.allows(context, Operation.CREATE, ResourceType.CLUSTER, log_denial=False):
        return [ErrorCode.NONE] * len(entries)
    counts = Counter(entry.name for entry in entries)
    allowed = access.allowed(context, Operation.CREATE, ResourceType.TOPIC, counts)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [ErrorCode.NONE if each.name in allowed or counts[each.name] > 1 else denied for each in entries]


def _of_configs(permission: Permission, request: object, entries: Sequence[Any]) -> Sequence[ErrorCode]:
    """The configs of brokers belong to the cluster. The handler refuses unknown types of resources."""

    def code(entry: Any) -> ErrorCode:
        resource_type = _CONFIGS_OF.get(entry.resource_type)
        if resource_type is None:
            return ErrorCode.NONE
        name = () if resource_type is ResourceType.CLUSTER else (entry.resource_name,)
        return ErrorCode.NONE if permission.allows(resource_type, *name) else _DENIED[resource_type]

    return [code(entry) for entry in entries]


def _of_coordinators(
    permission: Permission, request: FindCoordinatorRequest, entries: Sequence[str]
) -> Sequence[ErrorCode]:
    return [_coordinator(permission, request.key_type, key) for key in entries]


def _coordinator(permission: Permission, key_type: int, key: str) -> ErrorCode:
    access, context = permission.access, permission.context
    if key_type == _SHARE:
        is_allowed = access.allows(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        return ErrorCode.NONE if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    resource_type = _COORDINATORS_OF.get(key_type)
    if resource_type is None or permission.allows(resource_type, key):
        return ErrorCode.NONE
    return _DENIED[resource_type]


# Guards

Guard = Callable[[Handler, ErrorResponse, Permission, Any], Any]

_TOPICS: Final = Entries("topics", "topics", _by_name)
_PRODUCED: Final = Entries("topic_data", "responses", _by_name)
_NEW_TOPICS: Final = Entries(
    "topics", "topics", _of_new_topics, {ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Authorization failed."}
)
_MORE_PARTITIONS: Final = Entries(
    "topics", "results", _by_name, {ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The topic authorization is failed."}
)


def _check(is_allowed: bool, resource_type: ResourceType) -> None:
    if not is_allowed:
        raise KafkaError(_DENIED[resource_type])


def _cluster(handler: Handler, error_response: ErrorResponse, permission: Permission, request: Any) -> Any:
    """The request needs its row's operation on the cluster."""
    _check(permission.allows(ResourceType.CLUSTER), ResourceType.CLUSTER)
    return handler(request, permission.context)


def _group(handler: Handler, error_response: ErrorResponse, permission: Permission, request: Any) -> Any:
    """The request needs its row's operation on its group."""
    _check(permission.allows(ResourceType.GROUP, request.group_id), ResourceType.GROUP)
    return handler(request, permission.context)


def _offset_commit(handler: Handler, error_response: ErrorResponse, permission: Permission, request: Any) -> Any:
    """The request needs its row's operation on its group and on each topic."""
    _check(permission.allows(ResourceType.GROUP, request.group_id), ResourceType.GROUP)
    of_topics = permission._replace(resource_type=ResourceType.TOPIC)
    return _TOPICS.handle(handler, error_response, of_topics, request)


def _produce(handler: Handler, error_response: ErrorResponse, permission: Permission, request: ProduceRequest) -> Any:
    if request.transactional_id is not None:
        resource_type = ResourceType.TRANSACTIONAL_ID
        _check(permission.allows(resource_type, request.transactional_id), resource_type)
    return _PRODUCED.handle(handler, error_response, permission, request)


def _find_coordinator(
    handler: Handler, error_response: ErrorResponse, permission: Permission, request: FindCoordinatorRequest
) -> Any:
    if permission.context.api_version >= _KEYS_FROM_VERSION:
        return Entries("coordinator_keys", "coordinators", _of_coordinators, _MESSAGES).handle(
            handler, error_response, permission, request
        )
    code = _coordinator(permission, request.key_type, request.key)
    if code == ErrorCode.NONE:
        return handler(request, permission.context)
    response = error_response(request, permission.context.api_version, code)
    response.error_message = _MESSAGES[code]
    return response


def _init_producer_id(
    handler: Handler, error_response: ErrorResponse, permission: Permission, request: InitProducerIdRequest
) -> Any:
    """Without a transactional id, IDEMPOTENT_WRITE on the cluster or WRITE on any topic is enough."""
    access, context = permission.access, permission.context
    if request.transactional_id is not None:
        is_allowed, resource_type = (
            permission.allows(permission.resource_type, request.transactional_id),
            permission.resource_type,
        )
    else:
        resource_type = ResourceType.CLUSTER
        is_allowed = access.allows(context, Operation.IDEMPOTENT_WRITE, resource_type, log_denial=False)
        is_allowed = is_allowed or access.allows_any(context, Operation.WRITE, ResourceType.TOPIC)
    _check(is_allowed, resource_type)
    return handler(request, context)


def _create_topics(
    handler: Handler, error_response: ErrorResponse, permission: Permission, request: CreateTopicsRequest
) -> Any:
    """Create all topics; hide in the response the description of topics whose configs the client may not see."""
    names = [topic.name for topic in request.topics]
    shown = permission.access.allowed(
        permission.context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, log_denial=False
    )

    def hide(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            if topic.name not in shown:
                topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = ()
        return response

    response = _NEW_TOPICS.handle(handler, error_response, permission, request)
    return response.map(hide) if isinstance(response, Deferred) else hide(response)


def _transactional(handler: Handler, error_response: ErrorResponse, permission: Permission, request: Any) -> Any:
    """The request needs its row's operation on its transactional id."""
    _check(permission.allows(ResourceType.TRANSACTIONAL_ID, request.transactional_id), ResourceType.TRANSACTIONAL_ID)
    return handler(request, permission.context)


def _add_partitions_to_txn(
    handler: Handler, error_response: ErrorResponse, permission: Permission, request: AddPartitionsToTxnRequest
) -> Any:
    """A broker needs CLUSTER_ACTION on the cluster. The handler checks the topics of a client's request."""
    access, context = permission.access, permission.context
    if context.api_version >= _ADDED_BY_BROKERS_FROM_VERSION:
        _check(access.allows(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER), ResourceType.CLUSTER)
    else:
        resource_type = ResourceType.TRANSACTIONAL_ID
        _check(permission.allows(resource_type, request.v3_and_below_transactional_id), resource_type)
    return handler(request, context)


def _offsets_to_txn(handler: Handler, error_response: ErrorResponse, permission: Permission, request: Any) -> Any:
    """The request needs WRITE on its transactional id, and READ on its group."""
    access, context = permission.access, permission.context
    _check(permission.allows(ResourceType.TRANSACTIONAL_ID, request.transactional_id), ResourceType.TRANSACTIONAL_ID)
    _check(access.allows(context, Operation.READ, ResourceType.GROUP, request.group_id), ResourceType.GROUP)
    return handler(request, context)


def _txn_offset_commit(handler: Handler, error_response: ErrorResponse, permission: Permission, request: Any) -> Any:
    """The request needs WRITE on its transactional id, and READ on its group and on each topic."""

    def commit(some: Any, context: RequestContext) -> Any:
        of_topics = Permission(permission.access, context, Operation.READ, ResourceType.TOPIC)
        return _TOPICS.handle(handler, error_response, of_topics, some)

    return _offsets_to_txn(commit, error_response, permission, request)


def _write_txn_markers(handler: Handler, error_response: ErrorResponse, permission: Permission, request: Any) -> Any:
    """The request needs ALTER or CLUSTER_ACTION on the cluster."""
    access, context, cluster = permission.access, permission.context, ResourceType.CLUSTER
    _check(access.allows(context, Operation.ALTER, cluster, log_denial=False) or permission.allows(cluster), cluster)
    return handler(request, context)


GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.LIST_OFFSETS: _TOPICS.handle,
    ApiKey.LEADER_AND_ISR: _cluster,
    ApiKey.STOP_REPLICA: _cluster,
    ApiKey.UPDATE_METADATA: _cluster,
    ApiKey.CONTROLLED_SHUTDOWN: _cluster,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _group,
    ApiKey.HEARTBEAT: _group,
    ApiKey.LEAVE_GROUP: _group,
    ApiKey.SYNC_GROUP: _group,
    ApiKey.DESCRIBE_GROUPS: Entries("groups", "groups", _by_itself).handle,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_RECORDS: _TOPICS.handle,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: _offsets_to_txn,
    ApiKey.END_TXN: _transactional,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.DESCRIBE_TRANSACTIONS: Entries("transactional_ids", "transaction_states", _by_itself).handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Entries("topics", "topics", _of_epochs).handle,
    ApiKey.DESCRIBE_CONFIGS: Entries("resources", "results", _of_configs, _MESSAGES).handle,
    ApiKey.ALTER_CONFIGS: Entries("resources", "responses", _of_configs).handle,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _cluster,
    ApiKey.DESCRIBE_LOG_DIRS: _cluster,
    ApiKey.CREATE_PARTITIONS: _MORE_PARTITIONS.handle,
    ApiKey.DELETE_GROUPS: Entries("groups_names", "results", _by_itself).handle,
    ApiKey.ELECT_LEADERS: _cluster,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Entries("resources", "responses", _of_configs).handle,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _cluster,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _cluster,
    ApiKey.ALLOCATE_PRODUCER_IDS: _cluster,
    ApiKey.ALTER_PARTITION: _cluster,
    ApiKey.DESCRIBE_PRODUCERS: Entries("topics", "topics", _by_name, _MESSAGES).handle,
}
WITHOUT_GUARD: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.API_VERSIONS,
        ApiKey.DELETE_TOPICS,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)


def guarded(
    key: ApiKey,
    operation: Operation,
    resource_type: ResourceType,
    handler: Handler,
    error_response: ErrorResponse | None,
    access: Access,
) -> Handler:
    """Return the handler behind the guard of its API, or the handler itself if there is no guard."""
    guard = GUARDS.get(key)
    if guard is None or error_response is None:
        return handler

    def handle(request: Any, context: RequestContext) -> Any:
        return guard(handler, error_response, Permission(access, context, operation, resource_type), request)

    return handle
