"""Markers reach the leader of each partition, whatever fails on the way."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from ottla.broker.cluster.topic_names import TRANSACTION_STATE_TOPIC
from ottla.broker.loop.clock import Clock
from ottla.broker.replicas.partition import Partition
from ottla.broker.transactions.markers import MarkerSender
from ottla.coordinator.effects import Marker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.schema import Response
from ottla.wire.types import TopicPartition

from .cluster import NO_LEADER, FakeBrokers, metadata_with, update

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
# The coordinators of these tests lead these partitions.
STATES = [(TopicPartition(TRANSACTION_STATE_TOPIC, index), 1) for index in (5, 6)]
Codes = Callable[[int, TopicPartition], int]


def marker(*partitions: TopicPartition, producer_id: int = 7, name: str = "tx") -> Marker:
    return Marker(name, producer_id, 3, True, partitions, 0)


def answering(code: Codes) -> Callable[[int, Any], Response]:
    def answer(broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=each.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=code(broker_id, TopicPartition(topic.name, index))
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in request.markers
            ]
        )

    return answer


class Sending:
    """A sender with its brokers, its metadata, and the partitions that were marked."""

    def __init__(self, nursery: trio.Nursery, clock: Clock, leaders: list[tuple[TopicPartition, int]]) -> None:
        self.codes: Codes = lambda broker_id, partition: ErrorCode.NONE
        self.brokers = FakeBrokers(answering(lambda broker_id, partition: self.codes(broker_id, partition)))
        self.metadata = metadata_with(leaders)
        self.marked: list[TopicPartition] = []
        self.sender = MarkerSender(self.brokers.ask, self.metadata, clock, nursery.start_soon)

    def send(self, marker: Marker, coordinator: int = 5) -> None:
        self.sender.send(coordinator, 9, marker, self.marked.append)


def start(nursery: trio.Nursery, *leaders: tuple[TopicPartition, int]) -> Sending:
    clock = Clock()
    nursery.start_soon(clock.run)
    return Sending(nursery, clock, [*leaders, *STATES])


async def test_each_leader_gets_its_partitions_and_each_partition_is_reported_once(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    sending = start(nursery, (P0, 1), (P1, 2))
    sending.send(marker(P0, P1))
    await trio.sleep(1)
    assert sorted(sending.marked) == [P0, P1]
    asked = {broker: request.markers for broker, request in sending.brokers.asked}
    assert sorted(asked) == [1, 2]
    (of_one,) = asked[1]
    assert (of_one.producer_id, of_one.producer_epoch, of_one.transaction_result) == (7, 3, True)
    assert (of_one.coordinator_epoch, of_one.transaction_version) == (9, 0)
    assert [(each.name, each.partition_indexes) for each in of_one.topics] == [("orders", [0])]


async def test_markers_that_gather_while_a_broker_answers_go_into_one_request(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    sending = start(nursery, (P0, 1), (P1, 1))
    sending.brokers.is_open = False
    sending.send(marker(P0, producer_id=1))
    await trio.testing.wait_all_tasks_blocked()
    for producer_id in (2, 3, 4):
        sending.send(marker(P0, P1, producer_id=producer_id))
    await trio.testing.wait_all_tasks_blocked()
    assert len(sending.brokers.asked) == 1
    sending.brokers.is_open = True
    sending.brokers.let_one_pass()
    await trio.sleep(1)
    assert [[each.producer_id for each in request.markers] for _, request in sending.brokers.asked] == [[1], [2, 3, 4]]
    assert len(sending.marked) == 7


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_a_mark_that_fails_for_now_is_made_again_by_the_leader_of_that_time(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, code: ErrorCode
) -> None:
    sending = start(nursery, (P0, 1), (P1, 1))
    sending.codes = lambda broker_id, partition: code if (broker_id, partition) == (1, P0) else ErrorCode.NONE
    sending.send(marker(P0, P1))
    await trio.sleep(1)
    assert sending.marked == [P1]
    assert len(sending.brokers.asked) > 1
    sending.metadata.update(update([(P0, 2)]))
    await trio.sleep(1)
    assert sending.marked == [P1, P0]
    assert sending.brokers.asked[-1][0] == 2


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
async def test_a_mark_that_is_refused_for_good_keeps_no_transaction_open_and_is_logged(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    sending = start(nursery, (P0, 1))
    sending.codes = lambda broker_id, partition: code
    sending.send(marker(P0))
    await trio.sleep(1)
    assert (sending.marked, len(sending.brokers.asked)) == ([P0], 1)
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert "orders-0 refuses the marker of transactional id tx, producer 7, epoch 3" in line
    assert code.name in line


async def test_a_deleted_partition_needs_no_marker(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    sending = start(nursery, (P1, 1))
    sending.send(marker(P0, P1))
    await trio.sleep(1)
    assert sorted(sending.marked) == [P0, P1]
    assert len(sending.brokers.asked) == 1


async def test_a_broker_without_all_metadata_takes_no_partition_for_deleted(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """A controller that begins sends brokers first, then roles, and partitions last."""
    clock = Clock()
    nursery.start_soon(clock.run)
    sending = Sending(nursery, clock, [])
    sending.metadata.update(update([], brokers=[]))
    sending.send(marker(P0))
    await trio.sleep(1)
    assert sending.marked == []
    sending.metadata.update(update([]))
    await trio.sleep(1)
    assert sending.marked == []
    sending.metadata.update(update([(P0, 2), *STATES]))
    await trio.sleep(1)
    assert (sending.marked, [broker for broker, _ in sending.brokers.asked]) == ([P0], [2])


async def test_a_transaction_of_many_partitions_is_ended_by_several_requests(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    partitions = [TopicPartition("orders", index) for index in range(450)]
    sending = start(nursery, *((each, 1) for each in partitions))
    sending.send(marker(*partitions))
    await trio.sleep(1)
    assert sorted(sending.marked) == partitions
    sizes = [sum(len(topic.partition_indexes) for each in request.markers for topic in each.topics)
             for _, request in sending.brokers.asked]  # fmt: skip
    assert sizes == [200, 200, 50]


async def test_a_partition_without_a_leader_waits_for_one(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    sending = start(nursery, (P0, NO_LEADER))
    sending.send(marker(P0))
    await trio.sleep(1)
    assert (sending.marked, sending.brokers.asked) == ([], [])
    sending.metadata.update(update([(P0, 1)]))
    await trio.sleep(1)
    assert sending.marked == [P0]


@pytest.mark.parametrize("error", [ConnectionError("gone"), RuntimeError("a bug")])
async def test_a_request_without_an_answer_is_sent_again(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, error: Exception
) -> None:
    sending = start(nursery, (P0, 1))
    fails = True

    def code(broker_id: int, partition: TopicPartition) -> int:
        if fails:
            raise error
        return ErrorCode.NONE

    sending.codes = code
    sending.send(marker(P0))
    await trio.sleep(1)
    assert sending.marked == []
    fails = False
    await trio.sleep(1)
    assert sending.marked == [P0]


async def test_a_partition_that_the_answer_leaves_out_is_asked_for_again(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    sending = start(nursery, (P0, 1))
    sending.brokers.answer = lambda broker_id, request: WriteTxnMarkersResponse(markers=())
    sending.send(marker(P0))
    await trio.sleep(1)
    assert (sending.marked, len(sending.brokers.asked) > 1) == ([], True)


async def test_marks_of_a_coordinator_that_moved_are_given_up_even_amid_a_request(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    sending = start(nursery, (P0, 1), (P1, NO_LEADER))
    sending.brokers.is_open = False
    sending.send(marker(P0, P1), coordinator=5)
    sending.send(marker(P0, producer_id=8), coordinator=6)
    await trio.testing.wait_all_tasks_blocked()
    sending.sender.unload(hosted(TRANSACTION_STATE_TOPIC, 5))
    sending.sender.unload(hosted("orders", 6))
    sending.brokers.is_open = True
    sending.brokers.let_one_pass()
    sending.metadata.update(update([(P1, 1)]))
    await trio.sleep(1)
    # Only the mark of the other coordinator's transaction is reported.
    assert (sending.marked, len(sending.brokers.asked)) == ([P0], 1)


def hosted(topic: str, index: int) -> Partition:
    return cast(Partition, SimpleNamespace(topic_partition=TopicPartition(topic, index)))
