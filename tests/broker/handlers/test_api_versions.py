"""The APIs and versions that a client learns."""

import pytest

from ottla.broker.handlers.api_versions import error_response, handle
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.types import VersionRange

OFFERED = {
    ApiKey.API_VERSIONS: VersionRange(0, 4),
    ApiKey.PRODUCE: VersionRange(0, 11),
    ApiKey.FETCH: VersionRange(4, 17),
}


def ask(version: int, name: str = "apache-kafka-java", software_version: str = "3.9.2") -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    return handle(request, RequestContext(ApiKey.API_VERSIONS, version), offered=OFFERED)


@pytest.mark.parametrize("version", range(5))
def test_every_version_gets_all_offered_apis_in_the_order_of_their_keys(version: int) -> None:
    response = ApiVersionsResponse.decode(ask(version).encode(version), version)
    assert response.error_code == ErrorCode.NONE
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [
        (0, 0, 11),
        (1, 4, 17),
        (18, 0, 4),
    ]


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_those_of_a_zookeeper_mode_kafka(version: int) -> None:
    response = ApiVersionsResponse.decode(ask(version).encode(version), version)
    assert not response.supported_features
    assert not response.finalized_features
    assert response.finalized_features_epoch == 0
    assert not response.zk_migration_ready


@pytest.mark.parametrize("name", ["a", "librdkafka", "confluent-kafka-python", "a.b-c.d", "0", "Z9"])
def test_a_valid_name_of_software_is_accepted(name: str) -> None:
    assert ask(3, name=name).error_code == ErrorCode.NONE
    assert ask(4, software_version=name).error_code == ErrorCode.NONE


@pytest.mark.parametrize("name", ["", "-a", "a-", ".a", "a.", "a b", "a_b", "ä", "a\n", "a;DROP", "٣"])
@pytest.mark.parametrize("version", [3, 4])
def test_an_invalid_name_of_software_is_refused(name: str, version: int) -> None:
    for response in (ask(version, name=name), ask(version, software_version=name)):
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert not response.api_keys


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_have_no_names_to_refuse(version: int) -> None:
    assert ask(version, name="", software_version="").error_code == ErrorCode.NONE


def test_an_unknown_version_learns_the_versions_of_api_versions_in_version_0() -> None:
    body = error_response(None, 9, ErrorCode.UNSUPPORTED_VERSION, offered=OFFERED).encode(0)
    assert body == b"\x00\x23" + b"\x00\x00\x00\x01" + b"\x00\x12\x00\x00\x00\x04"


def test_a_failed_request_is_answered_with_its_error() -> None:
    request = ApiVersionsRequest()
    response = error_response(request, 3, ErrorCode.UNKNOWN_SERVER_ERROR, offered=OFFERED)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not response.api_keys
