"""A client for tests that sends any frames over a socket, good or bad."""

import socket
from types import TracebackType
from typing import Self

from ottla.wire.codec import decode_response, encode_request
from ottla.wire.schema import Request, Response


class RawClient:
    """One connection to a broker."""

    def __init__(self, bootstrap: str, timeout_s: float = 120.0) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.settimeout(timeout_s)
        self.correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.socket.sendall(data)

    def send_frame(self, frame: bytes) -> None:
        """Send bytes behind their size."""
        self.send(len(frame).to_bytes(4, "big") + frame)

    def frame(self) -> bytes | None:
        """Return the next reply without its size, None if the broker has closed the connection."""
        size = self._exactly(4)
        return None if size is None else self._exactly(int.from_bytes(size, "big"))

    def ask(self, request: Request, version: int, client_id: str | None = "raw") -> Response:
        """Send a request and return its response."""
        self.correlation_id += 1
        self.send(encode_request(version, self.correlation_id, client_id, request))
        reply = self.frame()
        if reply is None:
            raise ConnectionError("the broker closed the connection without a response")
        correlation_id, response = decode_response(memoryview(reply), type(request), version)
        assert correlation_id == self.correlation_id
        return response

    def is_closed(self) -> bool:
        """Return whether the broker closes the connection without a reply."""
        return self._exactly(1) is None

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not piece:
                return None
            data += piece
        return data
