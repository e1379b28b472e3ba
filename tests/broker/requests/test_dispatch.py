"""The table names the served versions, and every request passes `dispatch`."""

import struct

import pytest

from ottla.broker.bindings import with_api_versions
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.reply import Owed
from ottla.broker.net.session import ClientSession
from ottla.broker.requests.dispatch import Apis, build_apis
from ottla.broker.requests.table import TABLE, Handler
from ottla.wire import messages
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import Chunk, decode_response, encode_request
from ottla.wire.errors import DecodeError, ErrorCode, KafkaError
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.types import VersionRange
from tests.broker.support.toy import Toy, said


def frame(version: int, key: str = "say x") -> memoryview:
    return memoryview(encode_request(version, 77, "me", FindCoordinatorRequest(key=key)))[4:]


def joined(reply: list[Chunk]) -> bytes:
    assert all(isinstance(chunk, bytes) for chunk in reply)
    return b"".join(reply)  # type: ignore[arg-type]


def answer(apis: Apis, request: memoryview, version: int = 0) -> FindCoordinatorResponse:
    reply = apis.dispatch(ClientSession(), request)
    assert isinstance(reply, list)
    correlation_id, response = decode_response(memoryview(joined(reply))[4:], FindCoordinatorRequest, version)
    assert correlation_id == 77
    assert isinstance(response, FindCoordinatorResponse)
    return response


def ask_versions(apis: Apis, version: int, *, read_as: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    data = bytearray(encode_request(max(0, min(version, 3)), 77, "me", request)[4:])
    data[2:4] = version.to_bytes(2, "big", signed=True)
    reply = apis.dispatch(ClientSession(), memoryview(data))
    assert isinstance(reply, list)
    whole = joined(reply)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    correlation_id, response = decode_response(memoryview(whole)[4:], ApiVersionsRequest, read_as)
    assert correlation_id == 77
    assert isinstance(response, ApiVersionsResponse)
    return response


def nobody(request: object, context: object) -> None:
    raise AssertionError


ALL: dict[ApiKey, tuple[Handler, None]] = {row.key: (nobody, None) for row in TABLE if row.key != ApiKey.API_VERSIONS}


def test_api_versions_returns_the_table() -> None:
    told = ask_versions(build_apis(with_api_versions(ALL)), 3, read_as=3).api_keys
    assert {each.api_key: (each.min_version, each.max_version) for each in told} == {
        0: (0, 11),
        1: (4, 17),
        2: (1, 9),
        3: (0, 12),
        4: (0, 7),
        5: (0, 4),
        6: (0, 8),
        7: (0, 3),
        8: (2, 9),
        9: (1, 9),
        10: (0, 6),
        11: (0, 9),
        12: (0, 4),
        13: (0, 5),
        14: (0, 5),
        15: (0, 5),
        16: (0, 5),
        18: (0, 4),
        19: (2, 7),
        20: (1, 6),
        21: (0, 2),
        22: (0, 5),
        23: (2, 4),
        24: (0, 5),
        25: (0, 4),
        26: (0, 4),
        27: (1, 1),
        28: (0, 4),
        32: (1, 4),
        33: (0, 2),
        34: (1, 2),
        35: (1, 4),
        37: (0, 3),
        42: (0, 2),
        43: (0, 2),
        44: (0, 1),
        45: (0, 0),
        46: (0, 0),
        47: (0, 0),
        56: (0, 3),
        60: (0, 1),
        61: (0, 0),
        65: (0, 0),
        66: (0, 1),
        67: (0, 0),
        75: (0, 0),
    }


def test_every_version_that_is_served_can_be_decoded_and_answered() -> None:
    for row in TABLE:
        request, response = messages.request_type(row.key), messages.response_type(row.key)
        assert request is not None
        assert response is not None
        for version in VersionRange.parse(row.served or row.advertised):
            assert version in request.versions
            assert version in response.versions


def test_a_row_without_a_handler_is_not_offered() -> None:
    apis = build_apis(with_api_versions({ApiKey.PRODUCE: (nobody, None)}))
    assert [each.api_key for each in ask_versions(apis, 0, read_as=0).api_keys] == [0, 18]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_of_produce_are_advertised_and_close_the_connection(version: int) -> None:
    with pytest.raises(DecodeError):
        build_apis(with_api_versions(ALL)).dispatch(
            ClientSession(), memoryview(struct.pack(">hhih", 0, version, 1, -1) + bytes(100))
        )


@pytest.mark.parametrize("version", [5, 6, 99, 32767, -1, -32768])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(version: int) -> None:
    response = ask_versions(build_apis(with_api_versions(ALL)), version, read_as=0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.min_version, each.max_version) for each in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\x12\0", b"\0\x12\0\0", b"\0\x12\0\x63\0\0\0", b"\0\x12\0\x63\0\0\0\1\0"]
)
def test_a_frame_that_is_shorter_than_a_header_closes_the_connection(data: bytes) -> None:
    with pytest.raises(DecodeError):
        build_apis(with_api_versions(ALL)).dispatch(ClientSession(), memoryview(data))


