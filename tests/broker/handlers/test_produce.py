import gc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.handlers import produce
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.wire.errors import DecodeError, ErrorCode, KafkaError
from ottla.wire.messages.produce import PartitionProduceData, ProduceResponse
from ottla.wire.records.batch import Compression, NewRecord, build_batch
from ottla.wire.types import TopicPartition
from tests.broker.handlers.producing import (
    VERSION,
    Records,
    answers,
    codes,
    damaged,
    follower_has,
    hosted,
    idempotent,
    now,
    one,
    request,
    send,
)
from tests.broker.support.hosted import BROKER, NOW_MS, TOPIC, House, batch, big_batch

# One batch


@pytest.mark.parametrize("acks", [1, -1])
def test_one_batch_is_appended_and_answered_at_once(house: House, acks: int) -> None:
    send(house, one(batch(b"before"), acks=acks))
    (answer,) = answers(now(house, one(batch(b"a", b"b"), acks=acks)))
    assert (answer.index, answer.error_code, answer.base_offset) == (0, 0, 1)
    assert (answer.log_append_time_ms, answer.log_start_offset) == (-1, 0)
    assert hosted(house).high_watermark == 3


def test_without_acks_there_is_no_reply(house: House) -> None:
    assert send(house, one(batch(b"a"), acks=0)) is None
    assert send(house, request((TOPIC, 0, batch(b"b")), (TOPIC, 1, batch(b"c")), acks=0)) is None
    assert hosted(house).high_watermark == 2


