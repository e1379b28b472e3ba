"""The batches of a fetch response that consumers may read."""

import pytest

from ottla.client.consuming.chunks import Chunk, readable
from ottla.wire.messages.fetch import AbortedTransaction
from ottla.wire.records.batch import ControlType, CorruptBatch, NewRecord, build_batch, build_control_batch
from ottla.wire.types import TopicPartition

T0 = TopicPartition("t", 0)


def data(base: int, *values: bytes, producer: int = -1) -> bytearray:
    records = [NewRecord(value=value, timestamp=1) for value in values]
    return build_batch(records, base_offset=base, producer_id=producer, transactional=producer >= 0)


def marker(base: int, kind: ControlType, producer: int) -> bytearray:
    return build_control_batch(
        kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=base
    )


def read(*batches: bytearray, start: int = 0, aborted: list[tuple[int, int]] | None = None) -> tuple[list[bytes], int]:
    """Return the values, and the offset after them."""
    transactions = None
    if aborted is not None:
        transactions = [AbortedTransaction(producer_id=each, first_offset=first) for each, first in aborted]
    found, following = readable(memoryview(b"".join(batches)), start, transactions)
    chunk = Chunk(T0, start, following, following, found, 0)
    return [record.value or b"" for _, record in chunk.records()], following


def test_reading_begins_in_the_middle_of_a_batch() -> None:
    assert read(data(5, b"5", b"6", b"7"), data(8, b"8"), start=6) == ([b"6", b"7", b"8"], 9)


def test_a_truncated_batch_is_left_for_the_next_fetch() -> None:
    assert read(data(0, b"0"), data(1, b"1")[:-1]) == ([b"0"], 1)


def test_markers_are_not_records() -> None:
    assert read(data(0, b"0", producer=1), marker(1, ControlType.COMMIT, 1), aborted=[]) == ([b"0"], 2)


def test_records_of_aborted_transactions_are_left_out_up_to_their_markers() -> None:
    batches = (
        data(0, b"aborted", producer=1),
        data(1, b"other", producer=2),
        data(2, b"plain"),
        marker(3, ControlType.ABORT, 1),
        data(4, b"later", producer=1),
        marker(5, ControlType.COMMIT, 1),
        data(6, b"aborted again", producer=1),
    )
    assert read(*batches, aborted=[(1, 6), (1, 0)]) == ([b"other", b"plain", b"later"], 7)
    assert len(read(*batches)[0]) == 5


def test_an_aborted_transaction_that_begins_before_the_fetched_batches_is_left_out() -> None:
    assert read(data(7, b"x", producer=1), marker(8, ControlType.ABORT, 1), start=7, aborted=[(1, 2)]) == ([], 9)


def test_a_batch_that_was_changed_is_refused() -> None:
    batch = data(0, b"value")
    batch[-2] ^= 1
    with pytest.raises(CorruptBatch):
        read(batch)
