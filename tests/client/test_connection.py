"""One connection: versions, responses in request order, and invalid answers."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from ottla.client.config import ClientConfig
from ottla.client.connection import Connection, connect
from ottla.client.errors import (
    AuthenticationError,
    ClientError,
    ConnectionFailedError,
    UnsupportedRequestError,
)
from ottla.client.security import read_security
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Request, Response
from tests.client.scripted import HANG_UP, ScriptedBroker, listening

PATIENCE_S = 120
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{}";'
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'


NO_GROUPS = ListGroupsResponse(error_code=0, groups=[])


async def no_groups(header: RequestHeader, request: Request) -> Response:
    return NO_GROUPS


async def connect_to(host: str, port: int, config: ClientConfig) -> Connection:
    return await connect(host, port, config, read_security(config))


@asynccontextmanager
async def connected(broker: ScriptedBroker, **properties: str) -> AsyncIterator[Connection]:
    config = ClientConfig({key.replace("_", "."): value for key, value in properties.items()})
    with trio.fail_after(PATIENCE_S):
        async with listening(broker), trio.open_nursery() as nursery:
            connection = await connect_to(broker.host, broker.port, config)
            nursery.start_soon(connection.run)
            yield connection
            await connection.close()


async def test_the_newest_version_that_both_know_is_chosen() -> None:
    broker = ScriptedBroker(no_groups)
    broker.versions[ApiKey.LIST_GROUPS] = (1, 4)
    async with connected(broker) as connection:
        assert connection.version_of(ListGroupsRequest) == 4
        assert connection.version_of(ListGroupsRequest, highest=2) == 2
        with pytest.raises(UnsupportedRequestError, match="LIST_GROUPS in versions 1 to 4"):
            connection.version_of(ListGroupsRequest, lowest=5)


async def test_a_request_that_the_broker_lacks_is_an_error() -> None:
    broker = ScriptedBroker(no_groups)
    del broker.versions[ApiKey.DESCRIBE_CLUSTER]
    async with connected(broker) as connection:
        with pytest.raises(UnsupportedRequestError, match="does not offer DESCRIBE_CLUSTER"):
            connection.version_of(DescribeClusterRequest)


async def test_a_broker_that_knows_only_an_older_version_gets_that_version() -> None:
    """Kafka answers an ApiVersions that is too new in version 0, with error 35."""

    async def serve(stream: trio.SocketStream) -> None:
        frame = await stream.receive_some()
        # Size, correlation id, the error, no APIs: an old broker's answer to version 3.
        await stream.send_all(bytes.fromhex("0000000a") + frame[8:12] + bytes.fromhex("002300000000"))
        again = await stream.receive_some()
        assert again[4:8] == bytes.fromhex("00120003")
        await stream.send_all(bytes.fromhex("0000000c") + again[8:12] + bytes.fromhex("0000010000000000"))
        await stream.receive_some()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        with trio.fail_after(PATIENCE_S):
            connection = await connect_to("127.0.0.1", listeners[0].socket.getsockname()[1], ClientConfig({}))
        assert connection.api_versions == {}
        await connection.close()
        nursery.cancel_scope.cancel()


async def test_requests_are_sent_before_responses_come() -> None:
    both = trio.Event()

    async def answer(header: RequestHeader, request: Request) -> Response:
        await both.wait()
        return NO_GROUPS

    broker = ScriptedBroker(answer)
    async with connected(broker) as connection, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(connection.send, ListGroupsRequest(), 0)
        await trio.testing.wait_all_tasks_blocked()
        both.set()


async def test_an_abandoned_response_does_not_answer_the_next_request() -> None:
    first = trio.Event()

    async def answer(header: RequestHeader, request: Request) -> Response:
        await first.wait()
        return ListGroupsResponse(error_code=header.correlation_id, groups=[])

    broker = ScriptedBroker(answer)
    async with connected(broker) as connection:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.send, ListGroupsRequest(), 0)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        first.set()
        answered = await connection.send(ListGroupsRequest(), 0)
        assert isinstance(answered, ListGroupsResponse)
        assert answered.error_code == 3


async def test_a_closed_connection_fails_all_pending_requests() -> None:
    async def answer(header: RequestHeader, request: Request) -> None:
        return HANG_UP

    async with connected(ScriptedBroker(answer)) as connection:
        for _ in range(2):
            with pytest.raises(ConnectionFailedError, match="closed the connection"):
                await connection.send(ListGroupsRequest(), 0)


async def answered_by(data: bytes, **properties: str) -> ClientError:
    """Return the error of a connection to a server that sends these bytes and closes."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(data)

    config = ClientConfig({key.replace("_", "."): value for key, value in properties.items()})
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        try:
            with trio.fail_after(PATIENCE_S):
                await connect_to("127.0.0.1", listeners[0].socket.getsockname()[1], config)
        except ClientError as error:
            failed = error
        nursery.cancel_scope.cancel()
    return failed


