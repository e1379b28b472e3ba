from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ottla.broker.replicas import partition as module
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.reads import TO_HIGH_WATERMARK, TO_LAST_STABLE_OFFSET, TO_LOG_END, ReadResult
from ottla.broker.replicas.watchers import EVERYTHING, HIGH_WATERMARK, LOG_END, NOTHING
from ottla.log.state.verification import TransactionalAppend
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import AbortedTransaction, FetchPartition
from ottla.wire.records.batch import ControlType, RecordRules, TimestampType, iter_records, validate_produced
from tests.broker.support.hosted import BROKER, NOW_MS, TOPIC, House, batch
from tests.log import building

RULES = RecordRules(False, TimestampType.CREATE_TIME, 2**62, 2**62, 1 << 20)
FOLLOWERS = (BROKER, 1, 2)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, min_isr=2)
    yield house
    house.close()


def lead(
    house: House, *, isr: Sequence[int] = (BROKER,), replicas: Sequence[int] = (BROKER,), epoch: int = 0
) -> Partition:
    house.lead(isr=isr, replicas=replicas, epoch=epoch)
    return house.replicas.partition(TOPIC, 0)


def append(partition: Partition, *values: bytes, acks: int = 1, timestamp: int = NOW_MS) -> int:
    """What moved."""
    produced = validate_produced(batch(*values, timestamp=timestamp), api_version=9, rules=RULES, now_ms=NOW_MS)
    return partition.append_as_leader(produced, acks, NOW_MS)[1]


def asked(offset: int, *, epoch: int = -1, last_epoch: int = -1) -> FetchPartition:
    return FetchPartition(
        partition=0,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=1 << 20,
    )


def read(
    partition: Partition,
    offset: int,
    how_far: int = TO_HIGH_WATERMARK,
    *,
    max_bytes: int = 1 << 20,
    at_least_one: bool = True,
    epoch: int = -1,
    last_epoch: int = -1,
    from_leader_only: bool = True,
) -> ReadResult:
    position = asked(offset, epoch=epoch, last_epoch=last_epoch)
    return partition.read(position, max_bytes, at_least_one, how_far, from_leader_only=from_leader_only)


def values(result: ReadResult) -> list[bytes | None]:
    assert isinstance(result.records, bytes | bytearray)
    from ottla.wire.records.batch import iter_batches

    return [record.value for _, found in iter_batches(memoryview(result.records)) for record in iter_records(found)]


def fetch_as(partition: Partition, broker_id: int, offset: int, now_ms: int = NOW_MS) -> int:
    """What a follower's fetch moved."""
    return partition.read_as_follower(broker_id, -1, asked(offset), 1 << 20, True, now_ms)[1]


def refused(code: ErrorCode) -> "pytest.RaisesExc[KafkaError]":
    return pytest.raises(KafkaError, check=lambda error: error.code == code)


def test_a_lone_leader_commits_its_appends_at_once(house: House) -> None:
    partition = lead(house)
    assert append(partition, b"a", b"b", acks=-1) == EVERYTHING
    assert partition.high_watermark == 2
    assert values(read(partition, 0)) == [b"a", b"b"]


def test_records_are_committed_once_all_in_sync_followers_fetch_from_after_them(house: House) -> None:
    partition = lead(house, isr=FOLLOWERS, replicas=FOLLOWERS)
    assert append(partition, b"a", acks=-1) == LOG_END
    assert fetch_as(partition, 1, 0) == HIGH_WATERMARK  # where it starts is news
    assert fetch_as(partition, 1, 1) == NOTHING
    assert read(partition, 0).size == 0
    assert fetch_as(partition, 2, 1) == HIGH_WATERMARK
    assert values(read(partition, 0)) == [b"a"]


def test_a_follower_reads_to_the_log_end_and_a_consumer_to_the_high_watermark(house: House) -> None:
    partition = lead(house, isr=FOLLOWERS, replicas=FOLLOWERS)
    append(partition, b"a")
    result, _ = partition.read_as_follower(1, -1, asked(0), 1 << 20, True, NOW_MS)
    assert values(result) == [b"a"]
    assert read(partition, 0).size == 0
    assert read(partition, 0).is_exhausted


