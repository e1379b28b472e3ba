"""The lag of a group, in records and in seconds."""

import pytest

from ottla.client.lag import NOTHING_UNREAD, Lag, lag_of, total

NOW = 1_700_000_010_500


def test_the_lag_is_the_unread_records_and_the_age_of_the_first_one() -> None:
    assert lag_of(4, 0, 10, NOW - 2_500, NOW) == Lag(6, 2.5)


@pytest.mark.parametrize("first_unread_ms", [None, NOW - 2_500])
def test_without_lag_both_are_zero(first_unread_ms: int | None) -> None:
    assert lag_of(10, 0, 10, first_unread_ms, NOW) == Lag(0, 0.0)


def test_a_commit_after_the_end_of_the_log_gives_no_negative_lag() -> None:
    assert lag_of(12, 0, 10, None, NOW) == Lag(0, 0.0)


def test_the_age_of_a_record_that_retention_removed_is_unknown() -> None:
    assert lag_of(4, 5, 10, NOW - 2_500, NOW) == Lag(6, None)


@pytest.mark.parametrize("first_unread_ms", [None, -1])
def test_the_age_of_a_record_without_timestamp_is_unknown(first_unread_ms: int | None) -> None:
    assert lag_of(4, 0, 10, first_unread_ms, NOW) == Lag(6, None)


def test_markers_of_transactions_are_not_unread_records() -> None:
    assert lag_of(9, 0, 10, NOTHING_UNREAD, NOW) == Lag(1, 0.0)


def test_a_record_of_the_future_has_no_negative_age() -> None:
    assert lag_of(4, 0, 10, NOW + 60_000, NOW) == Lag(6, 0.0)


@pytest.mark.parametrize(("committed", "end"), [(None, 10), (4, None)])
def test_without_commit_or_log_the_lag_is_unknown(committed: int | None, end: int | None) -> None:
    assert lag_of(committed, 0, end, NOW, NOW) == Lag(None, None)


def test_the_total_lag_is_the_sum_of_records_and_the_largest_age() -> None:
    assert total([Lag(3, 1.5), Lag(None, None), Lag(4, None), Lag(0, 0.0)]) == Lag(7, 1.5)
    assert total([]) == Lag(None, None)
