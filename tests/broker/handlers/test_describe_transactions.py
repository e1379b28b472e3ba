"""DescribeTransactions and ListTransactions: where the transactions of a coordinator stand."""

from collections.abc import Collection
from typing import Any

import pytest

from ottla.broker.handlers import describe_transactions, list_transactions
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import Access, Operation, ResourceType
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.types import TopicPartition
from tests.broker.support.transactions import NOW_MS, Transactions

P0, P1, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("other", 0)


class Denying:
    """Denies DESCRIBE on some names."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def authorize(self, context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return operation is not Operation.DESCRIBE or name not in self.names

    def authorize_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        return True


@pytest.fixture
def transactions() -> Transactions:
    transactions = Transactions()
    transactions.lead()
    return transactions


def describe(transactions: Transactions, *names: str, denied: Collection[str] = ()) -> list[TransactionState]:
    response = describe_transactions.handle(
        DescribeTransactionsRequest(transactional_ids=names),
        RequestContext(ApiKey.DESCRIBE_TRANSACTIONS, 0),
        transactions=transactions.coordinator,
        access=Access(Denying(denied)),
    )
    return list(DescribeTransactionsResponse.decode(response.encode(0), 0).transaction_states)


def listed(
    transactions: Transactions, *, version: int = 1, denied: Collection[str] = (), **filters: Any
) -> ListTransactionsResponse:
    request = ListTransactionsRequest(**{"state_filters": (), "producer_id_filters": ()} | filters)
    response = list_transactions.handle(
        ListTransactionsRequest.decode(request.encode(version), version),
        RequestContext(ApiKey.LIST_TRANSACTIONS, version),
        transactions=transactions.coordinator,
        access=Access(Denying(denied)),
    )
    return ListTransactionsResponse.decode(response.encode(version), version)


def names(response: ListTransactionsResponse) -> list[str]:
    assert response.error_code == ErrorCode.NONE
    return [each.transactional_id for each in response.transaction_states]


def test_a_transaction_is_described_with_its_partitions_by_topic(transactions: Transactions) -> None:
    producer = transactions.init("one")
    transactions.add(producer, P1, OTHER, P0, name="one")
    (found,) = describe(transactions, "one")
    assert (found.error_code, found.transactional_id, found.transaction_state) == (0, "one", "Ongoing")
    assert (found.producer_id, found.producer_epoch) == producer
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (60_000, NOW_MS)
    assert [(each.topic, list(each.partitions)) for each in found.topics] == [("orders", [0, 1]), ("other", [0])]


def test_each_transactional_id_has_its_own_error(transactions: Transactions) -> None:
    transactions.init("one")
    found = describe(transactions, "nobody", "one", "")
    assert [(each.transactional_id, each.error_code) for each in found] == [
        ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("one", ErrorCode.NONE),
        ("", ErrorCode.INVALID_REQUEST),
    ]


def test_a_coordinator_that_is_loading_or_elsewhere_describes_nothing() -> None:
    transactions = Transactions()
    assert [each.error_code for each in describe(transactions, "one")] == [ErrorCode.NOT_COORDINATOR]
    transactions.lead(is_loaded=False)
    assert [each.error_code for each in describe(transactions, "one")] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    response = listed(transactions)
    assert (response.error_code, response.transaction_states) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())


def test_topics_that_the_client_may_not_describe_are_left_out(transactions: Transactions) -> None:
    transactions.add(transactions.init("one"), P0, OTHER, name="one")
    (found,) = describe(transactions, "one", denied=("other",))
    assert [each.topic for each in found.topics] == ["orders"]


def test_a_refusal_names_each_transactional_id() -> None:
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    asked = DescribeTransactionsRequest(transactional_ids=["one", "other"])
    response = describe_transactions.error_response(asked, 0, denied)
    decoded = DescribeTransactionsResponse.decode(response.encode(0), 0)
    assert [(each.transactional_id, each.error_code) for each in decoded.transaction_states] == [
        ("one", denied),
        ("other", denied),
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_transactional_ids_pass_filters_of_states_and_producer_ids(transactions: Transactions, version: int) -> None:
    one, other = transactions.init("one"), transactions.init("other")
    transactions.add(one, P0, name="one")
    assert names(listed(transactions, version=version)) == ["one", "other"]
    assert names(listed(transactions, version=version, state_filters=["Ongoing"])) == ["one"]
    assert names(listed(transactions, version=version, producer_id_filters=[other[0]])) == ["other"]
    assert names(listed(transactions, state_filters=["Empty"], producer_id_filters=[one[0]])) == []
    (found,) = listed(transactions, state_filters=["Ongoing"]).transaction_states
    assert (found.producer_id, found.transaction_state) == (one[0], "Ongoing")


def test_the_least_duration_leaves_younger_transactions_out(transactions: Transactions) -> None:
    transactions.add(transactions.init("one"), P0, name="one")
    assert names(listed(transactions, duration_filter=0, state_filters=["Ongoing"])) == []
    assert names(listed(transactions, duration_filter=-1)) == ["one"]


def test_states_that_do_not_exist_are_returned(transactions: Transactions) -> None:
    transactions.init("one")
    response = listed(transactions, state_filters=["Empty", "Nonsense", "Nonsense"])
    assert (names(response), list(response.unknown_state_filters)) == (["one"], ["Nonsense"])
    assert names(listed(transactions, state_filters=["Nonsense"])) == []


def test_transactional_ids_that_the_client_may_not_describe_are_left_out(transactions: Transactions) -> None:
    transactions.init("one")
    transactions.init("secret")
    assert names(listed(transactions, denied=("secret",))) == ["one"]


def test_a_refusal_of_the_list_has_no_ids() -> None:
    response = list_transactions.error_response(
        ListTransactionsRequest(state_filters=(), producer_id_filters=()), 1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    assert (response.error_code, response.transaction_states) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ())
