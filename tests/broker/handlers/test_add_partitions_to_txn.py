from collections.abc import Collection, Sequence

import pytest

from ottla.broker.handlers import add_partitions_to_txn
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import Access, Operation, ResourceType
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.types import TopicPartition
from tests.broker.support.hosted import TOPIC, House
from tests.broker.support.transactions import NAME, Transactions, answered

P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
Codes = dict[tuple[str, int], int]
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED


class Denying:
    """Denies WRITE on some topics."""

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = topics

    def authorize(self, context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return (operation, resource_type) != (Operation.WRITE, ResourceType.TOPIC) or name not in self.topics

    def authorize_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        return True


@pytest.fixture
def transactions() -> Transactions:
    transactions = Transactions()
    transactions.lead()
    return transactions


def topics(*partitions: tuple[str, Sequence[int]]) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in partitions]


def send(
    house: House,
    transactions: Transactions,
    request: AddPartitionsToTxnRequest,
    version: int,
    denied: Collection[str] = (),
) -> AddPartitionsToTxnResponse | Deferred[AddPartitionsToTxnResponse]:
    request = AddPartitionsToTxnRequest.decode(request.encode(version), version)
    return add_partitions_to_txn.handle(
        request,
        RequestContext(ApiKey.ADD_PARTITIONS_TO_TXN, version),
        transactions=transactions.coordinator,
        metadata=house.metadata,
        access=Access(Denying(denied)) if denied else Access(),
    )


def of_client(
    producer: tuple[int, int], *partitions: tuple[str, Sequence[int]], name: str = NAME
) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics(*partitions),
    )


def of_broker(
    producer: tuple[int, int], *partitions: tuple[str, Sequence[int]], name: str = NAME, verify: bool = True
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify,
        topics=topics(*partitions),
    )


def results(found: Sequence[AddPartitionsToTxnTopicResult]) -> Codes:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in found
        for each in topic.results_by_partition
    }


def ask(
    house: House,
    transactions: Transactions,
    request: AddPartitionsToTxnRequest,
    version: int = 3,
    denied: Collection[str] = (),
) -> Codes:
    response = answered(send(house, transactions, request, version, denied))
    response = AddPartitionsToTxnResponse.decode(response.encode(version), version)
    return results(response.results_by_topic_v3_and_below)


def ask_as_broker(
    house: House, transactions: Transactions, *asked: AddPartitionsToTxnTransaction, version: int = 5
) -> dict[str, Codes]:
    request = AddPartitionsToTxnRequest(transactions=asked)
    response = answered(send(house, transactions, request, version))
    response = AddPartitionsToTxnResponse.decode(response.encode(version), version)
    assert response.error_code == ErrorCode.NONE
    return {each.transactional_id: results(each.topic_results) for each in response.results_by_transaction}


# Clients


@pytest.mark.parametrize("version", range(4))
def test_the_partitions_of_a_client_are_in_its_transaction(
    house: House, transactions: Transactions, version: int
) -> None:
    producer = transactions.init()
    assert ask(house, transactions, of_client(producer, (TOPIC, [0, 1])), version) == {P0: 0, P1: 0}
    assert transactions.described() == ("Ongoing", [(TOPIC, [0, 1])])


def test_the_reply_waits_for_the_log_and_mutes_the_connection(house: House, transactions: Transactions) -> None:
    producer = transactions.init()
    transactions.log.is_holding = True
    reply = send(house, transactions, of_client(producer, (TOPIC, [0])), 3)
    assert isinstance(reply, Deferred)
    assert (reply.applied, reply.done) == (False, False)
    transactions.log.commit()
    assert results(reply.response.results_by_topic_v3_and_below) == {P0: 0}


def test_an_unknown_partition_keeps_all_others_out(house: House, transactions: Transactions) -> None:
    producer = transactions.init()
    asked = of_client(producer, (TOPIC, [0, 7]), ("nowhere", [0]))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(house, transactions, asked) == {P0: NOT_ATTEMPTED, (TOPIC, 7): unknown, ("nowhere", 0): unknown}
    assert transactions.described() == ("Empty", [])


