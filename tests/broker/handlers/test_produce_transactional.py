"""Produce in a transaction: the coordinator is asked before a producer's first append to a partition."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar, TypeVarTuple

import pytest
import trio
import trio.testing

from ottla.broker.handlers import produce
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.transactions.verification import Verifier
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from ottla.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from ottla.wire.records.batch import Compression, ControlType
from ottla.wire.schema import Response
from ottla.wire.types import TopicPartition
from tests.broker.handlers.producing import VERSION, answers, damaged, follower_has, hosted, request, send
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch
from tests.broker.support.replication import answered
from tests.broker.support.slow_disk import SlowDisk
from tests.broker.transactions.cluster import FakeBrokers
from tests.log.building import marker, values_from

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
COORDINATOR = 1
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
NOT_ADDED = "Partition was not added to the transaction"
NOT_VERIFIED = "Unable to verify the partition has been added to the transaction. Underlying error: "


class Leader:
    """A leader of partitions, and the coordinator that it asks: another broker, which has all partitions by default."""

    def __init__(self, house: House, nursery: trio.Nursery) -> None:
        house.starts = nursery.start_soon
        house.tell("__transaction_state", [0], leader=COORDINATOR)
        self.house = house
        self.codes: Mapping[TopicPartition, int] = {}
        self.is_enabled = True
        self.coordinator = FakeBrokers(self._answer)
        self.verifier = Verifier(
            self.coordinator.ask, house.metadata, nursery.start_soon, lambda name: 0, lambda: self.is_enabled
        )

    def begin(
        self, asked: ProduceRequest, version: int = VERSION
    ) -> ProduceResponse | Deferred[ProduceResponse] | Deferred[ProduceResponse | None] | None:
        return send(self.house, asked, version, verifier=self.verifier)

    async def ask(self, asked: ProduceRequest, version: int = VERSION) -> list[PartitionProduceResponse]:
        reply = self.begin(asked, version)
        await trio.testing.wait_all_tasks_blocked()
        if isinstance(reply, Deferred):
            reply = reply.response
        assert isinstance(reply, ProduceResponse)
        return answers(ProduceResponse.decode(reply.encode(version), version))

    @property
    def questions(self) -> list[tuple[int, str, int, int, bool, list[TopicPartition]]]:
        """Return the broker that was asked, and the content of the question."""
        return [
            (
                broker,
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                each.verify_only,
                [TopicPartition(topic.name, index) for topic in each.topics for index in topic.partitions],
            )
            for broker, asked in self.coordinator.asked
            for each in asked.transactions
        ]

    def _answer(self, broker_id: int, asked: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
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
                                    partition_error_code=self.codes.get(TopicPartition(topic.name, index), 0),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in asked.transactions
            ]
        )


@pytest.fixture
async def leader(house: House, nursery: trio.Nursery) -> AsyncIterator[Leader]:
    nursery.start_soon(house.clock.run)
    yield Leader(house, nursery)
    nursery.cancel_scope.cancel()


def records(
    value: bytes = b"t", sequence: int = 0, *, producer_id: int = 7, epoch: int = 3, **options: Any
) -> memoryview:
    return batch(
        value,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
        **options,
    )


def transactional(*data: tuple[TopicPartition, memoryview], acks: int = -1) -> ProduceRequest:
    return request(*((*where, each) for where, each in data), acks=acks, transactional_id="mine")


def end(leader: Leader, kind: ControlType = ControlType.COMMIT, epoch: int = 3) -> None:
    leader.house.replicas.append(hosted(leader.house), marker(7, kind, epoch=epoch), -1, NOW_MS)


def outcome(answer: PartitionProduceResponse) -> tuple[int, int, int, str | None]:
    return answer.error_code, answer.base_offset, answer.log_start_offset, answer.error_message


# The question


async def test_the_coordinator_is_asked_before_the_first_append_of_a_transaction_only(leader: Leader) -> None:
    (first,) = await leader.ask(transactional((P0, records(b"a"))))
    (second,) = await leader.ask(transactional((P0, records(b"b", 1))))
    assert [outcome(first), outcome(second)] == [(0, 0, 0, None), (0, 1, 0, None)]
    assert leader.questions == [(COORDINATOR, "mine", 7, 3, True, [P0])]
    end(leader)
    assert (await leader.ask(transactional((P0, records(b"c", 2)))))[0].error_code == 0
    assert len(leader.questions) == 2
    assert [each for each in values_from(hosted(leader.house).log) if each in (b"a", b"b", b"c")] == [b"a", b"b", b"c"]


async def test_nothing_is_appended_before_the_answer_and_the_connection_is_muted(leader: Leader) -> None:
    leader.coordinator.is_open = False
    reply = leader.begin(transactional((P0, records())))
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(reply, Deferred)
    assert (reply.applied, reply.done, hosted(leader.house).log.log_end_offset) == (False, False, 0)
    leader.coordinator.let_one_pass()
    await trio.testing.wait_all_tasks_blocked()
    assert (reply.done, hosted(leader.house).log.log_end_offset) == (True, 1)


async def test_one_question_is_asked_for_all_partitions_and_each_has_its_answer(leader: Leader) -> None:
    await answered(leader.house.replicas.become_leader_or_follower(leader.house.request("other")))
    leader.codes = {P1: ABORTABLE}
    found = await leader.ask(
        transactional((P0, records()), (P1, records()), (TopicPartition("other", 0), batch(b"plain")))
    )
    assert [outcome(each) for each in found] == [(0, 0, 0, None), (ABORTABLE, -1, -1, None), (0, 0, 0, None)]
    assert leader.questions == [(COORDINATOR, "mine", 7, 3, True, [P0, P1])]
    assert hosted(leader.house, 1).log.log_end_offset == 0


async def test_only_partitions_without_an_open_transaction_are_asked_for(leader: Leader) -> None:
    await leader.ask(transactional((P0, records())))
    found = await leader.ask(transactional((P0, records(b"b", 1)), (P1, records())))
    assert [(each.error_code, each.base_offset) for each in found] == [(0, 1), (0, 0)]
    assert [partitions for *_, partitions in leader.questions] == [[P0], [P1]]


@pytest.mark.parametrize(
    ("code", "version", "expected", "message"),
    [
        (ABORTABLE, 11, ABORTABLE, None),
        (ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE, NOT_ADDED),
        (ABORTABLE, 8, ErrorCode.INVALID_TXN_STATE, NOT_ADDED),
        # Older responses have no place for a message.
        (ABORTABLE, 7, ErrorCode.INVALID_TXN_STATE, None),
        (ErrorCode.INVALID_TXN_STATE, 11, ErrorCode.INVALID_TXN_STATE, NOT_ADDED),
        (ErrorCode.PRODUCER_FENCED, 11, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 11, ErrorCode.INVALID_PRODUCER_ID_MAPPING, None),
        *(
            (code, version, ErrorCode.NOT_ENOUGH_REPLICAS, NOT_VERIFIED + code.name)
            for version in (8, 11)
            for code in (
                ErrorCode.NETWORK_EXCEPTION,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.CONCURRENT_TRANSACTIONS,
            )
        ),
        # A code that this broker does not know.
        (9999, 11, ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
async def test_producers_get_errors_that_their_version_knows(
    leader: Leader, code: int, version: int, expected: int, message: str | None
) -> None:
    leader.codes = {P0: code}
    (found,) = await leader.ask(transactional((P0, records())), version)
    assert outcome(found) == (expected, -1, -1, message)
    assert hosted(leader.house).log.log_end_offset == 0
    leader.codes = {}
    # The producer tries again.
    assert (await leader.ask(transactional((P0, records())), version))[0].error_code == 0


async def test_without_verification_nobody_is_asked(leader: Leader) -> None:
    leader.is_enabled = False
    (found,) = await leader.ask(transactional((P0, records())))
    assert (outcome(found), leader.questions) == ((0, 0, 0, None), [])


# What happens meanwhile


async def test_a_transaction_that_ends_meanwhile_is_not_begun_again(leader: Leader) -> None:
    leader.coordinator.is_open = False
    reply = leader.begin(transactional((P0, records())))
    await trio.testing.wait_all_tasks_blocked()
    end(leader, ControlType.ABORT)
    leader.coordinator.let_one_pass()
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(reply, Deferred)
    assert isinstance(reply.response, ProduceResponse)
    (found,) = answers(reply.response)
    assert (found.error_code, found.base_offset) == (ErrorCode.INVALID_TXN_STATE, -1)
    assert hosted(leader.house).log.log_end_offset == 1
    assert hosted(leader.house).last_stable_offset == 1


async def test_a_partition_that_goes_away_meanwhile_keeps_no_other_from_its_append(leader: Leader) -> None:
    leader.coordinator.is_open = False
    reply = leader.begin(transactional((P0, records()), (P1, records())))
    await trio.testing.wait_all_tasks_blocked()
    await answered(leader.house.replicas.stop_replica(stop(P0)))
    assert P0 not in leader.house.replicas.partitions
    leader.coordinator.let_one_pass()
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(reply, Deferred)
    assert isinstance(reply.response, ProduceResponse)
    gone, found = answers(reply.response)
    assert (gone.error_code, found.error_code) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


async def test_a_leader_that_became_a_follower_meanwhile_appends_nothing(leader: Leader) -> None:
    leader.coordinator.is_open = False
    reply = leader.begin(transactional((P0, records())))
    await trio.testing.wait_all_tasks_blocked()
    following = leader.house.request(leader=1, isr=[1, 0], replicas=[1, 0], epoch=1)
    await answered(leader.house.replicas.become_leader_or_follower(following))
    leader.coordinator.let_one_pass()
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(reply, Deferred)
    assert isinstance(reply.response, ProduceResponse)
    (found,) = answers(reply.response)
    assert (found.error_code, found.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)


async def test_a_client_that_disconnects_meanwhile_is_not_answered_and_its_records_are_appended(
    leader: Leader,
) -> None:
    leader.coordinator.is_open = False
    reply = leader.begin(transactional((P0, records())))
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(reply, Deferred)
    reply.abandon()
    leader.coordinator.let_one_pass()
    await trio.testing.wait_all_tasks_blocked()
    assert hosted(leader.house).log.log_end_offset == 1


async def test_a_bug_after_the_answer_is_an_unknown_error_and_without_acks_closes_the_connection(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = leader.coordinator.answer

    def break_the_clock(broker_id: int, asked: AddPartitionsToTxnRequest) -> Response:
        monkeypatch.setattr(leader.house, "now_ms", "no time")
        return answer(broker_id, asked)

    leader.coordinator.answer = break_the_clock
    (found,) = await leader.ask(transactional((P0, records())))
    assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    monkeypatch.undo()
    reply = leader.begin(transactional((P0, records()), acks=0))
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(reply, Deferred)
    with pytest.raises(CloseConnection):
        _ = reply.response


async def test_a_bug_in_a_thread_that_validates_is_an_unknown_error_too(leader: Leader) -> None:
    async def fail(function: Callable[[*Ts], T], *args: *Ts) -> T:
        raise RuntimeError("a bug")

    leader.house.worker = fail
    plain = request((*P0, batch(bytes(1 << 20), compression=Compression.GZIP)))
    assert [each.error_code for each in await leader.ask(plain)] == [ErrorCode.UNKNOWN_SERVER_ERROR]


# How the append goes on


async def test_without_acks_there_is_no_reply_and_an_error_closes_the_connection(leader: Leader) -> None:
    good = leader.begin(transactional((P0, records()), acks=0))
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(good, Deferred)
    assert (good.response, hosted(leader.house).log.log_end_offset) == (None, 1)
    leader.codes = {P1: ABORTABLE}
    bad = leader.begin(transactional((P1, records()), acks=0))
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(bad, Deferred)
    with pytest.raises(CloseConnection):
        _ = bad.response
    open_one = leader.begin(transactional((P0, records(b"b", 1)), acks=0))
    assert (open_one, hosted(leader.house).log.log_end_offset) == (None, 2)


async def test_the_reply_waits_for_the_followers_after_the_question(leader: Leader) -> None:
    leading = leader.house.request(isr=[0, 1], replicas=[0, 1], epoch=1)
    await answered(leader.house.replicas.become_leader_or_follower(leading))
    reply = leader.begin(transactional((P0, records())))
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(reply, Deferred)
    assert (reply.done, hosted(leader.house).log.log_end_offset) == (False, 1)
    follower_has(leader.house, 1)
    assert isinstance(reply.response, ProduceResponse)
    assert [each.error_code for each in answers(reply.response)] == [0]


async def test_a_long_batch_is_validated_after_the_question_and_appended_with_it(leader: Leader) -> None:
    (found,) = await leader.ask(transactional((P0, records(bytes(1 << 20), compression=Compression.GZIP))))
    assert (outcome(found), len(leader.house.offloaded)) == ((0, 0, 0, None), 1)
    leader.codes = {P1: ABORTABLE}
    (found,) = await leader.ask(transactional((P1, records(bytes(1 << 20), compression=Compression.GZIP))))
    # What the coordinator does not know is not even validated.
    assert (found.error_code, len(leader.house.offloaded)) == (ABORTABLE, 1)


async def test_a_slow_directory_appends_with_the_answer_of_the_coordinator(leader: Leader) -> None:
    disk = SlowDisk(leader.house)
    disk.slow_down(hosted(leader.house).log)
    reply = leader.begin(transactional((P0, records())))
    await disk.begun()
    await disk.write_all()
    assert isinstance(reply, Deferred)
    assert isinstance(reply.response, ProduceResponse)
    assert [outcome(each) for each in answers(reply.response)] == [(0, 0, 0, None)]
    assert hosted(leader.house).last_stable_offset == 0
    disk.end()


async def test_a_slow_directory_appends_nothing_to_a_transaction_that_ends_meanwhile(leader: Leader) -> None:
    disk = SlowDisk(leader.house)
    disk.slow_down(hosted(leader.house).log)
    leader.coordinator.is_open = False
    reply = leader.begin(transactional((P0, records())))
    await trio.testing.wait_all_tasks_blocked()
    end(leader, ControlType.ABORT)
    leader.coordinator.let_one_pass()
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(reply, Deferred)
    assert isinstance(reply.response, ProduceResponse)
    assert [each.error_code for each in answers(reply.response)] == [ErrorCode.INVALID_TXN_STATE]
    disk.end()


# What needs no question


@pytest.mark.parametrize("unsound", ["short", "cut", "two"])
async def test_records_that_are_not_one_batch_are_refused_and_nobody_is_asked(leader: Leader, unsound: str) -> None:
    good = records()
    bad = {
        "short": memoryview(bytearray(good[:40])),
        "cut": memoryview(bytearray(good[:-1])),
        "two": memoryview(bytearray(bytes(good) * 2)),
    }[unsound]
    found = await leader.ask(transactional((P0, bad), (P1, batch(b"plain"))))
    assert [each.error_code for each in found] == [ErrorCode.INVALID_RECORD, 0]
    assert leader.questions == []


async def test_a_batch_that_its_checksum_refuses_is_asked_for_first_and_refused_afterwards(leader: Leader) -> None:
    (found,) = await leader.ask(transactional((P0, damaged(records(), 65, b"\x7f", keep_crc=True))))
    assert (found.error_code, len(leader.questions)) == (ErrorCode.CORRUPT_MESSAGE, 1)


async def test_bad_acks_and_internal_topics_are_refused_after_the_question(leader: Leader) -> None:
    await answered(leader.house.replicas.become_leader_or_follower(leader.house.request("__consumer_offsets")))
    offsets = TopicPartition("__consumer_offsets", 0)
    for is_added, codes in (
        (False, [ABORTABLE, ABORTABLE]),
        (True, [ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.INVALID_TOPIC_EXCEPTION]),
    ):
        leader.codes = {} if is_added else {P0: ABORTABLE, offsets: ABORTABLE}
        found = [
            *await leader.ask(transactional((P0, records()), acks=2)),
            *await leader.ask(transactional((offsets, records()))),
        ]
        assert [each.error_code for each in found] == codes
    assert [partitions for *_, partitions in leader.questions] == [[P0], [offsets]] * 2
    assert hosted(leader.house).log.log_end_offset == 0


async def test_records_without_a_producer_id_are_appended_like_others(leader: Leader) -> None:
    # As in Kafka, whose producers send no such batch.
    (found,) = await leader.ask(transactional((P0, records(producer_id=-1, epoch=-1, sequence=-1))))
    assert (outcome(found), leader.questions) == ((0, 0, 0, None), [])


async def test_an_older_epoch_is_refused_without_a_question(leader: Leader) -> None:
    await leader.ask(transactional((P0, records(epoch=4))))
    (found,) = await leader.ask(transactional((P0, records(epoch=3))))
    assert outcome(found) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1, -1, None)
    assert len(leader.questions) == 1


async def test_a_leader_elsewhere_is_answered_without_a_question(leader: Leader) -> None:
    following = leader.house.request(leader=1, isr=[1, 0], replicas=[1, 0], epoch=1)
    await answered(leader.house.replicas.become_leader_or_follower(following))
    (found,) = await leader.ask(transactional((P0, records())))
    assert (found.error_code, found.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
    assert leader.questions == []


def test_a_refusal_of_a_transactional_request_closes_without_acks() -> None:
    with pytest.raises(CloseConnection):
        produce.error_response(transactional((P0, records()), acks=0), VERSION, ErrorCode.UNKNOWN_SERVER_ERROR)


def stop(partition: TopicPartition) -> StopReplicaRequest:
    state = StopReplicaPartitionState(partition_index=partition.partition, leader_epoch=-1, delete_partition=True)
    return StopReplicaRequest(
        controller_id=0,
        controller_epoch=1,
        topic_states=[StopReplicaTopicState(topic_name=partition.topic, partition_states=[state])],
    )
