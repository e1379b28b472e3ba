"""HTTP: what becomes of bytes, and which bounds hold."""

import contextlib
import http.client
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.pipeline.server import http_server
from ottla.pipeline.server.answers import Answer
from ottla.pipeline.server.http_server import MOST_BYTES, HttpServer, parse_listen, worker_id

JSON = {"Content-Type": "application/json"}


def echo(method: str, target: str, body: Any) -> Answer:
    return Answer(204) if target == "/nothing" else Answer(200, [method, target, body], {"X-Echo": "yes"})


@pytest.fixture
def server() -> Iterator[HttpServer]:
    server = HttpServer("127.0.0.1", 0)
    server.start(echo)
    yield server
    server.stop()


@pytest.fixture
def client(server: HttpServer) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    yield connection
    connection.close()


def ask(
    client: http.client.HTTPConnection, method: str, path: str, body: Any = None, headers: Any = JSON
) -> tuple[int, Any]:
    client.request(method, path, body, headers)
    response = client.getresponse()
    said = response.read()
    return response.status, json.loads(said) if said else None


def raw(server: HttpServer, sent: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_requests_are_answered_one_after_the_other_on_a_connection(client: http.client.HTTPConnection) -> None:
    assert ask(client, "PUT", "/a?b=c", '{"x": 1}') == (200, ["PUT", "/a?b=c", {"x": 1}])
    before = client.sock
    assert ask(client, "GET", "/nothing", headers={}) == (204, None)
    assert ask(client, "PATCH", "/", "[]", {"Content-Type": "application/json; charset=utf-8"})[0] == 200
    assert ask(client, "DELETE", "/x", headers={}) == (200, ["DELETE", "/x", None])
    assert client.sock is before


def test_head_is_answered_without_a_body(client: http.client.HTTPConnection) -> None:
    client.request("HEAD", "/")
    response = client.getresponse()
    assert (response.status, response.read(), response.headers["X-Echo"]) == (200, b"", "yes")
    assert int(response.headers["Content-Length"]) > 0


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("{", JSON, 400),
        ("[" * 100_000, JSON, 400),
        (b"\xff", JSON, 400),
        ("{}", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("{}", {}, 415),
        (None, {"Content-Length": "-1"}, 400),
        (None, {"Content-Length": str(MOST_BYTES + 1)}, 413),
        (None, {"Content-Length": "9" * 5000}, 413),
        (None, {"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_a_body_that_cannot_be_taken_is_refused_and_ends_the_connection(
    client: http.client.HTTPConnection, body: Any, headers: Any, status: int
) -> None:
    client.request("POST", "/", body, headers)
    response = client.getresponse()
    assert (response.status, json.loads(response.read())["error_code"]) == (status, status)
    assert response.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"BREW / HTTP/1.1\r\n\r\n", b"501"),
        (b"GET /\x00 HTTP/9.9\r\n\r\n", b"505"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + (b"X: " + b"y" * 60_000 + b"\r\n") * 3, b"431"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    ],
)
def test_what_is_no_request_is_answered_in_the_same_form(server: HttpServer, sent: bytes, status: bytes) -> None:
    head, _, body = raw(server, sent).partition(b"\r\n\r\n")
    assert head.split()[1] == status
    assert json.loads(body)["error_code"] == int(status)


def test_a_silent_connection_is_closed(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server.Handler, "timeout", 0.1)
    assert raw(server, b"POST / HTTP/1.1\r\n") == b""


def test_a_request_that_comes_byte_by_byte_is_not_waited_for_without_end(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server.Handler, "timeout", 0.5)
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
        began, is_closed = time.monotonic(), False
        while not is_closed and time.monotonic() - began < 10:
            time.sleep(0.1)
            with contextlib.suppress(OSError):
                connection.send(b" ")
            is_closed = bool(select.select([connection], [], [], 0)[0])
        assert is_closed


def test_what_one_request_holds_counts_for_no_other(client: http.client.HTTPConnection) -> None:
    for _ in range(3):
        assert ask(client, "POST", "/", "[" + " " * (MOST_BYTES - 2) + "]")[0] == 200


def test_a_server_stops_while_a_connection_waits_for_others_to_end(server: HttpServer) -> None:
    address = ("127.0.0.1", server.port)
    taken = [socket.create_connection(address, timeout=120) for _ in range(http_server.MOST_CONNECTIONS)]
    # It says nothing, so that nothing is left unread when it is closed.
    waiting = threading.Thread(target=raw, args=(server, b""))
    waiting.start()
    waiting.join(0.3)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    stopping.join(120)
    has_stopped = not stopping.is_alive()
    for connection in taken:
        connection.close()
    waiting.join(120)
    assert has_stopped


def test_one_connection_too_many_waits_until_another_one_ends(server: HttpServer) -> None:
    address = ("127.0.0.1", server.port)
    taken = [socket.create_connection(address, timeout=120) for _ in range(http_server.MOST_CONNECTIONS)]
    answers: list[bytes] = []
    waiting = threading.Thread(target=lambda: answers.append(raw(server, b"GET / HTTP/1.0\r\n\r\n")))
    waiting.start()
    waiting.join(0.3)
    assert answers == []
    taken.pop().close()
    waiting.join(120)
    assert answers[0].startswith(b"HTTP/1.1 200")
    for connection in taken:
        connection.close()


@pytest.mark.parametrize(
    ("listen", "parsed"),
    [("127.0.0.1:8083", ("127.0.0.1", 8083)), ("[::1]:0", ("::1", 0)), ("host:65535", ("host", 65535))],
)
def test_where_to_listen_is_host_and_port(listen: str, parsed: tuple[str, int]) -> None:
    assert parse_listen(listen) == parsed


@pytest.mark.parametrize("listen", ["8083", ":8083", "host:", "host:x", "host:65536", "host:-1"])
def test_where_to_listen_is_checked(listen: str) -> None:
    with pytest.raises(ValueError, match="is to be HOST:PORT"):
        parse_listen(listen)


def test_a_server_is_called_by_a_name_that_others_can_use() -> None:
    here = socket.gethostname()
    assert [worker_id(host, 1) for host in ("127.0.0.1", "::", "localhost", "10.1.2.3", "kafka.example")] == [
        f"{here}:1", f"{here}:1", f"{here}:1", "10.1.2.3:1", "kafka.example:1"
    ]  # fmt: skip
