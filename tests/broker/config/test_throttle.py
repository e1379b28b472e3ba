"""How fast throttled replicas may be copied: the numbers are those of Kafka's SimpleRate."""

import pytest

from ottla.broker.config.throttle import ReplicationQuota, is_throttled
from ottla.broker.loop.sliding_rate import SampledRate


def quota(bytes_per_second: int) -> ReplicationQuota:
    made = ReplicationQuota(window_num=11, window_ms=1000)
    made.bytes_per_second = bytes_per_second
    return made


def test_without_a_limit_no_rate_is_too_high() -> None:
    unlimited = ReplicationQuota()
    unlimited.record(1 << 62, 0)
    assert not unlimited.is_exceeded(0)


def test_a_rate_equal_to_the_limit_is_not_above_it() -> None:
    some = quota(1000)
    assert not some.is_exceeded(0)
    some.record(1000, 0)
    assert not some.is_exceeded(0)
    some.record(1, 0)
    assert some.is_exceeded(0)


def test_with_a_limit_of_zero_the_first_byte_is_too_much() -> None:
    none = quota(0)
    assert not none.is_exceeded(0)
    none.record(1, 0)
    assert none.is_exceeded(0)


def test_a_measurement_shorter_than_a_window_counts_as_one_window() -> None:
    some = quota(1000)
    some.record(1500, 0)
    assert some.is_exceeded(999)
    assert some.is_exceeded(1499)
    assert not some.is_exceeded(1500)


def test_bytes_from_before_the_last_windows_do_not_count() -> None:
    some = quota(1000)
    some.record(100_000, 0)
    assert some.is_exceeded(10_999)
    assert not some.is_exceeded(11_000)


def test_a_new_limit_holds_for_earlier_bytes_too() -> None:
    some = ReplicationQuota()
    some.record(5000, 0)
    some.bytes_per_second = 1000
    assert some.is_exceeded(4999)
    assert not some.is_exceeded(5000)


@pytest.mark.parametrize(("size", "pause_ms"), [(1000, 10), (20_000, 100), (300_000, 1000)])
def test_sending_only_below_the_limit_keeps_the_limit_over_many_windows(size: int, pause_ms: int) -> None:
    limit, seconds = 100_000, 60
    some = quota(limit)
    sent = 0
    for now_ms in range(0, 1000 * seconds, pause_ms):
        if not some.is_exceeded(now_ms):
            some.record(size, now_ms)
            sent += size
    # One record may always be sent whole, and the first window lasts no longer than the others.
    assert 0.9 * limit * seconds <= sent <= 1.1 * limit * seconds + size


def test_only_the_samples_of_the_last_windows_are_kept() -> None:
    rate = SampledRate(3, 1000)
    for now_ms in range(0, 100_000, 1000):
        rate.record(1, now_ms)
    assert rate.measure(99_000) == (3, 2000)


@pytest.mark.parametrize(
    ("replicas", "partition", "broker_id", "expected"),
    [
        ((), 0, 0, False),
        (("",), 0, 0, False),
        (("*",), 7, 3, True),
        (("", "*"), 7, 3, True),
        (("0:1", "0:2", "1:2"), 0, 2, True),
        (("0:1", "0:2", "1:2"), 1, 1, False),
        (("0:1", "", "10:2"), 10, 2, True),
        (("007:01",), 7, 1, True),
    ],
)
def test_a_list_names_replicas_or_all(
    replicas: tuple[str, ...], partition: int, broker_id: int, expected: bool
) -> None:
    assert is_throttled(replicas, partition, broker_id) is expected
