"""Which segments are old, against Kafka's three passes over them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.config import LogConfig
from ottla.log.retention import old_segments

NOW_MS = 1_700_000_000_000
NO_TIMESTAMP = -1


class Segment:
    def __init__(self, base_offset: int, size: int, max_timestamp: int, modified_ms: int = NOW_MS) -> None:
        self.base_offset = base_offset
        self.size = size
        self.max_timestamp = max_timestamp
        self._modified_ms = modified_ms

    def largest_timestamp(self) -> int:
        return self.max_timestamp if self.max_timestamp >= 0 else self._modified_ms

    def last_modified_ms(self) -> int:
        return self._modified_ms


def aged(*ages_ms: int, size: int = 100) -> list[Segment]:
    """Return segments of ten records whose newest records have these ages."""
    return [Segment(10 * slot, size, NOW_MS - age_ms) for slot, age_ms in enumerate(ages_ms)]


def old(
    segments: Sequence[Segment],
    *,
    start: int = 0,
    high_watermark: int | None = None,
    end: int | None = None,
    **config: Any,
) -> list[tuple[int, str]]:
    end = segments[-1].base_offset + 10 if end is None else end
    found = old_segments(
        segments,
        LogConfig(**config),
        log_start_offset=start,
        high_watermark=end if high_watermark is None else high_watermark,
        log_end_offset=end,
        now_ms=NOW_MS,
    )
    return [(segment.base_offset, reason) for segment, reason in found]


def offsets(segments: Sequence[Segment], **options: Any) -> list[int]:
    return [offset for offset, _ in old(segments, **options)]


def test_segments_older_than_retention_ms_are_deleted() -> None:
    assert offsets(aged(101, 101, 100, 101), retention_ms=100) == [0, 10]


def test_an_old_active_segment_is_deleted() -> None:
    assert offsets(aged(101, 101), retention_ms=100) == [0, 10]


def test_an_active_segment_without_records_stays() -> None:
    segments = [*aged(101), Segment(10, 0, NO_TIMESTAMP, modified_ms=0)]
    assert offsets(segments, end=10, retention_ms=100) == [0]


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    segments = [Segment(0, 100, NO_TIMESTAMP, NOW_MS - 101), Segment(10, 100, NO_TIMESTAMP, NOW_MS - 100)]
    assert old(segments, retention_ms=100) == [
        (
            0,
            f"Deleting segment LogSegment(baseOffset=0, size=100, lastModifiedTime={NOW_MS - 101}, "
            "largestRecordTimestamp=-1) due to log retention time 100ms breach based on the last modified time of the "
            "segment",
        )
    ]


def test_records_of_the_future_keep_all_later_segments() -> None:
    assert offsets(aged(101, -(10**12), 101), retention_ms=100) == [0]


def test_the_oldest_segments_are_deleted_down_to_retention_bytes() -> None:
    assert offsets(aged(0, 0, 0, 0), retention_bytes=200) == [0, 10]
    assert offsets(aged(0, 0, 0, 0), retention_bytes=201) == [0]
    assert offsets(aged(0, 0, 0, 0), retention_bytes=301) == []
    assert offsets(aged(0, 0), retention_bytes=0) == [0, 10]


def test_segments_below_the_log_start_are_deleted_but_never_the_active_one() -> None:
    assert offsets(aged(0, 0, 0), start=19) == [0]
    assert offsets(aged(0, 0, 0), start=20) == [0, 10]
    assert offsets(aged(0, 0, 0), start=30) == [0, 10]


@pytest.mark.parametrize("policy", [("compact",), ()])
def test_without_the_delete_policy_only_segments_below_the_log_start_are_deleted(policy: tuple[str, ...]) -> None:
    config = LogConfig({"cleanup.policy": policy, "retention.ms": 1, "retention.bytes": 0})
    found = old_segments(
        aged(9, 9, 9), config, log_start_offset=10, high_watermark=30, log_end_offset=30, now_ms=NOW_MS
    )
    assert [segment.base_offset for segment, _ in found] == [0]


def test_both_policies_together_delete_as_the_delete_policy() -> None:
    config = LogConfig({"cleanup.policy": ("compact", "delete"), "retention.ms": 1})
    found = old_segments(aged(9, 9), config, log_start_offset=0, high_watermark=20, log_end_offset=20, now_ms=NOW_MS)
    assert len(list(found)) == 2


def test_records_above_the_high_watermark_stay() -> None:
    segments = aged(101, 101, 101)
    for high_watermark, gone in ((9, []), (10, [0]), (29, [0, 10]), (30, [0, 10, 20])):
        assert offsets(segments, high_watermark=high_watermark, retention_ms=100) == gone
        assert offsets(segments, high_watermark=high_watermark, retention_bytes=0) == gone


def test_reasons_are_kafkas_log_lines() -> None:
    segments = aged(500, 500, 500, 0)
    told = [reason for _, reason in old(segments, start=10, retention_bytes=200, retention_ms=100)]
    shown = [
        f"LogSegment(baseOffset={offset}, size=100, lastModifiedTime={NOW_MS}, largestRecordTimestamp={NOW_MS - 500})"
        for offset in (0, 10, 20)
    ]
    assert told == [
        f"Deleting segments due to log start offset 10 breach: {shown[0]}",
        f"Deleting segment {shown[1]} due to log retention size 200 breach. Log size after deletion will be 200.",
        f"Deleting segment {shown[2]} due to log retention time 100ms breach based on the largest record timestamp in "
        "the segment",
    ]


def kafkas_passes(
    segments: Sequence[Segment], retention_ms: int, retention_bytes: int, start: int, high_watermark: int, end: int
) -> int:
    """Return how many segments Kafka's three passes leave."""
    left = list(segments)

    def look(is_old: Callable[[Segment, Segment | None], bool]) -> None:
        while left:
            following = left[1] if len(left) > 1 else None
            upper = following.base_offset if following else end
            if high_watermark < upper or (following is None and not left[0].size) or not is_old(left[0], following):
                return
            del left[0]

    look(lambda segment, following: following is not None and following.base_offset <= start)
    excess = sum(segment.size for segment in left) - retention_bytes

    def is_too_much(segment: Segment, following: Segment | None) -> bool:
        nonlocal excess
        if retention_bytes < 0 or excess - segment.size < 0:
            return False
        excess -= segment.size
        return True

    look(is_too_much)
    look(lambda segment, _: retention_ms >= 0 and NOW_MS - segment.largest_timestamp() > retention_ms)
    return len(left)


