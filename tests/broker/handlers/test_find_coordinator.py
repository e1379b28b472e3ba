import logging
from collections.abc import Iterable

import pytest

from ottla.broker.handlers import find_coordinator
from ottla.broker.net.client_warnings import ClientWarnings
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.support.hosted import House

TOPIC = "__consumer_offsets"
PARTITIONS = {"a": 0, "b": 1}


def ask(
    house: House, version: int, key_type: int = 0, keys: tuple[str, ...] = ("a", "b"), listener: str = "PLAINTEXT"
) -> tuple[FindCoordinatorResponse, list[str]]:
    """The response, and the topics that the handler created."""
    request = FindCoordinatorRequest(key=keys[0], key_type=key_type, coordinator_keys=keys)
    request = FindCoordinatorRequest.decode(request.encode(version), version)
    context = RequestContext(ApiKey.FIND_COORDINATOR, version, listener_name=listener)
    created: list[str] = []

    def create(names: Iterable[str]) -> None:
        created.extend(names)

    def partition_for(group: str) -> int | None:
        return PARTITIONS[group] if house.metadata.contains(TOPIC) else None

    try:
        response = find_coordinator.handle(
            request,
            context,
            metadata=house.metadata,
            partition_for=partition_for,
            create=create,
            transactional=ClientWarnings(logging.getLogger("test")),
        )
    except KafkaError as error:
        response = find_coordinator.error_response(request, version, error.code)
    return FindCoordinatorResponse.decode(response.encode(version), version), created


def found(response: FindCoordinatorResponse) -> list[tuple[str, int, int, str, int]]:
    return [(each.key, each.error_code, each.node_id, each.host, each.port) for each in response.coordinators]


NOWHERE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)


@pytest.mark.parametrize("version", range(4))
def test_the_first_request_creates_the_topic(house: House, version: int) -> None:
    response, created = ask(house, version)
    assert (response.error_code, response.node_id, response.host, response.port) == NOWHERE
    assert response.error_message == ("The coordinator is not available." if version >= 1 else "")
    assert created == [TOPIC]


@pytest.mark.parametrize("version", range(4))
def test_the_leader_of_the_groups_partition_coordinates(house: House, version: int) -> None:
    house.tell(TOPIC, [0], leader=0)
    response, created = ask(house, version)
    assert (response.error_code, response.node_id, response.host, response.port) == (0, 0, "h", 9000)
    assert response.error_message == ("NONE" if version >= 1 else "")
    assert created == []


@pytest.mark.parametrize("version", [4, 5, 6])
def test_each_of_many_groups_is_answered_by_its_own_partition(house: House, version: int) -> None:
    assert found(ask(house, version)[0]) == [("a", *NOWHERE), ("b", *NOWHERE)]
    house.tell(TOPIC, [0], leader=0)
    assert found(ask(house, version)[0]) == [("a", 0, 0, "h", 9000), ("b", *NOWHERE)]
    house.tell(TOPIC, [1], leader=1)
    assert found(ask(house, version)[0]) == [("a", 0, 0, "h", 9000), ("b", 0, 1, "h", 9001)]
    assert {each.error_message for each in ask(house, version)[0].coordinators} == {""}


def test_a_partition_without_a_leader_and_a_leader_without_the_listener_coordinate_nothing(house: House) -> None:
    house.tell(TOPIC, [0], leader=-1)
    house.tell(TOPIC, [1], leader=1)
    assert found(ask(house, 4)[0]) == [("a", *NOWHERE), ("b", 0, 1, "h", 9001)]
    assert found(ask(house, 4, listener="INSIDE")[0]) == [("a", *NOWHERE), ("b", *NOWHERE)]


@pytest.mark.parametrize("version", range(1, 7))
def test_a_request_for_a_transaction_coordinator_is_refused_with_the_reason(
    house: House, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    house.tell(TOPIC, [0, 1], leader=0)
    response, created = ask(house, version, key_type=1)
    assert created == []
    answers = [response] if version < 4 else response.coordinators
    assert [each.error_code for each in answers] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * len(answers)
    assert all("no transactions" in str(each.error_message) for each in answers)
    (line,) = caplog.messages
    assert line.startswith("Client '' at  is refused, because it asks for the coordinator of transactional id 'a'.")


@pytest.mark.parametrize("key_type", [-1, 3, 127])
def test_an_unknown_type_of_key_is_refused(house: House, key_type: int) -> None:
    assert ask(house, 1, key_type)[0].error_code == ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in ask(house, 6, key_type)[0].coordinators] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.INVALID_REQUEST), (6, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
)
def test_share_groups_are_known_from_version_6_on(house: House, version: int, code: ErrorCode) -> None:
    assert [each.error_code for each in ask(house, version, 2)[0].coordinators] == [code] * 2
