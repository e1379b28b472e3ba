"""Clients of another protocol at a listener of Kafka's."""

import contextlib
import logging
import ssl

import pytest
import trio

from tests.broker.net.test_server import RunningServer


def client_hello() -> bytes:
    """The first bytes of a TLS client."""
    sent = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


@pytest.mark.parametrize(
    ("begins_with", "guess"),
    [
        (client_hello(), "it speaks TLS, and this listener does not"),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "it speaks HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "it speaks HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it does not speak Kafka's protocol"),
        (b"\xff\xff\xff\xff", "it does not speak Kafka's protocol (Invalid receive, size = -1)"),
    ],
)
async def test_a_client_of_another_protocol_has_one_warning_with_its_address_and_a_guess(
    nursery: trio.Nursery, begins_with: bytes, guess: str, caplog: pytest.LogCaptureFixture
) -> None:
    running = RunningServer(nursery)
    ports = []
    for _ in range(3):
        stream = await trio.open_tcp_stream(*running.address)
        ports.append(stream.socket.getsockname()[1])
        await stream.send_all(begins_with)
        with contextlib.suppress(trio.BrokenResourceError):
            assert await stream.receive_some(1) == b""
        await stream.aclose()
    (warning,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert (warning.name, warning.levelname) == ("org.apache.kafka.common.network.Selector", "WARNING")
    expected = f"127.0.0.1:{ports[0]} is disconnected from listener PLAINTEXT, {guess}"
    assert warning.getMessage().startswith(expected)