@pytest.mark.parametrize(("key", "version"), [(10, 3), (10, -1), (11, 0), (-1, 0), (999, 0), (32767, 32767)])
def test_a_version_that_is_not_served_closes_the_connection(key: int, version: int) -> None:
    data = struct.pack(">hhih", key, version, 1, -1) + bytes(20)
    with pytest.raises(DecodeError):
        Toy().apis().dispatch(ClientSession(), memoryview(data))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_response_has_the_version_of_its_request(version: int) -> None:
    assert answer(Toy().apis(), frame(version), version).host == "x"


def test_a_kafka_error_is_the_answer_to_its_request() -> None:
    assert answer(Toy().apis(), frame(0, "error")).error_code == ErrorCode.NOT_COORDINATOR


def test_a_bug_is_an_unknown_server_error_and_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert answer(Toy().apis(), frame(0, "bug")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ZeroDivisionError" in caplog.text
    assert "FIND_COORDINATOR" in caplog.text


def test_a_response_that_cannot_be_encoded_is_a_bug_too(caplog: pytest.LogCaptureFixture) -> None:
    toy = Toy()
    toy.api.handler = lambda request, context: said(None)  # type: ignore[arg-type]
    assert answer(toy.apis(), frame(0)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "A bug" in caplog.text


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.INVALID_REQUEST), ZeroDivisionError()])
def test_an_error_without_an_error_response_closes_the_connection(error: Exception) -> None:
    toy = Toy()

    def fail(request: object, context: object) -> None:
        raise error

    toy.api.handler = fail
    toy.api.error_response = None
    with pytest.raises(CloseConnection):
        toy.apis().dispatch(ClientSession(), frame(0))


@pytest.mark.parametrize("error", [DecodeError("deep inside"), CloseConnection("acks=0")])
def test_a_handler_may_close_the_connection(error: Exception) -> None:
    toy = Toy()

    def fail(request: object, context: object) -> None:
        raise error

    toy.api.handler = fail
    with pytest.raises(type(error)):
        toy.apis().dispatch(ClientSession(), frame(0))


def test_a_deferred_reply_is_encoded_when_it_completes() -> None:
    toy = Toy()
    owed = toy.apis().dispatch(ClientSession(), frame(1, "applied a"))
    assert isinstance(owed, Owed)
    assert owed.reply is None
    owed.encode(said("later"))
    assert owed.reply is not None
    _, response = decode_response(memoryview(joined(owed.reply))[4:], FindCoordinatorRequest, 1)
    assert owed.size == len(joined(owed.reply))
    assert response == FindCoordinatorResponse(host="later")


def test_a_response_of_none_sends_nothing_now_or_later() -> None:
    toy = Toy()
    assert toy.apis().dispatch(ClientSession(), frame(0, "silent")) is None
    done: Deferred[FindCoordinatorResponse | None] = Deferred(applied=False)
    done.complete(None)
    toy.api.handler = lambda request, context: done
    assert toy.apis().dispatch(ClientSession(), frame(0)) is None
    owed = Owed(Deferred(applied=False), 1, 0)
    owed.encode(None)
    assert owed.reply == []


def test_equal_requests_of_a_connection_share_their_context() -> None:
    toy = Toy()
    apis, session = toy.apis(), ClientSession(connection_id="c")
    for version, times in ((0, 2), (1, 1), (0, 1)):
        for _ in range(times):
            apis.dispatch(session, frame(version))
    first, second, third, fourth = toy.contexts
    assert first is second
    assert (first.api_version, third.api_version, fourth.api_version) == (0, 1, 0)
    assert (third.client_id, third.connection_id) == ("me", "c")
