"""Headers and messages to frames and back, for a server and for its clients.

Owns the headers and their versions, and the size prefix of sent frames. Must not know a handler or a socket.
Counterpart in Kafka: org.apache.kafka.common.requests.{RequestHeader, RequestContext, ResponseHeader}.
"""

import struct
from collections.abc import Callable
from itertools import groupby
from typing import Any, NamedTuple

from ottla.wire import messages
from ottla.wire.api_keys import ApiKey
from ottla.wire.compiled.compiler import Decoder, Encoder, decoder, encoder, large_decoder
from ottla.wire.compiled.decoder_source import skip_tagged_fields, uvarint_rest
from ottla.wire.errors import DecodeError
from ottla.wire.large_arrays import many
from ottla.wire.schema import Request, Response
from ottla.wire.types import Region

Chunk = bytes | bytearray | memoryview | Region

_REQUEST_HEAD = struct.Struct(">hhih")
_unpack_head = _REQUEST_HEAD.unpack_from
_HEAD_WITHOUT_CLIENT_ID = struct.Struct(">hhi")
_RESPONSE_HEAD = struct.Struct(">ii")
_RESPONSE_HEAD_FLEXIBLE = struct.Struct(">iix")


class RequestHeader:
    """The header of a request."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def __repr__(self) -> str:
        return f"RequestHeader({self.api_key}, {self.api_version}, {self.correlation_id}, {self.client_id!r})"


class UnsupportedVersion(DecodeError):  # noqa: N818
    """A request of a known API in an unknown version; `header` is the readable part of its header."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"version {header.api_version} of {ApiKey(header.api_key).name}")
        self.header = header


class _RequestRoute(NamedTuple):
    """The decoding of requests of one key and version."""

    flexible: bool
    has_client_id: bool
    decode: Decoder


class _ResponseRoute(NamedTuple):
    """The encoding of responses of one type and version; `head_size` is the header's, without the size prefix."""

    encode: Encoder
    pack_head: Callable[[int, int], bytes]
    head_size: int