def test_an_error_without_acks_closes_the_connection(house: House) -> None:
    with pytest.raises(CloseConnection):
        send(house, one(damaged(batch(b"a"), 60, b"\7", keep_crc=True), acks=0))
    with pytest.raises(CloseConnection):
        send(house, request((TOPIC, 0, batch(b"a")), ("nowhere", 0, batch(b"b")), acks=0))
    with pytest.raises(CloseConnection):
        produce.error_response(one(batch(b"a"), acks=0), VERSION, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_an_error_of_the_whole_request_is_that_of_each_partition_once() -> None:
    places = ("other", 0), (TOPIC, 1), ("other", 0), ("other", 2)
    asked = request(*((*place, batch(b"a")) for place in places))
    found = produce.error_response(asked, VERSION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    told = [(each.name, [(one.index, one.error_code) for one in each.partition_responses]) for each in found.responses]
    assert told == [("other", [(0, 53), (2, 53)]), (TOPIC, [(1, 53)])]


def test_many_partitions_are_answered_by_topic_in_the_order_of_the_request(house: House) -> None:
    house.lead("other")
    response = now(house, request(("other", 0, batch(b"a")), (TOPIC, 1, batch(b"b")), (TOPIC, 0, batch(b"c", b"d"))))
    assert [(t.name, [p.index for p in t.partition_responses]) for t in response.responses] == [
        ("other", [0]),
        (TOPIC, [1, 0]),
    ]
    assert [hosted(house, index).high_watermark for index in (0, 1)] == [2, 1]


def test_a_partition_that_is_offline_is_refused_and_the_next_one_is_appended_to(house: House) -> None:
    hosted(house, 0).make_offline()
    asked = request((TOPIC, 0, batch(b"a")), (TOPIC, 1, batch(b"b")), acks=1)
    assert codes(house, asked) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert hosted(house, 1).high_watermark == 1


def test_of_two_batches_for_one_partition_the_later_counts(house: House) -> None:
    assert codes(house, request((TOPIC, 0, batch(b"a")), (TOPIC, 0, batch(b"b", b"c")))) == [0]
    assert hosted(house).high_watermark == 2


def test_a_topic_with_the_brokers_time_answers_with_it(house: House) -> None:
    house.configs["stamped"] = {"message.timestamp.type": "LogAppendTime"}
    house.lead("stamped")
    (answer,) = answers(now(house, request(("stamped", 0, batch(b"a", timestamp=5)))))
    assert answer.log_append_time_ms == NOW_MS


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_that_are_only_advertised_close_the_connection(house: House, version: int) -> None:
    with pytest.raises(DecodeError):
        send(house, one(batch(b"a")), version)
    with pytest.raises(DecodeError):
        send(house, request((TOPIC, 0, batch(b"a")), (TOPIC, 1, batch(b"b"))), version)


def test_a_request_without_partitions_gets_a_response_without_partitions(house: House) -> None:
    assert now(house, request()).responses == []


# Idempotence


def test_a_duplicate_is_answered_with_its_first_offset_and_not_appended(house: House) -> None:
    for _ in range(2):
        (answer,) = answers(now(house, one(idempotent(0, b"a", b"b"))))
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert hosted(house).high_watermark == 2


def test_a_gap_and_a_fenced_epoch_are_refused(house: House) -> None:
    assert codes(house, one(idempotent(0, b"a", epoch=1))) == [0]
    (gap,) = answers(now(house, one(idempotent(5, b"b", epoch=1))))
    assert (gap.error_code, gap.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert (gap.log_start_offset, gap.error_message) == (0, None)
    assert codes(house, one(idempotent(1, b"b", epoch=0))) == [ErrorCode.INVALID_PRODUCER_EPOCH]


# Bad input


@pytest.mark.parametrize("acks", [-2, 2, 100, -32768, 32767])
def test_acks_other_than_three_are_refused_for_every_partition(house: House, acks: int) -> None:
    asked = request((TOPIC, 0, batch(b"a")), (TOPIC, 1, batch(b"b")), ("nowhere", 0, batch(b"c")), acks=acks)
    assert codes(house, asked) == [21, 21, 3]
    assert codes(house, one(batch(b"a"), acks=acks)) == [21]
    assert hosted(house).high_watermark == 0


@pytest.mark.parametrize(("topic", "index"), [("nowhere", 0), (TOPIC, 9), (TOPIC, -1), ("../etc", 0), ("", 0)])
def test_an_unknown_partition_is_unknown(house: House, topic: str, index: int) -> None:
    assert codes(house, request((topic, index, batch(b"a")))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_records_that_are_no_sound_batch_are_refused(house: House) -> None:
    good = batch(b"a", b"b")
    bad: Mapping[int, Sequence[Records]] = {
        ErrorCode.CORRUPT_MESSAGE: [damaged(good, 65, b"\x7f", keep_crc=True)],
        ErrorCode.INVALID_RECORD: [
            None,
            memoryview(b""),
            damaged(good, 57, (9).to_bytes(4, "big")),
            damaged(good, 16, b"\1"),
            memoryview(bytearray(bytes(good) * 2)),
            memoryview(bytearray(good[:-1])),
        ],
    }
    for code, several in bad.items():
        for records in several:
            assert codes(house, one(records)) == [code]
            assert codes(house, request((TOPIC, 0, records), (TOPIC, 1, batch(b"c")))) == [code, 0]
    assert hosted(house).log.log_end_offset == 0


@pytest.mark.parametrize(
    ("position", "damage", "said"),
    [
        (16, b"\3", "Invalid magic found in record: 3"),
        (8, (-1).to_bytes(4, "big", signed=True), "Record size -1 is less than the minimum record overhead (14)"),
    ],
)
def test_records_that_no_batch_begins_with_end_the_whole_request(
    house: House, position: int, damage: bytes, said: str
) -> None:
    bad = damaged(batch(b"a"), position, damage)
    for asked in (one(bad), request((TOPIC, 0, bad), (TOPIC, 1, batch(b"c")))):
        found = answers(now(house, asked))
        assert {(each.error_code, each.error_message) for each in found} == {(ErrorCode.CORRUPT_MESSAGE, said)}
    assert (hosted(house).log.log_end_offset, hosted(house, 1).log.log_end_offset) == (0, 0)


def test_records_that_are_not_one_batch_are_refused_without_the_log_start_offset(house: House) -> None:
    for records in (memoryview(b""), damaged(batch(b"a"), 16, b"\1"), memoryview(bytearray(bytes(batch(b"a")) * 2))):
        (found,) = answers(now(house, one(records)))
        assert (found.error_code, found.log_start_offset) == (ErrorCode.INVALID_RECORD, -1)
    (found,) = answers(now(house, one(damaged(batch(b"a"), 57, (9).to_bytes(4, "big")))))
    assert (found.error_code, found.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)


def test_a_timestamp_beyond_the_topics_limits_is_refused(house: House) -> None:
    house.configs["timely"] = {"message.timestamp.before.max.ms": "10", "message.timestamp.after.max.ms": "10"}
    house.lead("timely")
    for off, code in ((-11, 32), (-10, 0), (10, 0), (11, 32)):
        assert codes(house, request(("timely", 0, batch(b"a", timestamp=NOW_MS + off)))) == [code]


def test_a_batch_beyond_the_topics_limit_is_too_large(house: House) -> None:
    house.configs["small"] = {"max.message.bytes": "100"}
    house.lead("small")
    (answer,) = answers(now(house, request(("small", 0, batch(b"a" * 200)))))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


def test_zstd_is_for_producers_that_know_it(house: House) -> None:
    assert codes(house, one(batch(b"a", compression=Compression.ZSTD)), 6) == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]
    assert codes(house, one(batch(b"a", compression=Compression.ZSTD)), 7) == [0]


def test_unfit_records_are_named_with_a_reason(house: House) -> None:
    house.configs["compacted"] = {"cleanup.policy": "compact"}
    house.lead("compacted")
    keyless = memoryview(build_batch([NewRecord(b"k", b"v", NOW_MS), NewRecord(None, b"v", NOW_MS)]))
    (answer,) = answers(now(house, request(("compacted", 0, keyless))))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert answer.error_message


# Transactions


def transactional(producer_id: int = 7) -> memoryview:
    return batch(b"t", producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def test_records_of_a_transaction_need_its_id(house: House) -> None:
    with pytest.raises(KafkaError) as caught:
        send(house, request((TOPIC, 0, batch(b"a")), (TOPIC, 1, transactional())))
    assert caught.value.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert hosted(house).high_watermark == 0


def test_records_of_a_transaction_are_refused_without_a_transaction_coordinator(house: House) -> None:
    asked = request((TOPIC, 0, transactional()), (TOPIC, 1, batch(b"a")), transactional_id="mine")
    refused, appended = answers(now(house, asked))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "COORDINATOR_NOT_AVAILABLE" in (refused.error_message or "")
    assert appended.error_code == 0
    assert hosted(house).high_watermark == 0


def test_a_transaction_has_one_producer(house: House) -> None:
    asked = request((TOPIC, 0, transactional(7)), (TOPIC, 1, transactional(8)), transactional_id="mine")
    message = "Transactional records contained more than one producer ID"
    found = [(each.error_code, each.error_message) for each in answers(now(house, asked))]
    assert found == [(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)] * 2
    # Only the records count that could be appended: the last ones of a partition, if it is here.
    nowhere = request(("nowhere", 0, transactional(8)), (TOPIC, 0, transactional(7)), transactional_id="mine")
    assert codes(house, nowhere) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS]
    twice = request((TOPIC, 0, transactional(8)), (TOPIC, 0, transactional(7)), transactional_id="mine")
    assert codes(house, twice) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert hosted(house).high_watermark == 0


def test_a_client_writes_no_control_batch(house: House) -> None:
    control = memoryview(bytearray(batch(b"a")))
    assert codes(house, one(damaged(control, 21, b"\0\x20"))) == [ErrorCode.INVALID_RECORD]


def test_internal_topics_are_for_the_admin_client(house: House) -> None:
    house.lead("__consumer_offsets")
    asked = request(("__consumer_offsets", 0, batch(b"a")))
    assert codes(house, asked) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert codes(house, request(("__consumer_offsets", 0, batch(b"a"))), client_id="__admin_client") == [0]


def test_records_that_are_not_one_batch_are_refused_before_anything_else_is_looked_at(house: House) -> None:
    old = damaged(batch(b"a"), 16, b"\1")
    house.tell("elsewhere", [0], leader=1)
    for topic, acks in ((TOPIC, 7), ("__consumer_offsets", -1), ("elsewhere", -1), ("elsewhere", 7)):
        house.lead("__consumer_offsets")
        assert codes(house, request((topic, 0, old), acks=acks)) == [ErrorCode.INVALID_RECORD]
    assert codes(house, request(("nowhere", 0, old), acks=7)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_impossible_number_of_acks_is_refused_before_a_partition_that_is_elsewhere(house: House) -> None:
    house.tell("elsewhere", [0], leader=1)
    assert codes(house, request(("elsewhere", 0, batch(b"a")), acks=7)) == [ErrorCode.INVALID_REQUIRED_ACKS]
    assert codes(house, request(("elsewhere", 0, batch(b"a")))) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


# Leadership


@pytest.mark.parametrize("several", [False, True])
def test_a_broker_that_does_not_lead_names_the_leader_from_version_10_on(house: House, several: bool) -> None:
    house.lead(leader=1, isr=[1], replicas=[BROKER, 1], epoch=3)
    more = [(TOPIC, 1, batch(b"b"))] if several else []
    response = now(house, request((TOPIC, 0, batch(b"a")), *more), 10)
    leader = answers(response)[0].current_leader
    assert answers(response)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (leader.leader_id, leader.leader_epoch) == (1, 3)
    assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(1, "h", 9001)]
    older = now(house, request((TOPIC, 0, batch(b"a")), *more), 9)
    assert older.node_endpoints in ([], ())
    assert answers(older)[0].current_leader.leader_id == -1


def test_a_partition_led_elsewhere_is_answered_with_its_leader(house: House) -> None:
    house.tell("elsewhere", [0], leader=1, epoch=4)
    response = now(house, request(("elsewhere", 0, batch(b"a"))))
    assert answers(response)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answers(response)[0].current_leader.leader_epoch == 4


# Waiting


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, min_isr=2)
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1])
    yield house
    house.close()


