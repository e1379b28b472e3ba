"""THE table of what this broker answers, and the one place through which every request goes.

Each row names the versions advertised and served, and the operation on the kind of resource that the request needs, for
an authorizer to ask. `Apis.dispatch` decodes a frame, calls its handler, and encodes the reply; it counts, times, and
turns what handlers raise into answers. Must not know sockets, nor what any handler does.
Counterparts in Kafka: ApiKeys, ApiVersionManager, KafkaApis.handle, RequestChannel.Metrics.
"""

import logging
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.broker.authorizer import Access, Operation, ResourceType
from ottla.broker.guards import guarded
from ottla.broker.handlers import api_versions
from ottla.broker.large_requests import LargeRequests
from ottla.broker.request_context import ClientSession, CloseConnection, Deferred, RequestContext
from ottla.broker.request_logger import logged
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import (
    Chunk,
    RequestHeader,
    UnsupportedVersion,
    decode_request,
    decode_request_header,
    encode_response,
)
from ottla.wire.errors import DecodeError, ErrorCode, KafkaError
from ottla.wire.large_arrays import ManyElements
from ottla.wire.types import VersionRange

logger = logging.getLogger("kafka.server.KafkaApis")

# (request, context) -> response | Deferred | None. Typed where it is written; here all messages are alike.
Handler = Callable[[Any, Any], Any]
# (request, version, error) -> response
ErrorResponse = Callable[[Any, int, ErrorCode], Any]


class Row(NamedTuple):
    """An API as this broker offers it. `served` is narrower where versions are told but not answered."""

    key: ApiKey
    advertised: str
    operation: Operation
    resource: ResourceType
    served: str | None = None


TABLE: Final = (
    # librdkafka takes a broker without Produce 0-2 for one that knows no compression; they are told, and closed.
    Row(ApiKey.PRODUCE, "0-11", Operation.WRITE, ResourceType.TOPIC, served="3-11"),
    Row(ApiKey.FETCH, "4-17", Operation.READ, ResourceType.TOPIC),
    Row(ApiKey.LIST_OFFSETS, "1-9", Operation.DESCRIBE, ResourceType.TOPIC),
    Row(ApiKey.METADATA, "0-12", Operation.DESCRIBE, ResourceType.TOPIC),
    Row(ApiKey.LEADER_AND_ISR, "0-7", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.STOP_REPLICA, "0-4", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.UPDATE_METADATA, "0-8", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.CONTROLLED_SHUTDOWN, "0-3", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.OFFSET_COMMIT, "2-9", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.OFFSET_FETCH, "1-9", Operation.DESCRIBE, ResourceType.GROUP),
    Row(ApiKey.FIND_COORDINATOR, "0-6", Operation.DESCRIBE, ResourceType.GROUP),
    Row(ApiKey.JOIN_GROUP, "0-9", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.HEARTBEAT, "0-4", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.LEAVE_GROUP, "0-5", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.SYNC_GROUP, "0-5", Operation.READ, ResourceType.GROUP),
    Row(ApiKey.DESCRIBE_GROUPS, "0-5", Operation.DESCRIBE, ResourceType.GROUP),
    Row(ApiKey.LIST_GROUPS, "0-5", Operation.DESCRIBE, ResourceType.GROUP),
    Row(ApiKey.API_VERSIONS, "0-4", Operation.NONE, ResourceType.NONE),
    Row(ApiKey.CREATE_TOPICS, "2-7", Operation.CREATE, ResourceType.TOPIC),
    Row(ApiKey.DELETE_TOPICS, "1-6", Operation.DELETE, ResourceType.TOPIC),
    Row(ApiKey.DELETE_RECORDS, "0-2", Operation.DELETE, ResourceType.TOPIC),
    Row(ApiKey.INIT_PRODUCER_ID, "0-5", Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    Row(ApiKey.OFFSET_FOR_LEADER_EPOCH, "2-4", Operation.DESCRIBE, ResourceType.TOPIC),
    Row(ApiKey.DESCRIBE_CONFIGS, "1-4", Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
    Row(ApiKey.ALTER_CONFIGS, "0-2", Operation.ALTER_CONFIGS, ResourceType.TOPIC),
    Row(ApiKey.ALTER_REPLICA_LOG_DIRS, "1-2", Operation.ALTER, ResourceType.CLUSTER),
    Row(ApiKey.DESCRIBE_LOG_DIRS, "1-4", Operation.DESCRIBE, ResourceType.CLUSTER),
    Row(ApiKey.CREATE_PARTITIONS, "0-3", Operation.ALTER, ResourceType.TOPIC),
    Row(ApiKey.DELETE_GROUPS, "0-2", Operation.DELETE, ResourceType.GROUP),
    Row(ApiKey.ELECT_LEADERS, "0-2", Operation.ALTER, ResourceType.CLUSTER),
    Row(ApiKey.INCREMENTAL_ALTER_CONFIGS, "0-1", Operation.ALTER_CONFIGS, ResourceType.TOPIC),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "0", Operation.ALTER, ResourceType.CLUSTER),
    Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, "0", Operation.DESCRIBE, ResourceType.CLUSTER),
    Row(ApiKey.OFFSET_DELETE, "0", Operation.DELETE, ResourceType.GROUP),
    Row(ApiKey.ALTER_PARTITION, "0-3", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.DESCRIBE_CLUSTER, "0-1", Operation.DESCRIBE, ResourceType.CLUSTER),
    Row(ApiKey.DESCRIBE_PRODUCERS, "0", Operation.READ, ResourceType.TOPIC),
    Row(ApiKey.ALLOCATE_PRODUCER_IDS, "0", Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    Row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "0", Operation.DESCRIBE, ResourceType.TOPIC),
)


