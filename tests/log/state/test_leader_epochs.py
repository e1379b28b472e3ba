from pathlib import Path

import pytest

from ottla.log.state.leader_epochs import EpochEndOffset, LeaderEpochs


def _epochs(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(tmp_path)
    for epoch, offset in entries:
        epochs.assign(epoch, offset)
    return epochs


def _kept(tmp_path: Path) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in LeaderEpochs(tmp_path).entries]


@pytest.mark.parametrize(
    ("assigned", "kept"),
    [
        ([(0, 0), (1, 10), (5, 20)], [(0, 0), (1, 10), (5, 20)]),
        ([(2, 0), (2, 10)], [(2, 0)]),
        ([(2, 10), (2, 5)], [(2, 5)]),
        ([(1, 0), (2, 10), (3, 10)], [(1, 0), (3, 10)]),
        ([(1, 0), (2, 10), (3, 5)], [(1, 0), (3, 5)]),
        ([(1, 0), (5, 10), (3, 20)], [(1, 0), (3, 20)]),
    ],
)
def test_a_new_entry_drops_contradicting_entries(
    tmp_path: Path, assigned: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    epochs = _epochs(tmp_path, *assigned)
    assert [(entry.epoch, entry.start_offset) for entry in epochs.entries] == kept == _kept(tmp_path)
    assert epochs.latest == kept[-1][0]


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1)])
def test_negative_epochs_and_offsets_are_refused(tmp_path: Path, epoch: int, offset: int) -> None:
    with pytest.raises(ValueError, match="epoch"):
        _epochs(tmp_path, (epoch, offset))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (2, 20)), (5, (5, 33)), (6, (-1, -1))],
)
def test_an_epoch_ends_at_the_start_of_the_next_known_epoch(
    tmp_path: Path, asked: int, answer: tuple[int, int]
) -> None:
    epochs = _epochs(tmp_path, (2, 10), (5, 20))
    assert epochs.end_offset_for(asked, 33) == EpochEndOffset(*answer)


def test_without_epochs_no_end_is_known(tmp_path: Path) -> None:
    assert _epochs(tmp_path).end_offset_for(0, 10) == EpochEndOffset(-1, -1)
    assert _epochs(tmp_path).end_offset_for(-1, 10) == EpochEndOffset(-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (19, 2), (20, 5), (100, 5)])
def test_each_offset_has_its_epoch(tmp_path: Path, offset: int, epoch: int) -> None:
    assert _epochs(tmp_path, (2, 10), (5, 20)).epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("end", "kept"), [(10, []), (11, [(2, 10)]), (20, [(2, 10)]), (21, [(2, 10), (5, 20)]), (0, [])]
)
def test_truncating_from_the_end_drops_epochs_that_start_there(
    tmp_path: Path, end: int, kept: list[tuple[int, int]]
) -> None:
    epochs = _epochs(tmp_path, (2, 10), (5, 20))
    epochs.truncate_from_end(end)
    assert _kept(tmp_path) == kept
    assert epochs.latest == (kept[-1][0] if kept else -1)


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        (5, [(2, 10), (5, 20), (7, 30)]),
        (10, [(2, 10), (5, 20), (7, 30)]),
        (15, [(2, 15), (5, 20), (7, 30)]),
        (20, [(5, 20), (7, 30)]),
        (25, [(5, 25), (7, 30)]),
        (99, [(7, 99)]),
    ],
)
def test_truncating_from_the_start_moves_the_first_epoch(
    tmp_path: Path, start: int, kept: list[tuple[int, int]]
) -> None:
    epochs = _epochs(tmp_path, (2, 10), (5, 20), (7, 30))
    epochs.truncate_from_start(start)
    assert _kept(tmp_path) == kept


def test_clearing_drops_all_epochs(tmp_path: Path) -> None:
    epochs = _epochs(tmp_path, (2, 10))
    epochs.clear()
    assert epochs.entries == ()
    assert epochs.latest == -1
    assert _kept(tmp_path) == []
    epochs.assign(0, 0)
    assert _kept(tmp_path) == [(0, 0)]
