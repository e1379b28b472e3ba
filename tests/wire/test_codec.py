"""Frames are written out by hand, from Kafka's description of its protocol."""

import pytest

from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import (
    UnsupportedVersion,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from ottla.wire.errors import DecodeError
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

API_VERSIONS_0 = bytes.fromhex("0012 0000 00000007 0002 6d65")
API_VERSIONS_3 = bytes.fromhex("0012 0003 00000007 0002 6d65 00 04 6c6962 02 31 00")


class FileRegion:
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length


def test_a_header_without_tagged_fields_is_read() -> None:
    header, pos = decode_request_header(memoryview(API_VERSIONS_0))
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, 0, 7, "me")
    assert pos == len(API_VERSIONS_0)


def test_a_flexible_header_ends_in_tagged_fields_but_has_a_plain_client_id() -> None:
    header, request = decode_request(memoryview(API_VERSIONS_3))
    assert (header.api_version, header.client_id) == (3, "me")
    assert request == ApiVersionsRequest(client_software_name="lib", client_software_version="1")


def test_tagged_fields_of_a_header_are_skipped() -> None:
    frame = API_VERSIONS_3[:12] + bytes.fromhex("02 00 01 aa 8101 02 bbbb") + API_VERSIONS_3[13:]
    assert decode_request(memoryview(frame))[1] == decode_request(memoryview(API_VERSIONS_3))[1]


def test_a_client_id_may_be_null_or_no_utf8() -> None:
    assert decode_request_header(memoryview(bytes.fromhex("0012 0000 00000007 ffff")))[0].client_id is None
    assert decode_request_header(memoryview(bytes.fromhex("0012 0000 00000007 0001 ff")))[0].client_id == "\ufffd"


@pytest.mark.parametrize("size", range(13))
def test_a_header_cut_off_is_refused(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(memoryview(API_VERSIONS_3[:size]))


@pytest.mark.parametrize("frame", ["7fff 0000 00000001 ffff", "ffff 0000 00000001 ffff"])
def test_an_unknown_key_is_refused(frame: str) -> None:
    with pytest.raises(DecodeError, match="unknown API key"):
        decode_request(memoryview(bytes.fromhex(frame)))


@pytest.mark.parametrize("version", ["7fff", "ffff"])
def test_an_unknown_version_is_refused_with_the_header(version: str) -> None:
    frame = bytes.fromhex(f"0012 {version} 00000009 0002 6d65 ff")
    with pytest.raises(UnsupportedVersion) as refused:
        decode_request(memoryview(frame))
    header = refused.value.header
    assert (header.api_key, header.correlation_id, header.client_id) == (18, 9, "me")
    with pytest.raises(UnsupportedVersion):
        decode_request_header(memoryview(frame))


def test_a_response_has_size_and_correlation_id() -> None:
    response = FindCoordinatorResponse(error_code=15, node_id=-1, host="h", port=-1)
    (encoded,) = encode_response(7, response, 0)
    assert bytes(encoded).hex() == "00000011" + "00000007" + "000f" + "ffffffff" + "0001" + "68" + "ffffffff"  # type: ignore[arg-type]


def test_a_flexible_response_has_tagged_fields_in_its_header() -> None:
    (encoded,) = encode_response(7, ProduceResponse(responses=[]), 9)
    assert bytes(encoded).hex() == "0000000b" + "00000007" + "00" + "01" + "00000000" + "00"  # type: ignore[arg-type]


def test_a_response_about_api_versions_never_has_a_flexible_header() -> None:
    response = ApiVersionsResponse(
        error_code=0, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)], throttle_time_ms=0
    )
    (encoded,) = encode_response(7, response, 3)
    expected = "00000007" + "0000" + "02" + "0012" + "0000" + "0004" + "00" + "00000000" + "00"
    assert bytes(encoded).hex() == f"{len(expected) // 2:08x}" + expected  # type: ignore[arg-type]
    assert decode_response(memoryview(bytes.fromhex(expected)), ApiVersionsRequest, 3) == (7, response)


@pytest.mark.parametrize("version", [4, 12])
def test_regions_are_left_alone_and_counted(version: int) -> None:
    def response(records: object) -> FetchResponse:
        parts = [
            PartitionData(partition_index=index, error_code=0, high_watermark=5, records=records)  # type: ignore[arg-type]
            for index in range(2)
        ]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=parts)])

    region = FileRegion(300)
    pieces = encode_response(7, response(region), version)
    assert [piece is region for piece in pieces][:4] == [False, True, False, True]
    assert len(pieces) == (5 if version == 12 else 4)
    in_place = b"".join(bytes(300) if piece is region else bytes(piece) for piece in pieces)  # type: ignore[arg-type]
    assert [in_place] == encode_response(7, response(bytes(300)), version)
    assert int.from_bytes(in_place[:4], "big") == len(in_place) - 4


@pytest.mark.parametrize("version", [0, 3])
@pytest.mark.parametrize("client_id", [None, "", "me", "ü" * 100])
def test_a_request_is_read_as_it_was_written(version: int, client_id: str | None) -> None:
    request = ApiVersionsRequest()
    encoded = encode_request(version, 7, client_id, request)
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    header, decoded = decode_request(memoryview(encoded)[4:])
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.API_VERSIONS, version, 7)
    assert (header.client_id, decoded) == (client_id, request)


def test_a_request_has_kafkas_wire_form() -> None:
    request = ApiVersionsRequest(client_software_name="lib", client_software_version="1")
    assert encode_request(3, 7, "me", request) == len(API_VERSIONS_3).to_bytes(4, "big") + API_VERSIONS_3
    null_topics = encode_request(1, 7, None, MetadataRequest(topics=None))
    assert null_topics.hex() == "0000000e" + "0003" + "0001" + "00000007" + "ffff" + "ffffffff"


@pytest.mark.parametrize("version", [0, 3])
def test_a_response_is_read_as_it_was_written(version: int) -> None:
    response = FindCoordinatorResponse(error_code=15, node_id=-1, host="h", port=-1)
    (encoded,) = encode_response(7, response, version)
    frame = memoryview(encoded)[4:]  # type: ignore[arg-type]
    assert decode_response(frame, FindCoordinatorRequest, version) == (7, response)


@pytest.mark.parametrize("frame", ["", "000007", "00000007", "0000000701", "00000007 01 00 05 00", "00000007 ff"])
def test_a_response_cut_off_is_refused(frame: str) -> None:
    with pytest.raises(DecodeError):
        decode_response(memoryview(bytes.fromhex(frame)), ProduceRequest, 9)
