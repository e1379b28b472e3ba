"""HTTP for the REST interface: bytes become a request, an answer becomes bytes.

Owns sockets and bounds: on what a request holds, how long it may take to come, how many there are at once. Must not
know what any request means. Counterpart in Kafka: RestServer, which is Jetty there.
"""

import http.client
import http.server
import io
import ipaddress
import json
import logging
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from ottla.pipeline.server.answers import Answer, RestError

logger = logging.getLogger(__name__)

# A config has to fit into a record, and a record into a batch of a mebibyte.
MOST_BYTES: Final = 512 * 1024
# Of what stands before a body.
MOST_HEAD_BYTES: Final = 128 * 1024
MOST_CONNECTIONS: Final = 64
# So long a connection may be silent, and so long a request may take to come.
SILENCE_S: Final = 30.0
LOOK_EVERY_S: Final = 0.2
_MOST_DIGITS: Final = 20

# Given method, target and what the body says.
Answerer = Callable[[str, str, Any], Answer]


class HttpServer(http.server.ThreadingHTTPServer):
    """Listens, and has requests answered, each connection in a thread of its own."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS
    answer: Answerer

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._is_stopping = False
        super().__init__((host, port), Handler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": LOOK_EVERY_S}, name="http")

    def server_bind(self) -> None:
        """Bind without asking for the host's name, which may take long."""
        socketserver.TCPServer.server_bind(self)

    def start(self, answer: Answerer) -> None:
        """Begin to answer."""
        self.answer = answer
        self._thread.start()

    def stop(self) -> None:
        """End; what is being answered is answered, if it is soon."""
        self._is_stopping = True
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.server_close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait until there are few enough connections; new ones wait in the socket's queue."""
        while not self._free.acquire(timeout=LOOK_EVERY_S):
            if self._is_stopping:
                self.shutdown_request(request)
                return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection; then there may be another one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def server_close(self) -> None:
        """Close the socket; threads of connections that wait for a request end with the process."""
        socketserver.TCPServer.server_close(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over connections that broke; whatever else went wrong is a bug."""
        is_broken = isinstance(sys.exception(), OSError)
        logger.log(logging.DEBUG if is_broken else logging.ERROR, "a connection broke", exc_info=True)


class _Received(io.RawIOBase):
    """What a client sends: so much of a request, in so much time, and no more."""

    def __init__(self, connection: socket.socket, patience_s: float) -> None:
        self._connection = connection
        self._patience_s = patience_s
        self._left = 0
        self._deadline: float | None = None

    def expect(self, size: int, *, is_new: bool = True) -> None:
        """Take so many bytes from now on. The time of a new request begins when the first of them is there."""
        self._left = size
        self._deadline = None if is_new else self._deadline

    def readable(self) -> bool:
        """Tell that there is something to read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for some bytes."""
        if self._left <= 0:
            # As for too many headers, which this is.
            raise http.client.HTTPException("the request is too long")
        patience_s = self._patience_s if self._deadline is None else self._deadline - time.monotonic()
        if patience_s <= 0:
            raise TimeoutError("the request takes too long")
        self._connection.settimeout(patience_s)
        count = self._connection.recv_into(buffer)
        self._connection.settimeout(self._patience_s)
        self._left -= count
        self._deadline = self._deadline or time.monotonic() + self._patience_s
        return count


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    # Before a request's own is known: errors have a status line, too.
    default_request_version = "HTTP/1.0"
    timeout = SILENCE_S
    server: HttpServer

    def setup(self) -> None:
        """Bound what is read."""
        super().setup()
        self.rfile.close()
        self._received = _Received(self.connection, self.timeout)
        self.rfile = io.BufferedReader(self._received)

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it."""
        self._received.expect(MOST_HEAD_BYTES)
        super().handle_one_request()

    def _handle(self) -> None:
        try:
            body = self._body()
        except RestError as error:
            # What is left of the request would be taken for the next one.
            self.close_connection = True
            self._send(error.answer)
            return
        self._send(self.server.answer(self.command, self.path, body))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815

    def _body(self) -> Any:
        """Read the body, if there is one."""
        if "Transfer-Encoding" in self.headers:
            raise RestError(411, "HTTP 411 Length Required")
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal()):
            raise RestError(400, "HTTP 400 Bad Request")
        if len(length) > _MOST_DIGITS or int(length) > MOST_BYTES:
            raise RestError(413, "HTTP 413 Request Entity Too Large")
        if int(length) == 0:
            return None
        # Also what keeps a page in a browser from sending configs here: it may not say this of what it sends.
        if self.headers.get_content_type() != "application/json":
            raise RestError(415, "HTTP 415 Unsupported Media Type")
        self._received.expect(MOST_BYTES + MOST_HEAD_BYTES, is_new=False)
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise RestError(400, f"the body is no JSON: {error}") from None

    def _send(self, answer: Answer) -> None:
        body = b"" if answer.body is None else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for key, value in answer.headers.items():
            self.send_header(key, value)
        if answer.body is not None:
            self.send_header("Content-Type", "application/json")
        if answer.status != http.HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no HTTP, or of an unknown method, as all else that is wrong."""
        self.close_connection = True
        self.command = getattr(self, "command", None) or "GET"
        self._send(RestError(code, f"HTTP {code} {message or http.HTTPStatus(code).phrase}").answer)

    def version_string(self) -> str:
        """Say no more than that."""
        return "ottla"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep requests out of the log."""
        logger.debug(format, *args)


def parse_listen(listen: str) -> tuple[str, int]:
    """HOST:PORT, with brackets around a host that has colons."""
    host, colon, port = listen.rpartition(":")
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError(f"--listen is to be HOST:PORT, not {listen!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def worker_id(host: str, port: int) -> str:
    """What others call this server: its machine's name where nobody else could reach the address."""
    try:
        address = ipaddress.ip_address(host)
        is_local = address.is_loopback or address.is_unspecified
    except ValueError:
        is_local = host == "localhost"
    return f"{socket.gethostname() if is_local else host}:{port}"
