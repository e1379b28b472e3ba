import math
import random

import pytest

from benchmarks.compare import report
from benchmarks.measuring import Interval, median_interval


def test_the_interval_of_ten_values_excludes_the_least_and_the_greatest() -> None:
    assert median_interval([5, 3, 9, 1, 7, 2, 8, 4, 10, 6]) == Interval(5.5, 2, 9)


def test_few_values_have_an_interval_from_the_least_to_the_greatest() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == Interval(2.0, 1.0, 3.0)
    assert median_interval([4.0]) == Interval(4.0, 4.0, 4.0)


@pytest.mark.parametrize("count", [5, 10, 13, 20])
def test_the_interval_contains_the_true_median_with_its_confidence(count: int, seed: int) -> None:
    chance = random.Random(seed)
    held = 0
    for _ in range(2000):
        interval = median_interval([chance.expovariate(1.0) for _ in range(count)])
        held += interval.low <= math.log(2) <= interval.high
    # Four standard deviations below nine in ten.
    assert held > 2000 * 0.9 - 4 * (2000 * 0.9 * 0.1) ** 0.5


def test_a_load_is_within_a_bound_unless_its_whole_interval_is_beyond() -> None:
    astride = [1.01, 1.04, 1.0, 1.05, 1.06, 1.03, 1.04, 1.02, 1.05, 1.04]
    beyond = [ratio + 0.02 for ratio in astride]
    _, is_within = report({"astride": astride}, 2)
    assert is_within
    lines, is_within = report({"astride": astride, "beyond": beyond}, 2)
    assert not is_within
    assert lines[1].endswith("within 2%: yes")
    assert lines[2].endswith("within 2%: no")


def test_without_a_bound_there_is_no_verdict() -> None:
    lines, is_within = report({"any": [3.0] * 10}, None)
    assert is_within
    assert "within" not in lines[1]
