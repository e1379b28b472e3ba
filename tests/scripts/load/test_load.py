"""Load and its measurement: latencies, rates, payloads, events."""

import io
import json
import math
import random
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from ottla.scripts.load.events import Events, json_lines
from ottla.scripts.load.latencies import Latencies
from ottla.scripts.load.measurement import COLUMNS, Measurement
from ottla.scripts.load.pace import Pace
from ottla.scripts.load.payloads import chosen, counted, letters

SECONDS = st.floats(0, 3600)
SHARES = st.sampled_from([0.5, 0.95, 0.99, 0.999, 1.0])


def latencies(times: list[float]) -> Latencies:
    found = Latencies()
    for each in times:
        found.add(each)
    return found


# Latencies


@given(st.lists(SECONDS, min_size=1, max_size=200), SHARES)
def test_a_percentile_is_at_most_one_percent_above_the_exact_one(times: list[float], share: float) -> None:
    found = latencies(times).percentile_ms(share)
    exact = sorted(times)[max(1, math.ceil(share * len(times))) - 1] * 1000
    assert found is not None
    assert exact - 0.001 <= found <= exact * 1.01 + 0.001


@given(st.lists(SECONDS, min_size=1, max_size=200))
def test_the_longest_time_and_the_mean_are_exact(times: list[float]) -> None:
    found = latencies(times)
    assert found.max_ms == pytest.approx(max(times) * 1000, abs=0.001)
    assert found.mean_ms == pytest.approx(math.fsum(times) / len(times) * 1000)
    assert found.percentile_ms(1.0) == found.max_ms


def test_without_times_nothing_is_known() -> None:
    found = latencies([])
    assert (found.count, found.mean_ms, found.max_ms, found.percentile_ms(0.5)) == (0, None, None, None)


def test_many_times_take_little_memory() -> None:
    found = latencies([random.expovariate(10) for _ in range(20_000)])
    assert len(found._buckets) < 3000


# Measurements


def test_a_measurement_has_a_value_for_each_column() -> None:
    measured = Measurement()
    assert measured.row() == {**dict.fromkeys(COLUMNS), "records": 0, "bytes": 0, "seconds": 0.0}
    measured.add(1, 100, 0.002)
    measured.add(2, 300)
    row = measured.row()
    assert list(row) == list(COLUMNS)
    assert (row["records"], row["bytes"], row["max_ms"], row["p999_ms"]) == (3, 400, 2.0, 2.0)
    assert row["records_per_second"] == pytest.approx(3 / measured.seconds, abs=0.001)
    assert row["mb_per_second"] == pytest.approx(400 / 1e6 / measured.seconds, abs=0.001)


def test_records_before_the_begin_do_not_count() -> None:
    measured = Measurement()
    measured.add(5, 500, 9.0)
    measured.begin()
    measured.add(1, 10, 0.001)
    assert (measured.records, measured.bytes, measured.latencies.max_ms) == (1, 10, 1.0)


# Pace


async def test_steps_are_no_faster_than_the_rate(autojump_clock: Any) -> None:
    begun, pace = trio.current_time(), Pace(4)
    for number in range(1, 9):
        await pace.step()
        assert trio.current_time() - begun == pytest.approx(number / 4)


async def test_the_rate_is_caught_up_after_a_pause(autojump_clock: Any) -> None:
    begun, pace = trio.current_time(), Pace(10)
    await trio.sleep(1)
    for _ in range(10):
        await pace.step()
    assert trio.current_time() - begun == pytest.approx(1)
    await pace.step()
    assert trio.current_time() - begun == pytest.approx(1.1)


async def test_without_a_rate_nothing_waits_and_with_a_rate_of_0_the_second_step_never_comes(
    autojump_clock: Any,
) -> None:
    begun, unlimited = trio.current_time(), Pace(None)
    for _ in range(1000):
        await unlimited.step()
    assert trio.current_time() == begun
    with trio.move_on_after(1e6) as patience:
        await Pace(0).step()
    assert patience.cancelled_caught


# Payloads


@given(st.integers(0, 5000))
def test_letters_have_the_given_size(size: int) -> None:
    payload = letters(size)
    for _ in range(3):
        value = payload()
        assert len(value) == size
        assert not value or (value.isalpha() and value.isupper())


def test_letters_differ_each_time() -> None:
    payload = letters(100)
    assert len({payload() for _ in range(20)}) > 1


def test_values_are_chosen_or_counted() -> None:
    values = [b"a", b"b", b""]
    pick = chosen(values)
    assert {pick() for _ in range(200)} == set(values)
    number = counted()
    assert [number() for _ in range(12)] == [str(each).encode() for each in range(12)]


# Events


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_event_is_a_line_with_its_time_and_its_name_first() -> None:
    stream = io.StringIO()
    events = json_lines(stream)
    events.print("one", key=None, value="é\n")
    events.print("two", offsets=[{"topic": "t", "offset": 1}])
    first, second = stream.getvalue().splitlines()
    assert first.endswith(',"name":"one","key":null,"value":"é\\n"}')
    assert list(json.loads(second)) == ["timestamp", "name", "offsets"]


def test_events_on_a_terminal_have_no_control_characters() -> None:
    stream = _Terminal()
    json_lines(stream).print("record_data", value="\x9b2J\x1b]0;title\x07é")
    assert stream.getvalue().isascii()
    assert "\x1b" not in stream.getvalue()


def test_events_are_written_by_the_given_function() -> None:
    found: list[dict[str, Any]] = []
    Events(found.append).print("startup_complete")
    assert [each["name"] for each in found] == ["startup_complete"]