def test_an_old_look_of_a_follower_does_not_count_as_a_new_position(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1))
    append(partition, b"a")
    assert partition.read_as_follower(1, -1, asked(1), 1 << 20, True, None)[1] == NOTHING
    assert partition.high_watermark == 0


def test_acks_all_is_refused_below_min_isr_and_acks_one_is_not(house: House) -> None:
    partition = lead(house, isr=(BROKER,), replicas=FOLLOWERS)
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        append(partition, b"a", acks=-1)
    assert append(partition, b"a", acks=1) == LOG_END
    assert partition.high_watermark == 0


def test_min_isr_of_two_does_not_bind_a_topic_of_one_replica(house: House) -> None:
    assert append(lead(house), b"a", acks=-1) == EVERYTHING


def test_an_append_that_waits_ends_when_the_high_watermark_passes(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1))
    append(partition, b"a", acks=-1)
    assert partition.acks_error(1, -1) is None
    fetch_as(partition, 1, 1)
    assert partition.acks_error(1, -1) == ErrorCode.NONE


def test_an_append_that_waits_fails_when_replicas_left_meanwhile(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1))
    append(partition, b"a", acks=-1)
    fetch_as(partition, 1, 1)
    lead(house, isr=(BROKER,), replicas=(BROKER, 1), epoch=1)
    assert partition.acks_error(1, -1) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_an_append_that_waits_fails_with_the_leadership(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1))
    append(partition, b"a", acks=-1)
    house.lead(leader=1, isr=(1,), replicas=(BROKER, 1), epoch=1)
    assert partition.acks_error(1, -1) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_appends_nothing_for_clients(house: House) -> None:
    house.lead(leader=1, isr=(1,), replicas=(BROKER, 1))
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        append(house.replicas.partition(TOPIC, 0), b"a")


def test_a_follower_serves_only_consumers_that_may_read_from_it(house: House) -> None:
    partition = lead(house)
    append(partition, b"a")
    house.lead(leader=1, isr=(1,), replicas=(BROKER, 1), epoch=1)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        read(partition, 0)
    assert values(read(partition, 0, from_leader_only=False)) == [b"a"]


def test_a_leader_epoch_fences_older_and_newer_epochs(house: House) -> None:
    partition = lead(house, epoch=5)
    append(partition, b"a")
    assert read(partition, 0, epoch=5).size > 0
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        read(partition, 0, epoch=4)
    assert read(partition, 0, epoch=-2).size > 0
    with refused(ErrorCode.UNKNOWN_LEADER_EPOCH):
        read(partition, 0, epoch=6)
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        partition.offset_for_timestamp(-1, TO_HIGH_WATERMARK, 4, from_leader_only=True)


def test_a_broker_that_is_no_replica_cannot_fetch_as_one(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1), epoch=5)
    append(partition, b"a")
    for broker_id in (BROKER, 2):
        with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
            fetch_as(partition, broker_id, 1)
        with refused(ErrorCode.UNKNOWN_LEADER_EPOCH):
            partition.read_as_follower(broker_id, -1, asked(1, epoch=5), 100, True, NOW_MS)
    assert partition.high_watermark == 0


def test_reading_below_the_start_or_above_the_end_is_out_of_range(house: House) -> None:
    partition = lead(house)
    append(partition, b"a", b"b")
    for offset in (-1, 3):
        with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
            read(partition, offset)
    assert read(partition, 2).size == 0


def test_reading_between_high_watermark_and_log_end_gives_nothing_and_no_error(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1))
    append(partition, b"a", b"b")
    assert read(partition, 1).error == ErrorCode.NONE
    assert read(partition, 1).size == 0


