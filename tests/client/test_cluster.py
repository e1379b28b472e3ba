"""Requests reach the right broker: controllers, coordinators and leaders that move, brokers that end."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from ottla.client.cluster import ANY, CONTROLLER, GROUP, Client, Coordinator, open_client
from ottla.client.config import ClientConfig
from ottla.client.errors import ConnectionFailedError
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.create_partitions import CreatePartitionsTopicResult as Created
from ottla.wire.messages.find_coordinator import Coordinator as Found
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Request, Response
from ottla.wire.types import TopicPartition
from tests.client.scripted import HANG_UP, Answer, ScriptedBroker, listening, metadata

PATIENCE_S = 120
HASTY = {"retry.backoff.ms": "0", "retry.backoff.max.ms": "0"}
CREATE = CreatePartitionsRequest(topics=[], timeout_ms=1000, validate_only=False)
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Pair:
    """Two brokers of a cluster; `answers` has the answers of each broker by request type."""

    def __init__(self) -> None:
        self.controller = 1
        self.leaders = [1, 2]
        self.coordinator = 1
        self.answers: dict[int, dict[type[Request], list[Response | None]]] = {1: {}, 2: {}}
        self.brokers = [ScriptedBroker(self._answering(number), number) for number in (1, 2)]

    def _answering(self, node_id: int) -> Answer:
        async def answer(header: RequestHeader, request: Request) -> Response | None:
            if isinstance(request, MetadataRequest):
                wanted = self.leaders if request.topics is None or request.topics else []
                return metadata(self.brokers, wanted, controller=self.controller)
            if isinstance(request, FindCoordinatorRequest):
                return self._found(request)
            queue = self.answers[node_id][type(request)]
            return queue.pop(0) if len(queue) > 1 else queue[0]

        return answer

    def _found(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        broker = self.brokers[self.coordinator - 1]
        node_id, host, port = broker.node_id, broker.host, broker.port
        return FindCoordinatorResponse(
            node_id=node_id,
            host=host,
            port=port,
            coordinators=[
                Found(key=key, node_id=node_id, host=host, port=port, error_code=0, error_message=None)
                for key in request.coordinator_keys
            ],
        )

    @asynccontextmanager
    async def client(self, **properties: str) -> AsyncIterator[Client]:
        with trio.fail_after(PATIENCE_S):
            async with listening(*self.brokers):
                where = {"bootstrap.servers": self.brokers[0].bootstrap}
                more = {key.replace("_", "."): value for key, value in properties.items()}
                async with open_client(ClientConfig({**HASTY, **where, **more})) as client:
                    yield client


@pytest.fixture
def pair() -> Pair:
    return Pair()


def created(code: ErrorCode) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[Created(name="orders", error_code=code)])


async def test_a_request_for_the_controller_reaches_it(pair: Pair) -> None:
    pair.controller = 2
    pair.answers[2][CreatePartitionsRequest] = [created(ErrorCode.NONE)]
    async with pair.client() as client:
        await client.ask(CREATE, CONTROLLER, CreatePartitionsResponse)
    assert pair.brokers[0].asked(CreatePartitionsRequest) == 0


async def test_a_controller_that_has_moved_is_found_again(pair: Pair) -> None:
    pair.answers[2][CreatePartitionsRequest] = [created(ErrorCode.NONE)]
    async with pair.client() as client:
        await client.metadata(())
        pair.controller = 2
        pair.answers[1][CreatePartitionsRequest] = [created(ErrorCode.NOT_CONTROLLER)]
        response = await client.ask(CREATE, CONTROLLER, CreatePartitionsResponse)
    assert response.results[0].error_code == ErrorCode.NONE
    assert pair.brokers[0].asked(CreatePartitionsRequest) == 1


async def test_an_error_that_is_an_answer_is_returned_at_once(pair: Pair) -> None:
    pair.answers[1][CreatePartitionsRequest] = [created(ErrorCode.INVALID_PARTITIONS)]
    async with pair.client() as client:
        response = await client.ask(CREATE, CONTROLLER, CreatePartitionsResponse)
    assert response.results[0].error_code == ErrorCode.INVALID_PARTITIONS
    assert pair.brokers[0].asked(CreatePartitionsRequest) == 1


@pytest.mark.parametrize("keys_in_one_request", [True, False])
async def test_a_coordinator_that_has_moved_is_found_again(pair: Pair, keys_in_one_request: bool) -> None:
    pair.answers[1][HeartbeatRequest] = [HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)]
    pair.answers[2][HeartbeatRequest] = [HeartbeatResponse(error_code=0)]
    for broker in pair.brokers:
        broker.versions[ApiKey.FIND_COORDINATOR] = (0, 4 if keys_in_one_request else 2)
    async with pair.client() as client:
        await client.find_coordinators(GROUP, ["g"])
        pair.coordinator = 2
        response = await client.ask(BEAT, Coordinator(GROUP, "g"), HeartbeatResponse)
    assert response.error_code == 0
    assert pair.brokers[0].asked(HeartbeatRequest) == 1


async def test_coordinators_of_many_groups_are_found_by_one_request(pair: Pair) -> None:
    async with pair.client() as client:
        assert await client.find_coordinators(GROUP, ["a", "b", "c"]) == {1: ["a", "b", "c"]}
        assert await client.find_coordinators(GROUP, ["c", "b"]) == {1: ["c", "b"]}
    assert pair.brokers[0].asked(FindCoordinatorRequest) == 1


async def test_a_request_is_retried_after_a_broker_closes_the_connection(pair: Pair) -> None:
    pair.answers[1][CreatePartitionsRequest] = [HANG_UP, created(ErrorCode.NONE)]
    async with pair.client() as client:
        await client.ask(CREATE, CONTROLLER, CreatePartitionsResponse)
    assert pair.brokers[0].asked(CreatePartitionsRequest) == 2


async def test_another_broker_answers_after_one_has_ended(pair: Pair) -> None:
    pair.answers[2][ListGroupsRequest] = [ListGroupsResponse(error_code=0, groups=[])]
    pair.answers[1][ListGroupsRequest] = [HANG_UP]
    async with pair.client() as client:
        await client.metadata(())
        client.nodes.pop(1)
        await (await client.connection()).close()
        await client.ask(ListGroupsRequest(), ANY, ListGroupsResponse)


# Leaders


async def test_each_leader_is_asked_once_for_all_of_its_partitions(pair: Pair) -> None:
    pair.leaders = [1, 2, 1]
    asked: list[tuple[int, Sequence[TopicPartition]]] = []

    async def exchange(broker_id: int, mine: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
        asked.append((broker_id, mine))
        return {each: 10 * broker_id + each.partition for each in mine}

    three = TopicPartition("orders", 2)
    async with pair.client() as client:
        found = await client.ask_leaders([ONE, TWO, three], exchange)
    assert found == {ONE: 10, TWO: 21, three: 12}
    assert sorted(asked) == [(1, [ONE, three]), (2, [TWO])]


async def test_only_partitions_whose_leader_moved_are_requested_again(pair: Pair) -> None:
    asked: list[tuple[int, Sequence[TopicPartition]]] = []

    async def exchange(broker_id: int, mine: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
        asked.append((broker_id, list(mine)))
        if broker_id == 1 and pair.leaders[0] == 1:
            pair.leaders = [2, 2]
            return {ONE: KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")}
        return dict.fromkeys(mine, broker_id)

    async with pair.client() as client:
        assert await client.ask_leaders([ONE, TWO], exchange) == {ONE: 2, TWO: 2}
    assert sorted(asked) == [(1, [ONE]), (2, [ONE]), (2, [TWO])]


async def test_a_partition_that_does_not_exist_gets_its_error_and_others_their_result(pair: Pair) -> None:
    async def exchange(broker_id: int, mine: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
        return dict.fromkeys(mine, broker_id)

    async with pair.client() as client:
        found = await client.ask_leaders([ONE, TopicPartition("orders", 9)], exchange)
    missing = found[TopicPartition("orders", 9)]
    assert found[ONE] == 1
    assert isinstance(missing, KafkaError)
    assert missing.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_partition_without_leader_gets_its_error_after_the_timeout(pair: Pair) -> None:
    pair.leaders = [-1]

    async def exchange(broker_id: int, mine: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
        raise AssertionError("nobody leads it")

    async with pair.client(default_api_timeout_ms="50") as client:
        found = await client.ask_leaders([ONE], exchange)
    error = found[ONE]
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.LEADER_NOT_AVAILABLE


# Addresses


async def test_the_error_for_an_unreachable_broker_names_its_advertised_address(pair: Pair) -> None:
    pair.controller = 2
    async with pair.client(default_api_timeout_ms="50") as client:
        pair.brokers[1].port = 1
        with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:1: Connection refused") as raised:
            await client.ask(CREATE, CONTROLLER, CreatePartitionsResponse)
    assert "advertised.listeners" in raised.value.hint
    assert pair.brokers[0].bootstrap in raised.value.hint


async def test_all_addresses_are_tried(pair: Pair) -> None:
    async with pair.client() as client:
        client._bootstrap.insert(0, ("127.0.0.1", 1))
        assert (await client.metadata(())).cluster_id == "scripted"


async def test_a_cluster_that_cannot_be_reached_is_an_error_at_once(pair: Pair) -> None:
    async with open_client(ClientConfig({"bootstrap.servers": "127.0.0.1:1,127.0.0.1:2"})) as client:
        with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:1.*; 127\.0\.0\.1:2"):
            await client.metadata(())


@pytest.mark.parametrize("is_patient", [True, False])
async def test_only_a_patient_client_waits_for_a_cluster_that_does_not_answer_yet(pair: Pair, is_patient: bool) -> None:
    broker = pair.brokers[0]
    broker.refusals = 2
    async with listening(*pair.brokers):
        config = ClientConfig({**HASTY, "bootstrap.servers": broker.bootstrap})
        async with open_client(config, is_patient=is_patient) as client:
            if is_patient:
                assert (await client.metadata(())).cluster_id == "scripted"
            else:
                with pytest.raises(ConnectionFailedError, match="before the first answer"):
                    await client.metadata(())


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":9092", "localhost:0", "localhost:99999", "a:b"])
async def test_a_bootstrap_that_is_not_an_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        async with open_client(ClientConfig({"bootstrap.servers": address})):
            pass
