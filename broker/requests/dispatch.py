"""The one place that every request passes.

`Apis.dispatch` decodes a frame, calls its handler and encodes the response. It turns exceptions of handlers into
responses. Must not know sockets, nor what a handler does. Counterpart in Kafka: KafkaApis.handle.
"""

import logging
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.reply import EncodedOwed, Owed
from ottla.broker.net.session import ClientSession, RequestContext
from ottla.broker.requests.authorization import guarded
from ottla.broker.requests.authorizer import Access
from ottla.broker.requests.large_requests import LargeRequests
from ottla.broker.requests.request_log import logged
from ottla.broker.requests.table import TABLE, ErrorResponse, Handler, Row
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


class Api:
    """A row of the table with its handler."""

    __slots__ = ("error_response", "handler", "row")

    def __init__(self, row: Row, handler: Handler, error_response: ErrorResponse | None = None) -> None:
        self.row = row
        self.handler = handler
        self.error_response = error_response


_KEY_AND_VERSION: Final = struct.Struct(">I")


class Apis:
    """The APIs that clients and other brokers can call."""

    def __init__(self, apis: Iterable[Api], large_requests: LargeRequests | None = None) -> None:
        """Without `large_requests`, a request of many elements ends its connection."""
        self.apis = tuple(apis)
        self._large_requests = large_requests
        # By key and version, as they stand at the head of a frame: one look-up finds whether a request is served.
        self._served: dict[int, Api] = {
            api.row.key << 16 | version: api
            for api in self.apis
            for version in VersionRange.parse(api.row.served or api.row.advertised)
        }

    def dispatch(self, session: ClientSession, frame: memoryview) -> list[Chunk] | Owed | None:
        """Return the reply to a frame, or None for none. DecodeError and CloseConnection end the connection."""
        if len(frame) < 4:
            raise DecodeError("a request without a header")
        api = self._served.get(_KEY_AND_VERSION.unpack_from(frame)[0])
        if api is None:
            return self._unsupported(frame)
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

    def _dispatch_large(self, session: ClientSession, api: Api, frame: memoryview) -> Owed:
        """Return a reply that comes later. The connection is muted until then."""
        if self._large_requests is None:
            raise DecodeError("a request of many elements")

        def handle(header: RequestHeader, request: Any) -> Any:
            context = session.context(header.api_key, header.api_version, header.client_id)
            try:
                return api.handler(request, context)
            except (CloseConnection, DecodeError):
                raise
            except Exception as error:
                return _failed(api, request, context, error)

        return EncodedOwed(self._large_requests.answer(frame, handle), -1, -1)

    def _unsupported(self, frame: memoryview) -> list[Chunk]:
        """Return error 35 for ApiVersions of an unknown version. Raise DecodeError for any other request."""
        header = _header(frame)
        if header.api_key != ApiKey.API_VERSIONS:
            raise DecodeError(f"no API {header.api_key} in version {header.api_version}")
        api = next((api for api in self.apis if api.row.key == ApiKey.API_VERSIONS), None)
        if api is None or api.error_response is None:
            raise DecodeError("ApiVersions is not offered")
        return encode_response(header.correlation_id, api.error_response(None, 0, ErrorCode.UNSUPPORTED_VERSION), 0)


def _header(frame: memoryview) -> RequestHeader:
    try:
        return decode_request_header(frame)[0]
    except UnsupportedVersion as unsupported:
        return unsupported.header


def _failed(api: Api, request: Any, context: RequestContext, error: Exception) -> Any:
    """Return the response to a request that failed as a whole."""
    if isinstance(error, KafkaError):
        code = error.code
    else:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        logger.error(
            "A bug: %s failed for %r, the client gets UNKNOWN_SERVER_ERROR", api.row.key.name, context, exc_info=error
        )
    if api.error_response is None:
        raise CloseConnection(f"{api.row.key.name} has no form for {code.name}") from error
    return api.error_response(request, context.api_version, code)


def build_apis(
    handlers: Mapping[ApiKey, tuple[Handler, ErrorResponse | None]],
    access: Access | None = None,
    large_requests: LargeRequests | None = None,
) -> Apis:
    """Return the rows of the table that have a handler.

    The handlers are guarded if there is an authorizer, and logged if the request logger is at DEBUG.
    """
    apis = []
    for row in TABLE:
        if row.key not in handlers:
            continue
        handler, error_response = handlers[row.key]
        if access is not None and access.authorizer is not None:
            handler = guarded(row.key, row.operation, row.resource, handler, error_response, access)
        apis.append(Api(row, logged(row.key, handler), error_response))
    return Apis(apis, large_requests)
