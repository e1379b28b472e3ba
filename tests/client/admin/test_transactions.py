"""Transactions: the receivers of requests, retries, and the condition of a hanging transaction."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from ottla.client.admin.transactions import (
    OpenTransaction,
    ProducerState,
    abort_transaction,
    describe_producers,
    describe_transactions,
    hanging_transactions,
    list_transactions,
    older_than,
    terminate_transaction,
)
from ottla.client.cluster import Client, open_client
from ottla.client.config import ClientConfig
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from ottla.wire.messages.describe_producers import ProducerState as Described
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from ottla.wire.messages.describe_transactions import TransactionState as State
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.schema import Request, Response
from ottla.wire.types import TopicPartition
from tests.client.scripted import Answer, ScriptedBroker, listening, metadata

PATIENCE_S = 120
HASTY = {"retry.backoff.ms": "0", "retry.backoff.max.ms": "0"}
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
OPEN = ProducerState(7, 0, 1, 1000, None, 5)


class Cluster:
    """Two brokers; the second one leads partition 1 and coordinates all transactions."""

    def __init__(self) -> None:
        self.listed: dict[int, list[ListTransactionsResponse]] = {1: [listing()], 2: [listing()]}
        self.states = {"tx": described("tx")}
        self.producers: dict[int, PartitionResponse] = {0: remembered(0), 1: remembered(1)}
        self.fencing = [0]
        self.marker = 0
        self.brokers = [ScriptedBroker(self._answering(number), number) for number in (1, 2)]
        for each in self.brokers:
            each.versions |= {ApiKey.INIT_PRODUCER_ID: (0, 5), ApiKey.LIST_TRANSACTIONS: (0, 2)}
            each.versions |= dict.fromkeys((ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS), (0, 0))
            each.versions[ApiKey.WRITE_TXN_MARKERS] = (0, 1)

    def _answering(self, node_id: int) -> Answer:
        async def answer(header: RequestHeader, request: Request) -> Response:
            return self._answer(node_id, request)

        return answer

    def _answer(self, node_id: int, request: Request) -> Response:
        match request:
            case MetadataRequest():
                return metadata(self.brokers, [1, 2] if request.topics is None or request.topics else [])
            case FindCoordinatorRequest():
                two = self.brokers[1]
                found = [
                    Coordinator(key=key, node_id=2, host=two.host, port=two.port, error_code=0, error_message=None)
                    for key in request.coordinator_keys
                ]
                return FindCoordinatorResponse(node_id=2, host=two.host, port=two.port, coordinators=found)
            case ListTransactionsRequest():
                queue = self.listed[node_id]
                return queue.pop(0) if len(queue) > 1 else queue[0]
            case DescribeTransactionsRequest():
                (name,) = request.transactional_ids
                missing = described(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
                return DescribeTransactionsResponse(transaction_states=[self.states.get(name, missing)])
            case DescribeProducersRequest():
                (topic,) = request.topics
                partitions = [self.producers[number] for number in topic.partition_indexes]
                return DescribeProducersResponse(topics=[TopicResponse(name="orders", partitions=partitions)])
            case InitProducerIdRequest():
                code = self.fencing.pop(0) if len(self.fencing) > 1 else self.fencing[0]
                return InitProducerIdResponse(error_code=code, producer_id=1, producer_epoch=1)
            case WriteTxnMarkersRequest():
                partition = WritableTxnMarkerPartitionResult(partition_index=1, error_code=self.marker)
                topic_result = WritableTxnMarkerTopicResult(name="orders", partitions=[partition])
                return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic_result])])
        raise AssertionError(request)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        with trio.fail_after(PATIENCE_S):
            async with listening(*self.brokers):
                where = {"bootstrap.servers": self.brokers[0].bootstrap}
                async with open_client(ClientConfig({**HASTY, **where})) as client:
                    yield client


def listing(*states: tuple[str, int, str], code: int = 0) -> ListTransactionsResponse:
    found = [
        TransactionState(transactional_id=name, producer_id=number, transaction_state=state)
        for name, number, state in states
    ]
    return ListTransactionsResponse(error_code=code, unknown_state_filters=[], transaction_states=found)


def described(name: str, code: int = 0, partitions: tuple[int, ...] = ()) -> State:
    return State(
        error_code=code, transactional_id=name, transaction_state="Ongoing", transaction_timeout_ms=1000,
        transaction_start_time_ms=-1, producer_id=7, producer_epoch=0,
        topics=[TopicData(topic="orders", partitions=partitions)],
    )  # fmt: skip


def remembered(number: int, code: int = 0) -> PartitionResponse:
    producer = Described(producer_id=7 + number, producer_epoch=0, last_timestamp=1000, coordinator_epoch=-1)
    return PartitionResponse(partition_index=number, error_code=code, active_producers=[producer])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def test_all_brokers_list_transactions_and_a_loading_one_is_retried(cluster: Cluster) -> None:
    cluster.listed[2] = [listing(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), listing(("tx", 7, "Ongoing"))]
    async with cluster.client() as client:
        found = await list_transactions(client)
    assert {broker: [each.transactional_id for each in listings] for broker, listings in found.items()} == {
        1: [], 2: ["tx"],
    }  # fmt: skip
    assert cluster.brokers[1].asked(ListTransactionsRequest) == 2


async def test_the_error_of_a_refused_listing_names_the_broker(cluster: Cluster) -> None:
    cluster.listed[1] = [listing(code=ErrorCode.INVALID_REGULAR_EXPRESSION)]
    async with cluster.client() as client:
        with pytest.raises(KafkaError, match="broker 1"):
            await list_transactions(client, pattern="[")


async def test_a_transaction_is_described_by_its_coordinator(cluster: Cluster) -> None:
    async with cluster.client() as client:
        found = await describe_transactions(client, ["tx", "missing"])
    tx, missing = found["tx"], found["missing"]
    assert not isinstance(tx, KafkaError)
    assert (tx.coordinator, tx.state, tx.start_time_ms) == (2, "Ongoing", None)
    assert isinstance(missing, KafkaError)
    assert cluster.brokers[0].asked(DescribeTransactionsRequest) == 0


async def test_producers_are_described_by_each_leader(cluster: Cluster) -> None:
    cluster.producers[1] = remembered(1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with cluster.client() as client:
        found = await describe_producers(client, [ONE, TWO])
    first = found[ONE]
    assert not isinstance(first, KafkaError)
    assert (first[0].producer_id, first[0].coordinator_epoch, first[0].start_offset) == (7, None, None)
    assert isinstance(found[TWO], KafkaError)
    assert [each.asked(DescribeProducersRequest) for each in cluster.brokers] == [1, 1]


async def test_producers_are_described_by_the_given_broker(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await describe_producers(client, [ONE, TWO], broker_id=2)
    assert [each.asked(DescribeProducersRequest) for each in cluster.brokers] == [0, 1]


def test_only_open_transactions_can_be_older() -> None:
    producers = {ONE: [OPEN, OPEN._replace(start_offset=None)], TWO: [OPEN._replace(last_timestamp=2000)]}
    assert older_than(producers, 999, 2000) == [OpenTransaction(ONE, OPEN)]
    assert older_than(producers, 1000, 2000) == []


@pytest.mark.parametrize(
    ("listed", "partitions", "hangs"),
    [
        ([], (), True),
        ([("tx", 7, "Ongoing")], (1,), True),
        ([("tx", 7, "Ongoing")], (0,), False),
        ([("gone", 7, "Ongoing")], (0,), True),
    ],
    ids=["no coordinator has the producer", "it has others of its partitions", "it has it", "it is gone meanwhile"],
)
async def test_a_transaction_hangs_if_no_coordinator_knows_it(
    cluster: Cluster, listed: list[tuple[str, int, str]], partitions: tuple[int, ...], hangs: bool
) -> None:
    cluster.listed[2] = [listing(*listed)]
    cluster.states["tx"] = described("tx", partitions=partitions)
    candidate = OpenTransaction(ONE, OPEN)
    async with cluster.client() as client:
        assert await hanging_transactions(client, [candidate]) == ([candidate] if hangs else [])


async def test_without_open_transactions_no_request_is_sent(cluster: Cluster) -> None:
    async with cluster.client() as client:
        assert await hanging_transactions(client, []) == []
    assert not any(each.requests for each in cluster.brokers)


async def test_an_unreachable_coordinator_does_not_make_a_transaction_hang(cluster: Cluster) -> None:
    cluster.listed[2] = [listing(("tx", 7, "Ongoing"))]
    cluster.states["tx"] = described("tx", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    async with cluster.client() as client:
        with pytest.raises(KafkaError) as caught:
            await hanging_transactions(client, [OpenTransaction(ONE, OPEN)])
    assert caught.value.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_the_abort_marker_goes_to_the_leader(cluster: Cluster) -> None:
    async with cluster.client() as client:
        assert await abort_transaction(client, TWO, 7, 3, 5) is None
        cluster.marker = ErrorCode.INVALID_PRODUCER_EPOCH
        error = await abort_transaction(client, TWO, 7, 3, 5)
    assert error is not None
    assert error.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert [each.asked(WriteTxnMarkersRequest) for each in cluster.brokers] == [0, 2]
    request = cluster.brokers[1].requests[-1]
    assert isinstance(request, WriteTxnMarkersRequest)
    (marker,) = request.markers
    assert (marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result) == (3, 5, False)


async def test_a_producer_is_fenced_after_its_transaction_is_aborted(cluster: Cluster) -> None:
    cluster.fencing = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS, 0]
    async with cluster.client() as client:
        assert await terminate_transaction(client, "tx") is None
    assert cluster.brokers[1].asked(InitProducerIdRequest) == 3


async def test_a_producer_that_may_not_be_fenced_is_an_error(cluster: Cluster) -> None:
    cluster.fencing = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    async with cluster.client() as client:
        error = await terminate_transaction(client, "tx")
    assert error is not None
    assert error.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
