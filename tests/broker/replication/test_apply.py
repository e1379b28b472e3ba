from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.watchers import EVERYTHING, HIGH_WATERMARK, LOG_END, NOTHING
from ottla.broker.replication import apply as following
from ottla.log.append_info import UnexpectedAppendOffsetError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch_header import place
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch

EPOCH = 3


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    house.lead(epoch=EPOCH, leader=1, replicas=[0, 1], isr=[0, 1])
    yield house
    house.close()


@pytest.fixture
def partition(house: House) -> Partition:
    return house.replicas.partition(TOPIC, 0)


def sent(offset: int, *values: bytes, epoch: int = EPOCH) -> memoryview:
    records = memoryview(bytearray(batch(*values)))
    place(records, offset, epoch)
    return records


def append(partition: Partition, records: memoryview, high_watermark: int, start: int = 0, epoch: int = EPOCH) -> int:
    return following.append(partition, epoch, records, high_watermark, start, NOW_MS)


def test_the_high_watermark_is_the_leaders_up_to_the_log_end(partition: Partition) -> None:
    assert append(partition, sent(0, b"a", b"b"), 9) == LOG_END | HIGH_WATERMARK
    assert partition.high_watermark == 2
    assert append(partition, sent(2, b"c"), 2) == LOG_END
    assert append(partition, memoryview(b""), 2) == NOTHING
    assert append(partition, memoryview(b""), 3) == HIGH_WATERMARK
    assert partition.high_watermark == 3
    append(partition, memoryview(b""), 1)
    assert partition.high_watermark == 1


def test_the_log_starts_where_the_leaders_does_but_not_above_the_high_watermark(partition: Partition) -> None:
    append(partition, sent(0, b"a", b"b", b"c"), 2, start=1)
    assert partition.log.log_start_offset == 1
    append(partition, memoryview(b""), 2, start=3)
    assert (partition.log.log_start_offset, partition.high_watermark) == (2, 2)
    append(partition, memoryview(b""), 0, start=0)
    assert (partition.log.log_start_offset, partition.high_watermark) == (2, 2)


def test_truncating_lowers_the_high_watermark(partition: Partition) -> None:
    append(partition, sent(0, b"a"), 1)
    append(partition, sent(1, b"b"), 2)
    assert following.truncate(partition, EPOCH, 1) == EVERYTHING
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 1)
    assert following.start_at(partition, EPOCH, 7) == EVERYTHING
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == (7, 7, 7)


def test_records_from_before_the_end_are_refused_in_a_log_that_holds_some(partition: Partition) -> None:
    append(partition, sent(0, b"a", b"b"), 2)
    with pytest.raises(UnexpectedAppendOffsetError):
        append(partition, sent(1, b"x", b"y"), 3)
    following.start_at(partition, EPOCH, 5)
    with pytest.raises(UnexpectedAppendOffsetError):
        append(partition, sent(2, b"x"), 3)
    append(partition, sent(4, b"x", b"y"), 6, start=5)
    assert (partition.log.log_start_offset, partition.log.log_end_offset, partition.high_watermark) == (5, 6, 6)


def test_nothing_is_done_in_another_leader_epoch_nor_by_a_leader_nor_offline(
    house: House, partition: Partition
) -> None:
    def refused(epoch: int) -> bool:
        before = partition.log.log_end_offset, partition.high_watermark
        steps: list[Callable[[], int]] = [
            lambda: append(partition, sent(before[0], b"b"), 9, epoch=epoch),
            lambda: following.truncate(partition, epoch, 0),
            lambda: following.start_at(partition, epoch, 5),
        ]
        for step in steps:
            with pytest.raises(KafkaError) as caught:
                step()
            assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        return before == (partition.log.log_end_offset, partition.high_watermark)

    append(partition, sent(0, b"a"), 1)
    assert refused(EPOCH - 1)
    assert refused(EPOCH + 1)
    house.lead(epoch=EPOCH + 1, replicas=[0, 1], isr=[0, 1])
    assert refused(EPOCH + 1)
    house.lead(epoch=EPOCH + 2, leader=1, replicas=[0, 1], isr=[0, 1])
    partition.make_offline()
    assert refused(EPOCH + 2)
