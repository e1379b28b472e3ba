"""The partition of a group's offsets is verified before the first offsets of a transaction are appended."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.loop.deferred import Deferred
from ottla.broker.transactions.offsets import OffsetsVerifier, Verification
from ottla.broker.transactions.verification import Verifier
from ottla.log.state.verification import UNVERIFIED, AppendOrigin, TransactionalAppend
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.broker.support.hosted import House
from tests.log.building import produced

from .cluster import FakeBrokers

OFFSETS = "__consumer_offsets"
COORDINATOR = 1
VERSION = 4


class Committing:
    """The coordinator of a group, and the coordinator of transactions that it asks: another broker."""

    def __init__(self, house: House, nursery: trio.Nursery) -> None:
        house.tell("__transaction_state", [0], leader=COORDINATOR)
        house.lead(OFFSETS)
        self.house = house
        self.code = 0
        self.is_enabled = True
        self.group_partition: int | None = 0
        self.coordinator = FakeBrokers(self._answer)
        verifier = Verifier(
            self.coordinator.ask, house.metadata, nursery.start_soon, lambda name: 0, lambda: self.is_enabled
        )
        self.offsets = OffsetsVerifier(verifier, house.replicas, house.clock, lambda group: self.group_partition)

    def begin(self, version: int = VERSION, epoch: int = 3) -> Deferred[Verification]:
        request = TxnOffsetCommitRequest(
            transactional_id="mine", group_id="readers", producer_id=7, producer_epoch=epoch, topics=()
        )
        return self.offsets.verify(request, version)

    async def verify(self, version: int = VERSION, epoch: int = 3) -> Verification:
        reply = self.begin(version, epoch)
        await trio.testing.wait_all_tasks_blocked()
        return reply.response

    def append(self, verification: Verification) -> None:
        """Append offsets with the guard of a verification."""
        batch = produced(producer_id=7, epoch=3, transactional=True)
        partition = self.house.replicas.partition(OFFSETS, 0)
        how = TransactionalAppend(AppendOrigin.COORDINATOR, verification.guard)
        self.house.replicas.append(partition, batch, -1, self.house.now_ms, how)

    def _answer(self, broker_id: int, asked: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        (transaction,) = asked.transactions
        (topic,) = transaction.topics
        results = [AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=self.code)]
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=[AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results)],
                )
            ]
        )


@pytest.fixture
async def committing(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Committing]:
    house = House(tmp_path)
    yield Committing(house, nursery)
    house.close()


async def test_the_coordinator_is_asked_for_the_groups_partition_once_a_transaction(committing: Committing) -> None:
    first = await committing.verify()
    assert first.error is ErrorCode.NONE
    ((broker, request),) = committing.coordinator.asked
    (transaction,) = request.transactions
    assert (broker, transaction.verify_only) == (COORDINATOR, True)
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("mine", 7, 3)
    assert [(each.name, each.partitions) for each in transaction.topics] == [(OFFSETS, [0])]
    committing.append(first)
    assert await committing.verify() == Verification(ErrorCode.NONE)
    assert len(committing.coordinator.asked) == 1


async def test_the_answer_comes_when_the_coordinator_has_answered(committing: Committing) -> None:
    committing.coordinator.is_open = False
    reply = committing.begin()
    await trio.testing.wait_all_tasks_blocked()
    assert not reply.done
    committing.coordinator.let_one_pass()
    await trio.testing.wait_all_tasks_blocked()
    assert reply.response.error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        # The group coordinator translates these, as it does for an append.
        (ErrorCode.NETWORK_EXCEPTION, 4, ErrorCode.NETWORK_EXCEPTION),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.CONCURRENT_TRANSACTIONS),
        (9999, 4, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_producers_get_errors_that_their_version_knows(
    committing: Committing, code: int, version: int, expected: ErrorCode
) -> None:
    committing.code = code
    assert (await committing.verify(version)).error is expected


async def test_without_verification_nobody_is_asked_and_the_append_needs_no_guard(committing: Committing) -> None:
    committing.is_enabled = False
    verification = await committing.verify()
    assert verification == Verification(ErrorCode.NONE, UNVERIFIED)
    committing.append(verification)
    assert committing.coordinator.asked == []


async def test_an_older_epoch_is_refused_without_a_question(committing: Committing) -> None:
    committing.append(await committing.verify())
    assert (await committing.verify(epoch=2)).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(committing.coordinator.asked) == 1


async def test_a_partition_that_is_not_led_here_is_not_verified(committing: Committing) -> None:
    committing.house.lead(OFFSETS, leader=1, isr=[1, 0], replicas=[1, 0], epoch=1)
    assert (await committing.verify()).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    committing.group_partition = None
    assert (await committing.verify()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert committing.coordinator.asked == []
