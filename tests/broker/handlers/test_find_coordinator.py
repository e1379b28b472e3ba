from collections.abc import Callable, Iterable

import pytest

from ottla.broker.handlers import find_coordinator
from ottla.broker.handlers.find_coordinator import GROUP, TRANSACTION
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.support.hosted import House

TOPICS = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}
PARTITIONS = {"a": 0, "b": 1}
KINDS = pytest.mark.parametrize("kind", [GROUP, TRANSACTION])


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

    def partition_for(kind: int) -> Callable[[str], int | None]:
        return lambda key: PARTITIONS[key] if house.metadata.contains(TOPICS[kind]) else None

    try:
        response = find_coordinator.handle(
            request,
            context,
            metadata=house.metadata,
            partition_for={kind: partition_for(kind) for kind in TOPICS},
            create=create,
        )
    except KafkaError as error:
        response = find_coordinator.error_response(request, version, error.code)
    return FindCoordinatorResponse.decode(response.encode(version), version), created


def found(response: FindCoordinatorResponse) -> list[tuple[str, int, int, str, int]]:
    return [(each.key, each.error_code, each.node_id, each.host, each.port) for each in response.coordinators]


NOWHERE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)


# Version 0 knows groups only.
ALONE = pytest.mark.parametrize(
    ("version", "kind"), [(0, GROUP), *((version, kind) for version in range(1, 4) for kind in TOPICS)]
)


@ALONE
def test_the_first_request_creates_the_topic(house: House, version: int, kind: int) -> None:
    response, created = ask(house, version, kind)
    assert (response.error_code, response.node_id, response.host, response.port) == NOWHERE
    assert response.error_message == ("The coordinator is not available." if version >= 1 else "")
    assert created == [TOPICS[kind]]


@ALONE
def test_the_leader_of_the_partition_of_the_key_coordinates(house: House, version: int, kind: int) -> None:
    house.tell(TOPICS[kind], [0], leader=0)
    response, created = ask(house, version, kind)
    assert (response.error_code, response.node_id, response.host, response.port) == (0, 0, "h", 9000)
    assert response.error_message == ("NONE" if version >= 1 else "")
    assert created == []


@KINDS
@pytest.mark.parametrize("version", [4, 5, 6])
def test_each_of_many_keys_is_answered_by_its_own_partition(house: House, version: int, kind: int) -> None:
    assert found(ask(house, version, kind)[0]) == [("a", *NOWHERE), ("b", *NOWHERE)]
    house.tell(TOPICS[kind], [0], leader=0)
    assert found(ask(house, version, kind)[0]) == [("a", 0, 0, "h", 9000), ("b", *NOWHERE)]
    house.tell(TOPICS[kind], [1], leader=1)
    assert found(ask(house, version, kind)[0]) == [("a", 0, 0, "h", 9000), ("b", 0, 1, "h", 9001)]
    assert {each.error_message for each in ask(house, version, kind)[0].coordinators} == {""}


@KINDS
def test_a_partition_without_a_leader_and_a_leader_without_the_listener_coordinate_nothing(
    house: House, kind: int
) -> None:
    house.tell(TOPICS[kind], [0], leader=-1)
    house.tell(TOPICS[kind], [1], leader=1)
    assert found(ask(house, 4, kind)[0]) == [("a", *NOWHERE), ("b", 0, 1, "h", 9001)]
    assert found(ask(house, 4, kind, listener="INSIDE")[0]) == [("a", *NOWHERE), ("b", *NOWHERE)]


def test_groups_and_transactional_ids_have_topics_of_their_own(house: House) -> None:
    house.tell(TOPICS[GROUP], [0, 1], leader=0)
    response, created = ask(house, 4, TRANSACTION)
    assert found(response) == [("a", *NOWHERE), ("b", *NOWHERE)]
    assert set(created) == {TOPICS[TRANSACTION]}


@pytest.mark.parametrize("key_type", [-1, 3, 127])
def test_an_unknown_type_of_key_is_refused(house: House, key_type: int) -> None:
    assert ask(house, 1, key_type)[0].error_code == ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in ask(house, 6, key_type)[0].coordinators] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.INVALID_REQUEST), (6, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
)
def test_share_groups_are_known_from_version_6_on(house: House, version: int, code: ErrorCode) -> None:
    assert [each.error_code for each in ask(house, version, 2)[0].coordinators] == [code] * 2
