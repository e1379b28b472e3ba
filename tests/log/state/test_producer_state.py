from pathlib import Path

import pytest
from crc32c import crc32c

from ottla.log.state.producer_snapshot import CorruptSnapshotError, SnapshotEntry, decode_snapshot, encode_snapshot
from ottla.log.state.producer_state import ProducerState
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import BatchHeader
from tests.log.building import NOW_MS, marker, produced

pytestmark = pytest.mark.once

MAX_SEQUENCE = 2**31 - 1
PRODUCER = 77


def _header(count: int = 1, sequence: int = 0, epoch: int = 0, transactional: bool = False) -> BatchHeader:
    return produced(count, producer_id=PRODUCER, epoch=epoch, sequence=sequence, transactional=transactional).header


def _append(state: ProducerState, header: BatchHeader) -> None:
    assert state.check(header) is None
    state.update(header, state.end_offset, NOW_MS)
    state.end_offset += header.last_offset_delta + 1


def _state(directory: Path, *headers: BatchHeader) -> ProducerState:
    state = ProducerState(directory)
    for header in headers:
        _append(state, header)
    return state


def _refusal(state: ProducerState, header: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        state.check(header)
    return refused.value.code


@pytest.mark.parametrize("sequence", [0, 1, 12345, MAX_SEQUENCE])
def test_an_unknown_producer_may_start_at_any_sequence(tmp_path: Path, sequence: int) -> None:
    assert _state(tmp_path).check(_header(3, sequence)) is None


def test_an_unknown_producer_needs_an_epoch_of_minus_one_or_more(tmp_path: Path) -> None:
    assert _state(tmp_path).check(_header(epoch=-1)) is None
    assert _refusal(_state(tmp_path), _header(epoch=-2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_without_an_epoch_may_use_any_sequence(tmp_path: Path) -> None:
    state = _state(tmp_path, _header(2, 7, epoch=-1))
    assert state.check(_header(1, 4, epoch=-1)) is None
    assert state.check(_header(1, 4, epoch=0)) is None
    duplicate = state.check(_header(2, 7, epoch=-1))
    assert duplicate is not None
    assert duplicate.first_offset == 0


@pytest.mark.parametrize("sequence", [0, 1, 3, 4, 6, 100])
def test_a_gap_or_a_step_back_is_refused(tmp_path: Path, sequence: int) -> None:
    state = _state(tmp_path, _header(3), _header(2, 3))
    assert _refusal(state, _header(4, sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(_header(4, 5)) is None


@pytest.mark.parametrize(
    ("last", "following"),
    [(MAX_SEQUENCE, 0), (MAX_SEQUENCE - 1, MAX_SEQUENCE), (0, 1), (MAX_SEQUENCE - 2, MAX_SEQUENCE - 1)],
)
def test_sequences_wrap_to_zero(tmp_path: Path, last: int, following: int) -> None:
    state = _state(tmp_path, _header(1, last))
    assert state.check(_header(1, following)) is None
    assert _refusal(state, _header(1, (following + 1) & MAX_SEQUENCE)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_batch_across_the_wrap_is_recognised(tmp_path: Path) -> None:
    across = _header(10, MAX_SEQUENCE - 4)
    state = _state(tmp_path, across)
    assert across.last_sequence == 4
    duplicate = state.check(across)
    assert duplicate is not None
    assert (duplicate.first_offset, duplicate.last_offset) == (0, 9)
    assert state.check(_header(1, 5)) is None


def test_the_last_five_batches_are_recognised_and_older_ones_refused(tmp_path: Path) -> None:
    headers = [_header(2, 2 * number) for number in range(7)]
    state = _state(tmp_path, *headers)
    for number, header in enumerate(headers):
        if number < 2:
            assert _refusal(state, header) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            duplicate = state.check(header)
            assert duplicate is not None
            assert (duplicate.first_offset, duplicate.last_offset) == (2 * number, 2 * number + 1)


def test_a_batch_of_other_bounds_is_no_duplicate(tmp_path: Path) -> None:
    state = _state(tmp_path, _header(5), _header(5, 5))
    for header in (_header(4, 5), _header(6, 5), _header(10, 0), _header(4, 6)):
        assert _refusal(state, header) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_fenced_even_with_a_sequence_seen(tmp_path: Path) -> None:
    state = _state(tmp_path, _header(epoch=3))
    assert _refusal(state, _header(epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert _refusal(state, _header(sequence=1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_zero_and_forgets_old_batches(tmp_path: Path) -> None:
    state = _state(tmp_path, _header(5), _header(5, 5))
    assert _refusal(state, _header(1, 10, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    _append(state, _header(5, 0, epoch=1))
    assert _refusal(state, _header(5, 5)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(_header(5, 5, epoch=1)) is None
    assert len(state.entries[PRODUCER].batches) == 1


def test_a_transaction_is_open_from_its_first_batch_to_its_marker(tmp_path: Path) -> None:
    state = _state(tmp_path, _header(5), _header(5, 5, transactional=True), _header(5, 10, transactional=True))
    assert state.first_unstable_offset(NOW_MS) == 5
    assert _refusal(state, _header(1, 15)) is ErrorCode.INVALID_TXN_STATE
    state.remove_expired(NOW_MS * 2)
    assert state.first_unstable_offset(NOW_MS) == 5
    commit = marker(PRODUCER, coordinator_epoch=4, timestamp=NOW_MS + 9)
    state.check_marker(commit.header, commit.data, 0)
    assert state.end_transaction(commit.header, commit.data, 15) is None
    assert state.first_unstable_offset(15) == 5
    assert state.first_unstable_offset(16) is None
    entry = state.entries[PRODUCER]
    assert (entry.coordinator_epoch, entry.last_timestamp, entry.last_sequence) == (4, NOW_MS + 9, 14)
    assert state.check(_header(1, 15)) is None


def test_a_silent_producer_expires(tmp_path: Path) -> None:
    state = ProducerState(tmp_path, expiration_ms=1000)
    _append(state, _header())
    state.remove_expired(NOW_MS + 999)
    assert PRODUCER in state.entries
    state.remove_expired(NOW_MS + 1000)
    assert PRODUCER not in state.entries
    assert state.check(_header(1, 50)) is None


def test_a_take_over_leaves_the_producers_of_the_other_log(tmp_path: Path) -> None:
    other = _state(tmp_path, _header(2))
    state = _state(tmp_path, _header(2))
    _append(state, _header(2, 2, transactional=True))
    state.update(produced(producer_id=5).header, 4, NOW_MS)
    state.take_over(other)
    assert set(state.entries) == {PRODUCER}
    assert state.entries[PRODUCER].last_sequence == 1
    assert state.first_unstable_offset(NOW_MS) is None


# Snapshots


def test_a_snapshot_has_the_layout_of_kafka() -> None:
    data = encode_snapshot([SnapshotEntry(1, 2, 3, 4, 5, 6, 7, -1)])
    body = bytes.fromhex(
        "000000010000000000000001000200000003000000000000000400000005000000000000000600000007ffffffffffffffff"
    )
    assert data == b"\0\1" + crc32c(body).to_bytes(4, "big") + body
    assert decode_snapshot(data) == [SnapshotEntry(1, 2, 3, 4, 5, 6, 7, -1)]
    assert decode_snapshot(encode_snapshot([])) == []


def test_a_damaged_snapshot_is_refused() -> None:
    data = encode_snapshot([SnapshotEntry(1, 2, 3, 4, 5, 6, 7, -1), SnapshotEntry(2, 0, 0, 0, 0, 0, -1, 9)])
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(data[:length])
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(bytes(flipped))


def test_state_is_loaded_from_its_snapshot(tmp_path: Path) -> None:
    state = _state(tmp_path, _header(5), _header(5, 5, transactional=True))
    path = state.take_snapshot(sync=True)
    assert path == tmp_path / "00000000000000000010.snapshot"
    assert state.take_snapshot(sync=True) is None
    again = ProducerState(tmp_path)
    again.truncate_and_reload(0, 10, NOW_MS)
    assert again.end_offset == 10
    assert again.first_unstable_offset(NOW_MS) == 5
    assert again.entries[PRODUCER].to_snapshot() == state.entries[PRODUCER].to_snapshot()
    duplicate = again.check(_header(5, 5, transactional=True))
    assert duplicate is not None
    assert duplicate.first_offset == 5
    assert _refusal(again, _header(5, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_snapshot_replaces_a_damaged_one(tmp_path: Path) -> None:
    state = _state(tmp_path, _header(5))
    state.take_snapshot(sync=False)
    _append(state, _header(5, 5))
    newest = state.take_snapshot(sync=False)
    assert newest is not None
    newest.write_bytes(newest.read_bytes()[:-1])
    again = ProducerState(tmp_path)
    again.truncate_and_reload(0, 20, NOW_MS)
    assert again.end_offset == 5
    assert again.entries[PRODUCER].last_sequence == 4
    assert not newest.exists()


def test_snapshots_outside_the_log_and_expired_producers_are_not_loaded(tmp_path: Path) -> None:
    state = _state(tmp_path, _header(5))
    state.take_snapshot(sync=False)
    _append(state, _header(5, 5))
    state.take_snapshot(sync=False)
    again = ProducerState(tmp_path)
    again.truncate_and_reload(0, 9, NOW_MS)
    assert (again.end_offset, again.snapshot_offsets) == (5, (5,))
    expired = ProducerState(tmp_path)
    expired.truncate_and_reload(0, 9, NOW_MS + 86_400_000)
    assert (expired.end_offset, dict(expired.entries)) == (5, {})
    nothing = ProducerState(tmp_path)
    nothing.truncate_and_reload(5, 9, NOW_MS)
    assert (nothing.end_offset, nothing.snapshot_offsets) == (5, ())


@pytest.mark.parametrize(
    ("there", "bases", "kept"),
    [
        ([3, 5, 9], [0, 5], (5, 9)),
        ([3, 4], [0, 5], ()),
        ([3, 7, 9], [0, 5], (9,)),
        ([5], [0, 5], (5,)),
        ([], [0], ()),
    ],
)
def test_stray_snapshots_are_deleted_but_for_the_newest_behind_the_last_segment(
    tmp_path: Path, there: list[int], bases: list[int], kept: tuple[int, ...]
) -> None:
    for offset in there:
        (tmp_path / f"{offset:020d}.snapshot").write_bytes(encode_snapshot([]))
    state = ProducerState(tmp_path)
    state.remove_stray_snapshots(bases)
    assert state.snapshot_offsets == kept
    assert tuple(sorted(int(path.stem) for path in tmp_path.iterdir())) == kept