async def test_acks_all_waits_for_the_followers_as_an_applied_deferred(replicated: House) -> None:
    waiting = send(replicated, one(batch(b"a")))
    assert isinstance(waiting, Deferred)
    assert waiting.applied
    behind = send(replicated, one(batch(b"b")))
    assert isinstance(behind, Deferred)
    follower_has(replicated, 1)
    assert waiting.done
    assert not behind.done
    response = waiting.response
    assert isinstance(response, ProduceResponse)
    assert [(found.error_code, found.base_offset) for found in answers(response)] == [(0, 0)]
    follower_has(replicated, 2)
    assert behind.done


async def test_acks_one_does_not_wait_for_followers(replicated: House) -> None:
    assert codes(replicated, one(batch(b"a"), acks=1)) == [0]


async def test_too_few_replicas_are_an_error_before_and_after_the_append(replicated: House) -> None:
    waiting = send(replicated, one(batch(b"a")))
    assert isinstance(waiting, Deferred)
    replicated.lead(isr=[BROKER], replicas=[BROKER, 1], epoch=1)
    assert codes(replicated, one(batch(b"b"))) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert not waiting.done
    replicated.lead(leader=1, isr=[1], replicas=[BROKER, 1], epoch=2)
    response = waiting.response
    assert isinstance(response, ProduceResponse)
    assert answers(response)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answers(response)[0].current_leader.leader_id == 1