async def test_a_listener_with_tls_is_recognised() -> None:
    error = await answered_by(bytes.fromhex("15030300020246"))
    assert "speaks TLS" in str(error)
    assert "SSL" in error.hint


async def test_a_listener_without_tls_is_recognised() -> None:
    error = await answered_by(b"\0\0\0\4nope", security_protocol="SSL")
    assert "does not speak TLS" in str(error)
    assert "PLAINTEXT" in error.hint


async def test_a_web_server_is_recognised() -> None:
    assert "a web server" in str(await answered_by(b"HTTP/1.1 400 Bad Request\r\n\r\n"))


async def test_a_server_that_is_not_a_broker_is_recognised() -> None:
    assert "not a Kafka broker" in str(await answered_by(b"\xff\xff\xff\xff\xff\xff"))


async def test_a_connection_that_ends_at_once_suggests_another_protocol() -> None:
    assert "TLS or SASL" in (await answered_by(b"")).hint


async def test_an_address_without_a_listener_is_named() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with pytest.raises(ConnectionFailedError, match=f"127.0.0.1:{port}: Connection refused"):
            await connect_to("127.0.0.1", port, ClientConfig({}))


async def test_a_name_that_does_not_resolve_is_an_error() -> None:
    with pytest.raises(ConnectionFailedError, match=r"no\.such\.host\.invalid:9092: the host name does not resolve"):
        await connect_to("no.such.host.invalid", 9092, ClientConfig({}))


# SASL


def asking_for(password: str) -> ScriptedBroker:
    """Return a broker that accepts PLAIN with one password."""

    async def answer(header: RequestHeader, request: Request) -> Response:
        if isinstance(request, SaslHandshakeRequest):
            code = ErrorCode.NONE if request.mechanism == "PLAIN" else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(error_code=code, mechanisms=["PLAIN"])
        if isinstance(request, SaslAuthenticateRequest):
            is_right = request.auth_bytes == b"\0alice\0" + password.encode()
            code = ErrorCode.NONE if is_right else ErrorCode.SASL_AUTHENTICATION_FAILED
            return SaslAuthenticateResponse(
                error_code=code, error_message=None if is_right else "wrong", auth_bytes=b""
            )
        return NO_GROUPS

    return ScriptedBroker(answer)


async def test_a_client_authenticates_itself_before_it_asks() -> None:
    broker = asking_for("pencil")
    properties = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": PLAIN.format("pencil"),
    }
    async with connected(broker, **properties) as connection:
        await connection.send(ListGroupsRequest(), 0)
    kinds = [ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest, ListGroupsRequest]
    assert [type(each) for each in broker.requests] == kinds


@pytest.mark.parametrize(
    ("mechanism", "password", "reason"),
    [
        ("PLAIN", "wrong", "wrong"),
        ("SCRAM-SHA-256", "pencil", "does not accept sasl.mechanism=SCRAM-SHA-256; it accepts PLAIN"),
    ],
)
async def test_the_error_of_a_refused_client_has_the_reason(mechanism: str, password: str, reason: str) -> None:
    broker = asking_for("pencil")
    config = ClientConfig(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": (PLAIN if mechanism == "PLAIN" else SCRAM).format(password),
        }
    )
    async with listening(broker):
        with pytest.raises(AuthenticationError, match=reason):
            await connect_to(broker.host, broker.port, config)
