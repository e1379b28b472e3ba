"""Ranges of records to read: `--offset @-1h:end`, as in rpk.

    start, end     the beginning, or the current end
    +10, -10       ten offsets after the beginning, or before the end
    10, 10:        from offset 10 on
    :20, 10:20     until offset 20, exclusive
    :end           until the current end
    @T, @T:        from a time on
    @:T, @T1:T2    until a time, exclusive

A time is a number of 13 digits (milliseconds) or of 9 or 10 (seconds), a date (2026-11-20, in UTC, with THH:MM:SSZ or
without), `now`, `end`, or a duration such as 1h30m: ago for the first time, after the first for the second.

PURE, but for `resolve`, which asks the cluster. Counterpart elsewhere: rpk topic consume --offset.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import click

from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import Client
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(?:\d+(?:ms|[smhd]))+")
_STEP: Final = re.compile(r"(\d+)(ms|[smhd])")
_SECONDS_DIGITS: Final = (9, 10)
_MS_DIGITS: Final = 13


class Point(NamedTuple):
    """A place in a log: an offset from a base, or the first record at or after a time."""

    base: int = 0
    """EARLIEST, LATEST, or 0 for exact offsets."""
    offset: int = 0
    time_ms: int | None = None


BEGINNING: Final = Point(EARLIEST)
END: Final = Point(LATEST)


class Range(NamedTuple):
    """The first place to read, and the place to stop before; None: never stop."""

    start: Point = BEGINNING
    stop: Point | None = None


def read_range(text: str, now_ms: int) -> Range:
    """Return the range of `--offset`. UsageError for an invalid one."""
    if text.startswith("@"):
        return _times(text[1:], now_ms)
    first, colon, last = text.partition(":")
    start = read_point(first, now_ms) if first else BEGINNING
    if colon and not first and not last:
        raise click.UsageError("--offset : has neither a start nor an end")
    return Range(start, read_point(last, now_ms) if last else None)


def _times(text: str, now_ms: int) -> Range:
    if text.startswith(":"):
        return Range(BEGINNING, _time(text[1:], now_ms, now_ms))
    # A date has colons of its own.
    for at in [at for at, each in enumerate(text) if each == ":"]:
        first, last = text[:at], text[at + 1 :]
        try:
            start = _time(first, now_ms, None)
            stop = _time(last, now_ms, start.time_ms) if last else None
        except click.UsageError:
            continue
        return Range(start, stop)
    return Range(_time(text, now_ms, None))


def read_point(text: str, now_ms: int) -> Point:
    """Return the place of `--from` or `--until`. UsageError for an invalid one."""
    if text.startswith("@"):
        return _time(text[1:], now_ms, None)
    named = {"start": BEGINNING, "beginning": BEGINNING, "earliest": BEGINNING, "end": END, "latest": END}
    if text in named:
        return named[text]
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not (digits.isascii() and digits.isdigit()):
        raise click.UsageError(f"{text!r} is not a place in a log: use start, end, OFFSET, +N, -N or @TIME")
    if sign:
        return Point(EARLIEST, int(digits)) if sign == "+" else Point(LATEST, -int(digits))
    return Point(0, int(digits))


def _time(text: str, now_ms: int, start_ms: int | None) -> Point:
    """Return the place of a time; `start_ms` is the first time of a range, for the second one."""
    if text == "end":
        return END
    if text == "now":
        return Point(time_ms=now_ms)
    if text.isascii() and text.isdigit() and len(text) in (_MS_DIGITS, *_SECONDS_DIGITS):
        return Point(time_ms=int(text) * (1 if len(text) == _MS_DIGITS else 1000))
    duration = text.removeprefix("-")
    if _DURATION.fullmatch(duration):
        length = sum(int(number) * _UNITS_MS[unit] for number, unit in _STEP.findall(duration))
        if start_ms is None:
            return Point(time_ms=now_ms - length)
        return Point(time_ms=start_ms + (-length if text.startswith("-") else length))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is not a time: use 2026-11-20, 2026-11-20T08:00:00Z, 1h30m or now") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Point(time_ms=(moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


class Bounds(NamedTuple):
    """The offsets between which a partition is read; `stop` is exclusive, None: never."""

    start: int
    stop: int | None


async def resolve(
    client: Client, partitions: Iterable[TopicPartition], wanted: Range, *, is_committed: bool = False
) -> dict[TopicPartition, Bounds]:
    """Return the offsets to read of each partition. KafkaError if a leader does not return them."""
    names = list(partitions)
    first = await _offsets(client, names, EARLIEST, is_committed)
    last = await _offsets(client, names, LATEST, is_committed)
    starts = await _places(client, names, wanted.start, first, last, is_committed)
    stops: Mapping[TopicPartition, int | None] = dict.fromkeys(names)
    if wanted.stop is not None:
        stops = await _places(client, names, wanted.stop, first, last, is_committed)
    found = {}
    for each in names:
        # A start behind the end waits for the records to come only as far as there are any.
        found[each] = Bounds(min(max(starts[each], first[each]), last[each]), stops[each])
    return found


async def _places(
    client: Client,
    names: list[TopicPartition],
    point: Point,
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
    is_committed: bool,
) -> dict[TopicPartition, int]:
    if point.time_ms is not None:
        found = await _offsets(client, names, max(0, point.time_ms), is_committed)
        return {each: last[each] if offset < 0 else offset for each, offset in found.items()}
    bases = {EARLIEST: first, LATEST: last}.get(point.base)
    return {each: (bases[each] if bases else 0) + point.offset for each in names}


async def _offsets(
    client: Client, names: list[TopicPartition], timestamp: int, is_committed: bool
) -> dict[TopicPartition, int]:
    found = {}
    for each, result in (
        await list_offsets(client, dict.fromkeys(names, timestamp), is_committed=is_committed)
    ).items():
        if isinstance(result, KafkaError):
            raise KafkaError(result.code, f"{each}: {result.detail}".rstrip(": "))
        found[each] = result.offset
    return found
