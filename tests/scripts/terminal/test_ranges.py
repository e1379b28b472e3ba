"""Ranges of records to read."""

import click
import pytest

from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.scripts.terminal.records.ranges import BEGINNING, END, Point, Range, read_point, read_range

NOW = 1_700_000_000_000
HOUR = 3_600_000
DAY = 1_699_920_000_000
"""2023-11-14 in UTC."""


def at(milliseconds: int) -> Point:
    return Point(time_ms=milliseconds)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", Range(BEGINNING)),
        ("end", Range(END)),
        (":end", Range(BEGINNING, END)),
        ("+10", Range(Point(EARLIEST, 10))),
        ("-10", Range(Point(LATEST, -10))),
        ("10", Range(Point(0, 10))),
        ("10:", Range(Point(0, 10))),
        (":20", Range(BEGINNING, Point(0, 20))),
        ("10:20", Range(Point(0, 10), Point(0, 20))),
        ("-10:end", Range(Point(LATEST, -10), END)),
        ("@1700000000000", Range(at(NOW))),
        ("@1700000000", Range(at(NOW))),
        ("@170000000", Range(at(170_000_000_000))),
        ("@2023-11-14", Range(at(DAY))),
        ("@2023-11-14:", Range(at(DAY))),
        ("@2023-11-14T01:00:00Z", Range(at(DAY + HOUR))),
        ("@2023-11-14T01:00:00.5+01:00:1h", Range(at(DAY + 500), at(DAY + 500 + HOUR))),
        ("@2023-11-14T01:00:00Z:2023-11-14T02:00:00Z", Range(at(DAY + HOUR), at(DAY + 2 * HOUR))),
        ("@:2023-11-14", Range(BEGINNING, at(DAY))),
        ("@-1h30m", Range(at(NOW - HOUR - HOUR // 2))),
        ("@1h", Range(at(NOW - HOUR))),
        ("@-48h:-24h", Range(at(NOW - 48 * HOUR), at(NOW - 72 * HOUR))),
        ("@-48h:24h", Range(at(NOW - 48 * HOUR), at(NOW - 24 * HOUR))),
        ("@-1h:end", Range(at(NOW - HOUR), END)),
        ("@-1h:now", Range(at(NOW - HOUR), at(NOW))),
        ("@:-1h", Range(BEGINNING, at(NOW - HOUR))),
    ],
)
def test_a_range_is_parsed_like_in_rpk(text: str, expected: Range) -> None:
    assert read_range(text, NOW) == expected


@pytest.mark.parametrize(("text", "expected"), [("beginning", BEGINNING), ("@now", at(NOW)), ("-5", Point(LATEST, -5))])
def test_a_place_is_an_offset_or_a_time(text: str, expected: Point) -> None:
    assert read_point(text, NOW) == expected


@pytest.mark.parametrize("text", [":", "x", "1:x", "@", "@x", "@1h:x", "@12", "--5", "@2023-13-01", "1:2:3", "\u0661"])
def test_other_texts_are_wrong_usage(text: str) -> None:
    with pytest.raises(click.UsageError):
        read_range(text, NOW)