def test_one_batch_is_read_however_small_the_limit_unless_there_are_others(house: House) -> None:
    partition = lead(house)
    append(partition, b"a" * 1000)
    assert read(partition, 0, max_bytes=1).size > 1000
    assert read(partition, 0, max_bytes=0, at_least_one=True).size > 1000
    for max_bytes in (0, 1):
        nothing = read(partition, 0, max_bytes=max_bytes, at_least_one=False)
        assert nothing.size == 0
        assert not nothing.is_exhausted
    with refused(ErrorCode.UNKNOWN_SERVER_ERROR):
        read(partition, 0, max_bytes=-1)


def test_a_reader_of_another_history_is_told_where_it_diverges(house: House) -> None:
    partition = lead(house, epoch=3)
    append(partition, b"a", b"b")
    lead(house, epoch=5)
    append(partition, b"c")
    assert read(partition, 3, last_epoch=5).diverging_epoch is None
    assert read(partition, 2, last_epoch=3).diverging_epoch is None
    assert read(partition, 3, last_epoch=3).diverging_epoch == (3, 2)
    assert read(partition, 3, last_epoch=4).diverging_epoch == (3, 2)
    assert read(partition, 3, last_epoch=4).size == 0
    assert read(partition, 1, last_epoch=-2).diverging_epoch is None
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        read(partition, 3, last_epoch=6)


def test_a_diverging_follower_moves_no_high_watermark(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1), epoch=3)
    append(partition, b"a")
    lead(house, isr=(BROKER, 1), replicas=(BROKER, 1), epoch=5)
    append(partition, b"b")
    result, moved = partition.read_as_follower(1, -1, asked(2, last_epoch=4), 100, True, NOW_MS)
    assert result.diverging_epoch == (3, 1)
    assert moved == NOTHING
    assert partition.high_watermark == 0


def test_an_open_transaction_bounds_read_committed_readers(house: House) -> None:
    partition = lead(house)
    append(partition, b"a")
    produced = validate_produced(
        batch(b"t", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        api_version=9,
        rules=RULES,
        now_ms=NOW_MS,
    )
    partition.append_as_leader(produced, 1, NOW_MS)
    append(partition, b"b")
    assert partition.last_stable_offset == 1
    assert values(read(partition, 0, TO_LAST_STABLE_OFFSET)) == [b"a"]
    assert read(partition, 1, TO_LAST_STABLE_OFFSET).size == 0
    assert values(read(partition, 0)) == [b"a", b"t", b"b"]


def test_a_marker_ends_a_transaction_for_readers_once_the_in_sync_followers_have_it(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1))
    guard = partition.start_verification(7, 0, 0, False, NOW_MS)
    begun = building.produced(producer_id=7, transactional=True)
    partition.append_as_leader(begun, -1, NOW_MS, TransactionalAppend(guard=guard))
    assert partition.start_verification(7, 1, 0, False, NOW_MS) is None
    abort = building.marker(7, ControlType.ABORT)
    info, moved = partition.append_as_leader(abort, -1, NOW_MS, TransactionalAppend())
    assert (info.first_offset, moved) == (1, LOG_END)
    partition.read_as_follower(1, -1, asked(1), 1000, True, NOW_MS)
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    _, moved = partition.read_as_follower(1, -1, asked(2), 1000, True, NOW_MS)
    assert moved == HIGH_WATERMARK
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)
    result = read(partition, 0, TO_LAST_STABLE_OFFSET)
    assert result.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]