async def test_a_waiting_reply_keeps_neither_records_nor_a_place_once_abandoned(replicated: House) -> None:
    records = batch(b"a")
    waiting = send(replicated, one(records))
    assert isinstance(waiting, Deferred)
    gc.collect()
    assert not [other for other in gc.get_referrers(records) if isinstance(other, PartitionProduceData)]
    waiting.abandon()
    assert len(replicated.parts.signal) == 0


async def test_many_partitions_wait_together(replicated: House) -> None:
    replicated.lead("alone")
    waiting = send(replicated, request(("alone", 0, batch(b"a")), (TOPIC, 0, batch(b"b")), ("nowhere", 0, None)))
    assert isinstance(waiting, Deferred)
    follower_has(replicated, 1)
    response = waiting.response
    assert isinstance(response, ProduceResponse)
    assert [found.error_code for found in answers(response)] == [0, 0, 3]


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_reply_waits_for_the_fsync_where_every_message_is_flushed(tmp_path: Path, acks: int) -> None:
    house = House(tmp_path, flush_messages="1")
    house.lead()
    waiting = [send(house, one(batch(b"a"), acks=acks)) for _ in range(3)]
    assert all(isinstance(each, Deferred) and each.applied and not each.done for each in waiting)
    await house.run_tasks()
    assert all(isinstance(each, Deferred) and each.done for each in waiting)
    assert len(house.offloaded) == 1
    house.close()


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("several", [False, True])
async def test_no_time_is_too_short_for_the_fsync(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, acks: int, several: bool
) -> None:
    house = House(tmp_path, flush_messages="1")
    house.lead(partitions=[0, 1])
    nursery.start_soon(house.clock.run)
    more = [(TOPIC, 1, batch(b"b"))] if several else []
    waiting = send(house, request((TOPIC, 0, batch(b"a")), *more, acks=acks, timeout_ms=-1))
    await trio.sleep(60)
    assert isinstance(waiting, Deferred)
    assert not waiting.done
    await house.run_tasks()
    assert isinstance(waiting.response, ProduceResponse)
    assert {found.error_code for found in answers(waiting.response)} == {0}
    nursery.cancel_scope.cancel()
    house.close()


