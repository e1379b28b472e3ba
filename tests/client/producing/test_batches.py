"""Batches keep their order and their sequences after failures."""

import random

import pytest

from ottla.client.producing.batches import Batch, Delivery, PartitionQueue, size_alone, size_of
from ottla.wire.records.batch import HEADER_SIZE, NewRecord, build_batch


def queue_of(*values: bytes) -> PartitionQueue:
    """Return a queue with a batch for each value."""
    queue = PartitionQueue("t", 0)
    for value in values:
        batch = Batch(0.0)
        batch.records.append(NewRecord(value=value))
        batch.completions.append(None)
        queue.queue.append(batch)
    return queue


def values(queue: PartitionQueue) -> list[bytes | None]:
    return [record.value for batch in queue.queue for record in batch.records]


def test_batches_that_fail_go_back_in_their_order_when_nothing_is_in_flight() -> None:
    queue = queue_of(b"1", b"2", b"3", b"4")
    first, second, third = (queue.take(with_sequence=True) for _ in range(3))
    for batch in (third, first):
        queue.send_again(batch)
        queue.landed()
    assert not queue.may_send(5)
    queue.acknowledge(second)
    queue.landed()
    assert values(queue) == [b"1", b"3", b"4"]
    assert [batch.sequence for batch in queue.queue] == [0, 2, -1]
    assert queue.may_send(5)


def test_a_gap_in_the_sequence_begins_a_new_epoch_for_later_batches() -> None:
    queue = queue_of(b"1", b"2", b"3")
    first, second = (queue.take(with_sequence=True) for _ in range(2))
    queue.break_sequence()  # the first batch has failed for good
    queue.landed()
    assert queue.epoch(7) == 7
    queue.send_again(second)
    queue.landed()
    assert queue.epoch(7) == 8
    assert [queue.take(with_sequence=True).sequence for _ in range(2)] == [0, 1]
    assert first.sequence == 0


def test_a_batch_is_next_when_all_before_it_are_acknowledged() -> None:
    queue = queue_of(b"1", b"2")
    first, second = (queue.take(with_sequence=True) for _ in range(2))
    assert queue.is_next(first)
    assert not queue.is_next(second)
    queue.acknowledge(first)
    assert queue.is_next(second)


def test_an_epoch_is_not_exceeded() -> None:
    queue = queue_of()
    queue.epochs = 1
    assert queue.epoch(0x7FFE) == 0x7FFF
    with pytest.raises(OverflowError):
        queue.epoch(0x7FFF)


def test_batches_that_are_too_old_leave_the_queue() -> None:
    queue = queue_of(b"1", b"2")
    queue.queue[1].created = 5.0
    assert [batch.records[0].value for batch in queue.expired(4.0)] == [b"1"]
    assert values(queue) == [b"2"]
    assert queue.epochs == 0  # the batch had no sequence yet


def test_a_batch_that_was_sent_and_is_too_old_breaks_the_sequence() -> None:
    queue = queue_of(b"1")
    queue.send_again(queue.take(with_sequence=True))
    queue.landed()
    queue.expired(1.0)
    assert queue.epochs == 1


def test_halves_hold_the_records_and_the_sequences_of_the_whole() -> None:
    batch = Batch(0.0)
    for number in range(5):
        batch.records.append(NewRecord(value=b"%d" % number))
        batch.completions.append(None)
    batch.sequence = 10
    one, other = batch.halves()
    assert [record.value for record in (*one.records, *other.records)] == [b"0", b"1", b"2", b"3", b"4"]
    assert (one.sequence, other.sequence) == (10, 12)
    assert batch.order < one.order < other.order < Batch(0.0).order


def test_a_record_is_never_larger_than_its_estimated_size() -> None:
    for _ in range(200):
        key, value = (random.choice([None, random.randbytes(random.randrange(300))]) for _ in range(2))
        headers = [("é" * random.randrange(70), random.choice([None, random.randbytes(9)])) for _ in range(3)]
        batch = build_batch([NewRecord(key, value, 1, headers)])
        assert len(batch) <= HEADER_SIZE + size_of(key, value, headers)


def test_a_single_record_has_the_estimated_size_of_kafkas_client() -> None:
    assert size_alone(None, bytes(1_100_000), []) == 1_100_088
    assert size_alone(b"k", bytes(100), [("é", None)]) == 61 + 21 + 2 + 102 + 1 + 3 + 1


def test_completions_get_the_places_of_their_records() -> None:
    batch = Batch(0.0)
    found: list[Delivery] = []
    for number in range(2):
        batch.records.append(NewRecord(timestamp=number))
        batch.completions.append(found.append)
    batch.complete("t", 3, 40, -1, None)
    batch.complete("t", 3, -1, 9, None)
    assert found == [Delivery("t", 3, 40, 0), Delivery("t", 3, 41, 1), Delivery("t", 3, -1, 9), Delivery("t", 3, -1, 9)]