def test_only_a_leader_starts_a_verification(house: House) -> None:
    partition = lead(house)
    assert partition.start_verification(7, 0, 0, False, NOW_MS) is not None
    house.lead(leader=1, isr=(1,), replicas=(BROKER, 1), epoch=1)
    with pytest.raises(KafkaError) as refused:
        partition.start_verification(7, 0, 0, False, NOW_MS)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.make_offline()
    with pytest.raises(KafkaError) as refused:
        partition.start_verification(7, 0, 0, False, NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("is_in_worker", [False, True])
def test_an_append_needs_the_guard_of_its_verification(house: House, is_in_worker: bool) -> None:
    partition = lead(house)
    guard = partition.start_verification(7, 0, 0, False, NOW_MS)
    put = partition.begin_append if is_in_worker else partition.append_as_leader
    begun = building.produced(producer_id=7, transactional=True)
    with pytest.raises(KafkaError) as refused:
        put(begun, 1, NOW_MS, TransactionalAppend())
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    put(begun, 1, NOW_MS, TransactionalAppend(guard=guard))


def test_special_timestamps_point_to_ends_of_the_log(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1), epoch=4)
    append(partition, b"a", b"b")
    fetch_as(partition, 1, 2)
    append(partition, b"c")

    def find(timestamp: int, how_far: int = TO_HIGH_WATERMARK) -> tuple[int, int, int] | None:
        return partition.offset_for_timestamp(timestamp, how_far, -1, from_leader_only=True)

    assert find(module.LATEST_TIMESTAMP) == (-1, 2, 4)
    assert find(module.LATEST_TIMESTAMP, TO_LOG_END) == (-1, 3, 4)
    assert find(module.EARLIEST_TIMESTAMP) == (-1, 0, 4)
    assert find(module.EARLIEST_LOCAL_TIMESTAMP) == (-1, 0, 4)
    assert find(module.LATEST_TIERED_TIMESTAMP) == (-1, -1, -1)


def test_timestamps_are_looked_up_among_committed_records(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1))
    append(partition, b"a", timestamp=1000)
    append(partition, b"b", timestamp=3000)
    fetch_as(partition, 1, 2)
    append(partition, b"c", timestamp=2000)
    append(partition, b"d", timestamp=9000)

    def find(timestamp: int) -> tuple[int, int, int] | None:
        return partition.offset_for_timestamp(timestamp, TO_HIGH_WATERMARK, -1, from_leader_only=True)

    assert find(0) == (1000, 0, 0)
    assert find(1001) == (3000, 1, 0)
    assert find(3001) is None
    assert find(module.MAX_TIMESTAMP) is None
    fetch_as(partition, 1, 4)
    assert find(3001) == (9000, 3, 0)
    assert find(module.MAX_TIMESTAMP) == (9000, 3, 0)


def test_a_new_leader_returns_no_offset_below_its_predecessors_high_watermark(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1))
    append(partition, b"a")
    house.lead(leader=1, isr=(BROKER, 1), replicas=(BROKER, 1), epoch=1)
    lead(house, isr=(BROKER, 1), replicas=(BROKER, 1), epoch=2)
    with refused(ErrorCode.OFFSET_NOT_AVAILABLE):
        partition.offset_for_timestamp(-1, TO_HIGH_WATERMARK, -1, from_leader_only=True)
    assert partition.offset_for_timestamp(-1, TO_LOG_END, -1, from_leader_only=True) == (-1, 1, 2)
    fetch_as(partition, 1, 1)
    assert partition.offset_for_timestamp(-1, TO_HIGH_WATERMARK, -1, from_leader_only=True) == (-1, 1, 2)


def test_the_saved_high_watermark_is_kept_within_the_log(house: House) -> None:
    partition = lead(house, isr=(BROKER, 1), replicas=(BROKER, 1))
    append(partition, b"a", b"b")
    for saved, expected in ((1, 1), (9, 2), (-1, 0)):
        again = Partition(
            partition.topic_partition,
            partition.log,
            RULES,
            broker_id=BROKER,
            max_lag_ms=1,
            high_watermark=saved,
            is_alive=lambda broker_id: True,
        )
        assert again.high_watermark == expected


def test_a_role_of_an_older_partition_epoch_is_not_taken(house: House) -> None:
    partition = lead(house, epoch=5)
    partition.partition_epoch = 9
    lead(house, isr=(BROKER, 1), replicas=(BROKER, 1), epoch=6)
    assert partition.leader_epoch == 5
    assert not partition.followers


def test_an_offline_partition_answers_with_a_storage_error_only(house: House) -> None:
    partition = lead(house)
    append(partition, b"a")
    partition.make_offline()
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        append(partition, b"b")
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        read(partition, 0)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        read(partition, 0, epoch=77)
    assert partition.acks_error(1, -1) == ErrorCode.KAFKA_STORAGE_ERROR
    lead(house, epoch=1)
    assert not partition.is_leader