SEGMENTS = st.lists(
    st.tuples(st.integers(1, 20), st.integers(1, 100), st.integers(-1, 300), st.integers(0, 300)),
    min_size=1,
    max_size=12,
)


@given(
    shapes=SEGMENTS,
    has_empty_end=st.booleans(),
    retention_ms=st.integers(-1, 300),
    retention_bytes=st.integers(-1, 600),
    start=st.integers(0, 200),
    high_watermark=st.integers(0, 250),
)
def test_one_pass_finds_the_segments_of_kafkas_three_passes(
    shapes: list[tuple[int, int, int, int]],
    has_empty_end: bool,
    retention_ms: int,
    retention_bytes: int,
    start: int,
    high_watermark: int,
) -> None:
    segments, end = [], 0
    for records, size, age_ms, modified_ms in shapes:
        timestamp = NO_TIMESTAMP if age_ms < 0 else NOW_MS - age_ms
        segments.append(Segment(end, size, timestamp, NOW_MS - modified_ms))
        end += records
    if has_empty_end:
        segments.append(Segment(end, 0, NO_TIMESTAMP, 0))
    start, high_watermark = min(start, end), min(high_watermark, end)
    found = offsets(
        segments,
        start=start,
        high_watermark=high_watermark,
        end=end,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
    )
    left = kafkas_passes(segments, retention_ms, retention_bytes, start, high_watermark, end)
    assert found == [segment.base_offset for segment in segments[: len(segments) - left]]