_request_routes: dict[tuple[int, int], _RequestRoute] = {}
_response_routes: dict[tuple[type[Response], int], _ResponseRoute] = {}


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Return the header and the position of the body. UnsupportedVersion: the key is known, but not the version."""
    header, pos, _ = _decode_header(frame)
    return header, pos


def decode_request(frame: memoryview) -> tuple[RequestHeader, Request]:
    """Return the header and the body of a request. ManyElements: use `decode_large_request`."""
    header, pos, route = _decode_header(frame)
    return header, route.decode(frame, pos)[0]


def decode_large_request(frame: memoryview) -> tuple[RequestHeader, Request]:
    """Return header and body of a request of many elements, slowly; its arrays may be views of the frame."""
    header, pos, _ = _decode_header(frame)
    request_type = messages.request_type(header.api_key)
    if request_type is None:
        raise DecodeError(f"unknown API key {header.api_key}")
    return header, large_decoder(request_type, header.api_version)(frame, pos, many())[0]


def _decode_header(frame: memoryview) -> tuple[RequestHeader, int, _RequestRoute]:
    try:
        key, version, correlation_id, length = _unpack_head(frame, 0)
        route = _request_routes.get((key, version)) or _find_request_route(frame, key, version)
        if not route.has_client_id:
            return RequestHeader(key, version, correlation_id, None), 8, route
        client_id, pos = _client_id(frame, length)
        if route.flexible:
            count = frame[pos]
            pos += 1
            if count:
                pos = _skip_header_tags(frame, pos, count)
    except (struct.error, IndexError) as error:
        raise DecodeError(f"request header: {error}") from None
    return RequestHeader(key, version, correlation_id, client_id), pos, route


def _client_id(frame: memoryview, length: int) -> tuple[str | None, int]:
    # The length is of fixed width in every version of the header, flexible or not.
    if length < 0:
        return None, 10
    end = 10 + length
    if end > len(frame):
        raise DecodeError("the client id reaches beyond the end")
    return str(frame[10:end], "utf-8", "replace"), end


def _skip_header_tags(frame: memoryview, pos: int, count: int) -> int:
    if count > 127:
        count, pos = uvarint_rest(frame, pos, count)
    return skip_tagged_fields(frame, pos, len(frame), count)


def _find_request_route(frame: memoryview, key: int, version: int) -> _RequestRoute:
    request_type = messages.request_type(key)
    if request_type is None:
        raise DecodeError(f"unknown API key {key}")
    if version not in request_type.versions:
        _, _, correlation_id, length = _unpack_head(frame, 0)
        raise UnsupportedVersion(RequestHeader(key, version, correlation_id, _client_id(frame, length)[0]))
    route = _request_routes[key, version] = _RequestRoute(
        version in request_type.flexible, _has_client_id(key, version), decoder(request_type, version)
    )
    return route


def _has_client_id(key: int, version: int) -> bool:
    return (key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0)


def encode_response(correlation_id: int, response: Response, version: int) -> list[Chunk]:
    """Return the response with size and header; adjacent bytes are joined, regions stay as they are."""
    route = _response_routes.get((type(response), version)) or _find_response_route(type(response), version)
    chunks: list[Any] = [b""]
    route.encode(response, chunks)
    chunks[0] = route.pack_head(sum(map(len, chunks)) + route.head_size, correlation_id)
    try:
        return [b"".join(chunks)]
    except TypeError:
        return _join_between_regions(chunks)


def _find_response_route(response_type: type[Response], version: int) -> _ResponseRoute:
    head = _RESPONSE_HEAD_FLEXIBLE if _has_flexible_header(response_type, version) else _RESPONSE_HEAD
    route = _response_routes[response_type, version] = _ResponseRoute(
        encoder(response_type, version), head.pack, head.size - 4
    )
    return route


def _has_flexible_header(response_type: type[Response], version: int) -> bool:
    """Return whether the header is flexible; ApiVersions' never is, because a newer client must be able to read it."""
    return version in response_type.flexible and response_type.api_key != ApiKey.API_VERSIONS


def _join_between_regions(chunks: list[Any]) -> list[Chunk]:
    joined: list[Chunk] = []
    for in_memory, run in groupby(chunks, lambda chunk: isinstance(chunk, bytes | bytearray | memoryview)):
        if in_memory:
            joined.append(b"".join(run))
        else:
            joined.extend(run)
    return joined


def encode_request(api_version: int, correlation_id: int, client_id: str | None, request: Request) -> bytes:
    """Return the request with size and header."""
    request_type = type(request)
    key = request_type.api_key
    if _has_client_id(key, api_version):
        encoded = b"" if client_id is None else client_id.encode()
        length = -1 if client_id is None else len(encoded)
        head = _REQUEST_HEAD.pack(key, api_version, correlation_id, length) + encoded
    else:
        head = _HEAD_WITHOUT_CLIENT_ID.pack(key, api_version, correlation_id)
    if api_version in request_type.flexible:
        head += b"\0"
    chunks: list[Any] = [b"", head]
    encoder(request_type, api_version)(request, chunks)
    chunks[0] = struct.pack(">i", sum(map(len, chunks)))
    return b"".join(chunks)


def decode_response(frame: memoryview, request_type: type[Request], version: int) -> tuple[int, Response]:
    """Return the correlation id and the body of a response to a request of this type and version."""
    response_type = messages.response_type(request_type.api_key)
    if response_type is None:
        raise DecodeError(f"no response is known to {request_type.__name__}")
    try:
        (correlation_id,) = struct.unpack_from(">i", frame, 0)
        pos = 4
        if _has_flexible_header(response_type, version):
            pos = _skip_header_tags(frame, 5, frame[4])
    except (struct.error, IndexError) as error:
        raise DecodeError(f"response header: {error}") from None
    return correlation_id, decoder(response_type, version)(frame, pos)[0]
