import pytest

from ottla.broker.handlers import find_coordinator
from ottla.broker.request_context import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse


def ask(version: int, key_type: int = 0, keys: tuple[str, ...] = ("a", "b")) -> FindCoordinatorResponse:
    request = FindCoordinatorRequest(key=keys[0], key_type=key_type, coordinator_keys=keys)
    request = FindCoordinatorRequest.decode(request.encode(version), version)
    context = RequestContext(ApiKey.FIND_COORDINATOR, version)
    try:
        response = find_coordinator.handle(request, context)
    except KafkaError as error:
        response = find_coordinator.error_response(request, version, error.code)
    return FindCoordinatorResponse.decode(response.encode(version), version)


@pytest.mark.parametrize("version", range(4))
def test_the_one_key_of_old_versions_has_no_coordinator(version: int) -> None:
    response = ask(version)
    assert (response.error_code, response.node_id, response.host, response.port) == (15, -1, "", -1)
    assert response.error_message == ("The coordinator is not available." if version >= 1 else "")


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("key_type", [0, 1])
def test_no_key_has_a_coordinator(version: int, key_type: int) -> None:
    response = ask(version, key_type)
    assert [(each.key, each.error_code, each.node_id, each.port) for each in response.coordinators] == [
        ("a", ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1),
        ("b", ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1),
    ]
    assert {each.error_message for each in response.coordinators} == {""}


@pytest.mark.parametrize("key_type", [-1, 3, 127])
def test_a_kind_of_key_that_there_is_not_is_refused(key_type: int) -> None:
    assert ask(1, key_type).error_code == ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in ask(6, key_type).coordinators] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.INVALID_REQUEST), (6, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
)
def test_share_groups_are_known_from_version_6_on(version: int, code: ErrorCode) -> None:
    assert [each.error_code for each in ask(version, 2).coordinators] == [code] * 2