# Long batches


async def test_a_batch_that_takes_long_is_validated_off_the_loop_and_mutes_the_connection(house: House) -> None:
    pending = send(house, request((TOPIC, 0, big_batch()), (TOPIC, 1, batch(b"b"))))
    assert isinstance(pending, Deferred)
    assert not pending.applied
    assert [hosted(house, index).high_watermark for index in (0, 1)] == [0, 0]
    await house.run_tasks()
    assert len(house.offloaded) == 1
    response = pending.response
    assert isinstance(response, ProduceResponse)
    assert [(found.index, found.error_code, found.base_offset) for found in answers(response)] == [(0, 0, 0), (1, 0, 0)]
    assert [hosted(house, index).high_watermark for index in (0, 1)] == [1, 1]


async def test_a_long_batch_that_is_unsound_is_refused(house: House) -> None:
    pending = send(house, one(damaged(big_batch(), 57, (9).to_bytes(4, "big"))))
    assert isinstance(pending, Deferred)
    await house.run_tasks()
    response = pending.response
    assert isinstance(response, ProduceResponse)
    assert [found.error_code for found in answers(response)] == [ErrorCode.INVALID_RECORD]


async def test_a_long_batch_waits_for_followers_after_its_validation(replicated: House) -> None:
    pending = send(replicated, one(big_batch()))
    await replicated.run_tasks()
    assert isinstance(pending, Deferred)
    assert not pending.done
    follower_has(replicated, 1)
    assert pending.done


async def test_a_long_batch_for_a_topic_deleted_meanwhile_is_not_appended(house: House) -> None:
    pending = send(house, one(big_batch()))
    assert isinstance(pending, Deferred)
    partition = house.replicas.partitions.pop(TopicPartition(TOPIC, 0))
    await house.run_tasks()
    response = pending.response
    assert isinstance(response, ProduceResponse)
    assert [found.error_code for found in answers(response)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert partition.high_watermark == 0


async def test_a_long_batch_without_acks_is_appended_and_ends_the_wait(house: House) -> None:
    pending = send(house, one(big_batch(), acks=0))
    assert isinstance(pending, Deferred)
    await house.run_tasks()
    assert pending.done
    assert hosted(house).high_watermark == 1
    assert pending.response is None


async def test_a_long_batch_without_acks_that_is_unsound_closes_the_connection(house: House) -> None:
    pending = send(house, one(damaged(big_batch(), 57, (9).to_bytes(4, "big")), acks=0))
    assert isinstance(pending, Deferred)
    await house.run_tasks()
    with pytest.raises(CloseConnection):
        _ = pending.response
