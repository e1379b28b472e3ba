"""A leader asks the coordinator of a transaction, and its answer comes for each partition."""

from typing import Any

import pytest
import trio
import trio.testing

from ottla.broker.cluster.topic_names import TRANSACTION_STATE_TOPIC
from ottla.broker.net.broker_client import NoCommonVersionError
from ottla.broker.transactions.verification import Errors, Question, Verifier, produce_error
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.schema import Response
from ottla.wire.types import TopicPartition

from .cluster import NO_LEADER, FakeBrokers, metadata_with

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
STATE = TopicPartition(TRANSACTION_STATE_TOPIC, 0)


def question(name: str = "tx", epoch: int = 3, partitions: tuple[TopicPartition, ...] = (P0, P1)) -> Question:
    return Question(name, 7, epoch, partitions)


def all_in(broker_id: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Answer that partitions 0 are in their transactions, and no others."""
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index,
                                partition_error_code=ErrorCode.TRANSACTION_ABORTABLE if index else ErrorCode.NONE,
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.transactions
        ]
    )


class Asking:
    """A verifier, and the brokers that it asks."""

    def __init__(self, nursery: trio.Nursery, leader: int = 2, partition: int | None = 0) -> None:
        self.brokers = FakeBrokers(all_in)
        metadata = metadata_with([(STATE, leader)])
        self.verifier = Verifier(self.brokers.ask, metadata, nursery.start_soon, lambda name: partition, lambda: True)


async def answer(verifier: Verifier, asked: Question) -> Errors:
    reply = verifier.verify(asked)
    await trio.testing.wait_all_tasks_blocked()
    return reply.response


async def test_the_coordinator_is_asked_and_answers_for_each_partition(nursery: trio.Nursery) -> None:
    asking = Asking(nursery)
    assert await answer(asking.verifier, question()) == {P0: ErrorCode.NONE, P1: ErrorCode.TRANSACTION_ABORTABLE}
    ((broker, request),) = asking.brokers.asked
    (transaction,) = request.transactions
    assert (broker, transaction.verify_only) == (2, True)
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("tx", 7, 3)


async def test_a_question_may_add_the_partitions(nursery: trio.Nursery) -> None:
    asking = Asking(nursery)
    await answer(asking.verifier, question()._replace(is_adding=True))
    assert asking.brokers.asked[0][1].transactions[0].verify_only is False


@pytest.mark.parametrize(("leader", "partition"), [(NO_LEADER, 0), (2, None), (2, 1)])
async def test_without_a_coordinator_nobody_is_asked(nursery: trio.Nursery, leader: int, partition: int | None) -> None:
    asking = Asking(nursery, leader, partition)
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await answer(asking.verifier, question()) == {P0: unavailable, P1: unavailable}
    assert not asking.brokers.asked


async def test_questions_that_gather_while_a_coordinator_answers_go_into_one_request(nursery: trio.Nursery) -> None:
    asking = Asking(nursery)
    asking.brokers.is_open = False
    replies = [asking.verifier.verify(question("first"))]
    await trio.testing.wait_all_tasks_blocked()
    replies += [asking.verifier.verify(question(name)) for name in ("second", "third")]
    asking.brokers.is_open = True
    asking.brokers.let_one_pass()
    await trio.testing.wait_all_tasks_blocked()
    names = [[each.transactional_id for each in request.transactions] for _, request in asking.brokers.asked]
    assert names == [["first"], ["second", "third"]]
    assert all(reply.response[P0] == ErrorCode.NONE for reply in replies)


@pytest.mark.parametrize(
    ("epochs", "of_older"),
    [((3, 3), ErrorCode.NETWORK_EXCEPTION), ((2, 3), ErrorCode.INVALID_PRODUCER_EPOCH)],
)
async def test_of_two_waiting_questions_for_an_id_the_newer_counts(
    nursery: trio.Nursery, epochs: tuple[int, int], of_older: ErrorCode
) -> None:
    asking = Asking(nursery)
    older, newer = (asking.verifier.verify(question(epoch=epoch)) for epoch in epochs)
    await trio.testing.wait_all_tasks_blocked()
    assert older.response == {P0: of_older, P1: of_older}
    assert newer.response[P0] == ErrorCode.NONE


async def test_a_question_of_an_older_epoch_is_fenced_by_the_one_that_waits(nursery: trio.Nursery) -> None:
    asking = Asking(nursery)
    waiting, late = (asking.verifier.verify(question(epoch=epoch)) for epoch in (4, 3))
    await trio.testing.wait_all_tasks_blocked()
    assert late.response[P0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert waiting.response[P0] == ErrorCode.NONE


@pytest.mark.parametrize("error", [ConnectionError("gone"), RuntimeError("a bug")])
async def test_a_coordinator_that_does_not_answer_is_asked_again_by_the_client(
    nursery: trio.Nursery, error: Exception
) -> None:
    asking = Asking(nursery)

    def fail(broker_id: int, request: Any) -> Response:
        raise error

    asking.brokers.answer = fail
    assert await answer(asking.verifier, question(partitions=(P0,))) == {P0: ErrorCode.NETWORK_EXCEPTION}
    asking.brokers.answer = all_in
    assert await answer(asking.verifier, question(partitions=(P0,))) == {P0: ErrorCode.NONE}


async def test_a_coordinator_that_cannot_be_asked_is_trusted_with_one_warning(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    asking = Asking(nursery)

    def old(broker_id: int, request: Any) -> Response:
        raise NoCommonVersionError("version 3 at most")

    asking.brokers.answer = old
    for _ in range(2):
        assert await answer(asking.verifier, question()) == {P0: ErrorCode.NONE, P1: ErrorCode.NONE}
    assert [each.getMessage() for each in caplog.records if "cannot verify" in each.getMessage()] == [
        "Broker 2 is of a version that cannot verify transactions: its transactions are not verified"
    ]


@pytest.mark.parametrize(
    ("of_request", "expected"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_an_error_of_the_whole_request_is_that_of_each_partition(
    nursery: trio.Nursery, of_request: ErrorCode, expected: ErrorCode
) -> None:
    asking = Asking(nursery)
    asking.brokers.answer = lambda broker_id, request: AddPartitionsToTxnResponse(error_code=of_request)
    assert await answer(asking.verifier, question()) == {P0: expected, P1: expected}


async def test_a_partition_that_the_coordinator_leaves_out_is_not_verified(nursery: trio.Nursery) -> None:
    asking = Asking(nursery)
    asking.brokers.answer = lambda broker_id, request: AddPartitionsToTxnResponse()
    assert (await answer(asking.verifier, question()))[P0] == ErrorCode.INVALID_TXN_STATE


async def test_a_code_that_this_broker_does_not_know_is_an_unknown_error(nursery: trio.Nursery) -> None:
    asking = Asking(nursery)
    asking.brokers.answer = lambda broker_id, request: AddPartitionsToTxnResponse(error_code=9999)
    assert (await answer(asking.verifier, question()))[P0] is ErrorCode.UNKNOWN_SERVER_ERROR


def test_producers_get_errors_that_they_know() -> None:
    retried = [
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ]
    for code in retried:
        assert produce_error(code, knows_abortable=True) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce_error(ErrorCode.PRODUCER_FENCED, knows_abortable=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce_error(ErrorCode.TRANSACTION_ABORTABLE, knows_abortable=True) is ErrorCode.TRANSACTION_ABORTABLE
    assert produce_error(ErrorCode.TRANSACTION_ABORTABLE, knows_abortable=False) is ErrorCode.INVALID_TXN_STATE
    unchanged = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert produce_error(unchanged, knows_abortable=False) is unchanged
