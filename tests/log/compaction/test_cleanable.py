"""Which part of a log is cleaned, and when."""

from typing import NamedTuple

import pytest

from ottla.log.compaction.cleanable import find_dirt, first_dirty_offset
from ottla.log.compaction.cleaner import CleaningJob, SourceSegment, group_segments

NEVER = 2**63 - 1
NOW_MS = 1_000_000


class Facts(NamedTuple):
    base_offset: int
    size: int = 100
    max_timestamp: int = 0
    first: int = 1

    def first_timestamp(self) -> int:
        return self.first


def dirt(
    *segments: Facts, first: int = 0, stable: int = 1000, min_lag_ms: int = 0, max_lag_ms: int = NEVER
) -> tuple[int, ...]:
    found = find_dirt(segments, first, stable, min_lag_ms=min_lag_ms, max_lag_ms=max_lag_ms, now_ms=NOW_MS)
    return found.first_uncleanable_offset, found.clean_bytes, found.cleanable_bytes, found.overdue_ms


FOUR = (Facts(0), Facts(10), Facts(20), Facts(30))


@pytest.mark.parametrize(
    ("first", "stable", "expected"),
    [
        (0, 1000, (30, 0, 300)),
        (10, 1000, (30, 100, 200)),
        (20, 1000, (30, 200, 100)),
        (30, 1000, (30, 300, 0)),
        # Within a segment, which counts as clean and as dirty.
        (15, 1000, (30, 200, 200)),
        (0, 30, (30, 0, 300)),
        (0, 29, (20, 0, 200)),
        (0, 20, (20, 0, 200)),
        (0, 5, (0, 0, 0)),
        (20, 12, (20, 200, 0)),
        (35, 1000, (30, 400, 0)),
    ],
)
def test_whole_segments_are_cleaned_up_to_the_active_one_and_the_last_stable_offset(
    first: int, stable: int, expected: tuple[int, int, int]
) -> None:
    assert dirt(*FOUR, first=first, stable=stable)[:3] == expected


def test_a_log_of_one_segment_is_not_dirty() -> None:
    assert dirt(Facts(0)) == (0, 0, 0, 0)
    assert not find_dirt([Facts(0)], 0, 9, min_lag_ms=0, max_lag_ms=1, now_ms=NOW_MS).is_due(0.0)


def test_segments_with_records_younger_than_the_minimal_lag_are_not_cleaned() -> None:
    segments = (
        Facts(0, max_timestamp=NOW_MS),
        Facts(10, max_timestamp=NOW_MS - 50),
        Facts(20, max_timestamp=1),
        Facts(30),
    )
    assert dirt(*segments, min_lag_ms=50)[0] == 0
    # Clean segments do not count.
    assert dirt(*segments, first=10, min_lag_ms=50)[:3] == (30, 100, 200)
    assert dirt(*segments, first=10, min_lag_ms=51)[:3] == (10, 100, 0)


def test_a_log_is_due_by_its_ratio_or_by_an_overdue_record() -> None:
    def found(first: int, max_lag_ms: int) -> tuple[float, int, bool]:
        segments = [Facts(0, 300, first=1), Facts(10, 100, first=NOW_MS - 70), Facts(20, first=-1), Facts(30)]
        found = find_dirt(segments, first, 1000, min_lag_ms=0, max_lag_ms=max_lag_ms, now_ms=NOW_MS)
        return found.ratio, found.overdue_ms, found.is_due(0.5)

    assert found(0, NEVER) == (1.0, 0, True)
    assert found(10, NEVER) == (0.4, 0, False)
    assert found(10, 70) == (0.4, 0, False)
    assert found(10, 69) == (0.4, 1, True)
    assert found(20, 1) == (0.2, 0, False)


def test_a_checkpoint_outside_the_log_is_set_to_the_log_start() -> None:
    assert first_dirty_offset(None, 5, 9) == (5, None)
    assert first_dirty_offset(9, 5, 9) == (9, None)
    assert first_dirty_offset(5, 5, 9) == (5, None)
    below, why = first_dirty_offset(4, 5, 9)
    assert below == 5
    assert "the checkpointed offset 4 is invalid" in str(why)
    beyond, why = first_dirty_offset(10, 5, 9)
    assert beyond == 5
    assert "larger than the log end offset 9" in str(why)


def grouped(*segments: SourceSegment, **given: int) -> list[list[int]]:
    limits = {"segment_bytes": 100, "segment_index_bytes": 100, "end_offset": 10**10} | given
    job = CleaningJob(
        directory="",
        segments=segments,
        first_dirty_offset=0,
        producers={},
        now_ms=0,
        delete_retention_ms=0,
        index_interval_bytes=1,
        max_keys=1,
        buffer_bytes=1,
        **limits,
    )
    return [[each.base_offset for each in group] for group in group_segments(segments, job)]


def test_segments_that_fit_into_one_are_grouped() -> None:
    def sizes(*sizes: tuple[int, int, int]) -> list[SourceSegment]:
        return [SourceSegment(number, *each) for number, each in enumerate(sizes)]

    assert grouped() == []
    assert grouped(*sizes((60, 1, 1), (40, 1, 1), (1, 1, 1))) == [[0, 1], [2]]
    assert grouped(*sizes((1, 60, 1), (1, 40, 1), (1, 1, 1))) == [[0, 1], [2]]
    assert grouped(*sizes((1, 1, 60), (1, 1, 40), (1, 1, 1))) == [[0, 1], [2]]
    assert grouped(*sizes((200, 1, 1), (0, 0, 0))) == [[0], [1]]
    assert [len(group) for group in grouped(*sizes(*[(0, 0, 0)] * 250))] == [100, 100, 50]


def test_offsets_of_a_group_fit_into_its_indexes() -> None:
    far = 2**31 - 1
    assert grouped(SourceSegment(0, 1, 0, 0), SourceSegment(9, 1, 0, 0), end_offset=far + 1) == [[0, 9]]
    assert grouped(SourceSegment(0, 1, 0, 0), SourceSegment(9, 1, 0, 0), end_offset=far + 2) == [[0], [9]]
    # An empty segment has no offsets, at any distance.
    assert grouped(SourceSegment(0, 1, 0, 0), SourceSegment(9, 0, 0, 0), end_offset=far + 2) == [[0, 9]]