class Api:
    """A row with its handler, and what is counted about it."""

    __slots__ = ("error_response", "failures", "handler", "requests", "row", "seconds")

    def __init__(self, row: Row, handler: Handler, error_response: ErrorResponse | None = None) -> None:
        self.row = row
        self.handler = handler
        self.error_response = error_response
        self.requests = 0
        self.failures = 0
        self.seconds = 0.0


class Owed:
    """A reply that will come. `reply` holds its bytes from then until its turn to leave.

    It knows nothing of the request: that would keep the connection's receive buffer.
    """

    __slots__ = ("_correlation_id", "_version", "deferred", "reply", "size")

    def __init__(self, deferred: Deferred[Any], correlation_id: int, version: int) -> None:
        self.deferred = deferred
        self._correlation_id = correlation_id
        self._version = version
        self.reply: list[Chunk] | None = None
        self.size = 0

    def encode(self, response: Any) -> None:
        """Make the response bytes, and keep them; None, as for acks=0, makes none."""
        reply = [] if response is None else encode_response(self._correlation_id, response, self._version)
        self.reply = reply
        self.size = sum(map(len, reply))


class _Encoded(Owed):
    """A reply that will come as bytes."""

    __slots__ = ()

    def encode(self, response: list[Chunk]) -> None:
        self.reply = response
        self.size = sum(map(len, response))


_KEY_AND_VERSION: Final = struct.Struct(">I")


class Apis:
    """What can be reached from the network."""

    def __init__(
        self,
        apis: Iterable[Api],
        large_requests: LargeRequests | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Without `large_requests`, requests of many elements end the connection."""
        self.apis = tuple(apis)
        self._large_requests = large_requests
        self._clock = clock
        # By both numbers as they stand at the head of a frame: one look-up says whether a request is served.
        self._served: dict[int, Api] = {
            api.row.key << 16 | version: api
            for api in self.apis
            for version in VersionRange.parse(api.row.served or api.row.advertised)
        }

    def dispatch(self, session: ClientSession, frame: memoryview) -> list[Chunk] | Owed | None:
        """Answer a frame. DecodeError and CloseConnection end the connection."""
        started = self._clock()
        if len(frame) < 4:
            raise DecodeError("a request without a header")
        api = self._served.get(_KEY_AND_VERSION.unpack_from(frame)[0])
        if api is None:
            return self._unsupported(frame)
        api.requests += 1
        try:
            header, request = decode_request(frame)
        except ManyElements:
            return self._dispatch_large(session, api, frame)
        version = header.api_version
        context = session.context(header.api_key, version, header.client_id)
        try:
            response = api.handler(request, context)
            if isinstance(response, Deferred):
                if not response.done:
                    return Owed(response, header.correlation_id, version)
                response = response.response
            if response is None:
                return None
            return encode_response(header.correlation_id, response, version)
        except ManyElements:
            return self._dispatch_large(session, api, frame)
        except (CloseConnection, DecodeError):
            raise
        except Exception as error:
            return encode_response(header.correlation_id, _failed(api, request, context, error), version)
        finally:
            api.seconds += self._clock() - started

    def _dispatch_large(self, session: ClientSession, api: Api, frame: memoryview) -> Owed:
        """Have it answered later; the connection is muted until then."""
        if self._large_requests is None:
            raise DecodeError("a request of many elements")

        def respond(header: RequestHeader, request: Any) -> Any:
            context = session.context(header.api_key, header.api_version, header.client_id)
            started = self._clock()
            try:
                return api.handler(request, context)
            except (CloseConnection, DecodeError):
                raise
            except Exception as error:
                return _failed(api, request, context, error)
            finally:
                api.seconds += self._clock() - started

        return _Encoded(self._large_requests.carry_out(frame, respond), -1, -1)

    def _unsupported(self, frame: memoryview) -> list[Chunk]:
        """Close, unless a client asks for the versions in a version that is not known yet."""
        header = _header(frame)
        if header.api_key != ApiKey.API_VERSIONS:
            raise DecodeError(f"no API {header.api_key} in version {header.api_version}")
        offered = {api.row.key: VersionRange.parse(api.row.advertised) for api in self.apis}
        return encode_response(header.correlation_id, api_versions.unsupported_version(offered), 0)


def _header(frame: memoryview) -> RequestHeader:
    try:
        return decode_request_header(frame)[0]
    except UnsupportedVersion as unsupported:
        return unsupported.header


def _failed(api: Api, request: Any, context: RequestContext, error: Exception) -> Any:
    """The answer to a request that failed as a whole."""
    api.failures += 1
    if isinstance(error, KafkaError):
        code = error.code
    else:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        logger.error("A bug: %s failed for %r", api.row.key.name, context, exc_info=error)
    if api.error_response is None:
        raise CloseConnection(f"{api.row.key.name} has no form for {code.name}") from error
    return api.error_response(request, context.api_version, code)


def build_apis(
    handlers: Mapping[ApiKey, tuple[Handler, ErrorResponse | None]],
    access: Access | None = None,
    large_requests: LargeRequests | None = None,
) -> Apis:
    """The table with its handlers, guarded where there is access to be denied, and logged where that is wanted.

    A row without a handler is not offered. ApiVersions is answered from the table itself.
    """
    rows = [row for row in TABLE if row.key in handlers or row.key == ApiKey.API_VERSIONS]
    offered = {row.key: VersionRange.parse(row.advertised) for row in rows}
    own = (partial(api_versions.handle, offered=offered), api_versions.error_response)
    apis = []
    for row in rows:
        handler, error_response = handlers.get(row.key, own)
        if access is not None and access.authorizer is not None:
            handler = guarded(row.key, row.operation, row.resource, handler, error_response, access)
        apis.append(Api(row, logged(row.key, handler), error_response))
    return Apis(apis, large_requests)