def test_a_forbidden_topic_keeps_all_others_out(house: House, transactions: Transactions) -> None:
    house.lead("secret")
    producer = transactions.init()
    asked = of_client(producer, (TOPIC, [0]), ("secret", [0]), ("hidden", [0]))
    assert ask(house, transactions, asked, denied=("secret", "hidden")) == {
        P0: NOT_ATTEMPTED,
        ("secret", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        # Whether a forbidden topic exists, nobody is told.
        ("hidden", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert transactions.described() == ("Empty", [])


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_clients_add_no_partition_of_kafkas_own_topics(house: House, transactions: Transactions, topic: str) -> None:
    house.lead(topic)
    producer = transactions.init()
    asked = of_client(producer, (topic, [0]), (TOPIC, [0]))
    assert ask(house, transactions, asked) == {(topic, 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED, P0: NOT_ATTEMPTED}


@pytest.mark.parametrize(("version", "code"), [(0, 47), (1, 47), (2, 90), (3, 90)])
def test_a_fenced_producer_gets_the_code_that_its_version_knows(
    house: House, transactions: Transactions, version: int, code: int
) -> None:
    producer = transactions.init()
    transactions.init()
    assert ask(house, transactions, of_client(producer, (TOPIC, [0])), version) == {P0: code}


def test_an_error_of_the_coordinator_is_that_of_each_partition(house: House, transactions: Transactions) -> None:
    asked = of_client((5, 0), (TOPIC, [0, 1]))
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert ask(house, transactions, asked) == {P0: mapping, P1: mapping}
    elsewhere = ErrorCode.NOT_COORDINATOR
    assert ask(house, Transactions(), asked) == {P0: elsewhere, P1: elsewhere}


# Brokers


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_learns_which_partitions_are_in_which_transactions(
    house: House, transactions: Transactions, version: int
) -> None:
    one, other = transactions.init("one"), transactions.init("other")
    transactions.add(one, P0, name="one")
    transactions.add(other, P1, name="other")
    asked = [of_broker(one, (TOPIC, [0, 1]), name="one"), of_broker(other, (TOPIC, [1]), name="other")]
    assert ask_as_broker(house, transactions, *asked, version=version) == {
        "one": {P0: 0, P1: ErrorCode.TRANSACTION_ABORTABLE},
        "other": {P1: 0},
    }
    assert transactions.described("one") == ("Ongoing", [(TOPIC, [0])])


def test_a_broker_may_add_partitions_and_the_reply_waits_for_all(house: House, transactions: Transactions) -> None:
    # Its clients are those of transaction version 2, which is not offered yet.
    one, other = transactions.init("one"), transactions.init("other")
    transactions.add(other, P1, name="other")
    asked = [
        of_broker(one, (TOPIC, [0]), name="one", verify=False),
        of_broker(other, (TOPIC, [1]), name="other"),
    ]
    assert ask_as_broker(house, transactions, *asked) == {
        "one": {P0: ErrorCode.UNSUPPORTED_VERSION},
        "other": {P1: 0},
    }
    transactions.add(one, P0, name="one")
    assert ask_as_broker(house, transactions, *asked) == {"one": {P0: 0}, "other": {P1: 0}}


def test_of_an_unknown_partition_the_coordinator_is_not_asked(house: House, transactions: Transactions) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    assert ask_as_broker(house, transactions, of_broker(producer, (TOPIC, [0, 7]))) == {
        NAME: {P0: NOT_ATTEMPTED, (TOPIC, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    }


def test_a_partition_that_is_asked_for_twice_has_one_result(house: House, transactions: Transactions) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    twice = of_broker(producer, (TOPIC, [0, 0]), (TOPIC, [0]))
    response = answered(send(house, transactions, AddPartitionsToTxnRequest(transactions=[twice]), 5))
    (result,) = response.results_by_transaction
    (topic,) = result.topic_results
    assert [each.partition_index for each in topic.results_by_partition] == [0]


def test_the_last_of_two_transactions_of_one_id_counts_and_is_answered_twice(
    house: House, transactions: Transactions
) -> None:
    producer = transactions.init()
    transactions.add(producer, P0)
    asked = [of_broker(producer, (TOPIC, [0])), of_broker(producer, (TOPIC, [1]))]
    response = answered(send(house, transactions, AddPartitionsToTxnRequest(transactions=asked), 5))
    found = [results(each.topic_results) for each in response.results_by_transaction]
    assert found == [{P1: ErrorCode.TRANSACTION_ABORTABLE}] * 2


def test_brokers_ask_about_kafkas_own_topics_without_any_permission(house: House, transactions: Transactions) -> None:
    house.lead("__consumer_offsets")
    producer = transactions.init()
    transactions.add(producer, TopicPartition("__consumer_offsets", 0))
    request = AddPartitionsToTxnRequest(transactions=[of_broker(producer, ("__consumer_offsets", [0]))])
    response = answered(send(house, transactions, request, 5, denied=("__consumer_offsets",)))
    (result,) = response.results_by_transaction
    assert results(result.topic_results) == {("__consumer_offsets", 0): 0}


def test_a_request_without_transactions_gets_a_response_without_results(
    house: House, transactions: Transactions
) -> None:
    assert ask_as_broker(house, transactions) == {}


def test_a_refusal_of_the_whole_request_has_its_place_in_each_version() -> None:
    asked = of_client((5, 0), (TOPIC, [0, 1]))
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    refused = add_partitions_to_txn.error_response(asked, 3, denied)
    assert results(refused.results_by_topic_v3_and_below) == {P0: denied, P1: denied}
    of_brokers = AddPartitionsToTxnRequest(transactions=[of_broker((5, 0), (TOPIC, [0]))])
    refused = add_partitions_to_txn.error_response(of_brokers, 4, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert (refused.error_code, refused.results_by_transaction) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ())
