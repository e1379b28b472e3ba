"""The modes of `ottla groups reset`, which choose the new offsets.

Owns the modes. Must not commit anything. Counterpart in Kafka: OffsetsUtils.
"""

import csv
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

import click

from ottla.client.admin.fetching import find_records
from ottla.client.admin.groups.committed_offsets import Offsets, committed_offsets
from ottla.client.admin.offsets import LogRange, list_offsets, log_ranges
from ottla.client.cluster import Client
from ottla.scripts.terminal.durations import duration_ms
from ottla.scripts.terminal.progress import Progress
from ottla.scripts.terminal.records.filters import Wanted, wanted
from ottla.scripts.terminal.records.ranges import read_point
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_ISO_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d+)?)S)?)?", re.ASCII | re.IGNORECASE
)


class Scope(NamedTuple):
    """A group, its committed offsets, and the partitions to reset with the offsets of their logs."""

    group: str
    committed: Offsets
    ranges: Mapping[TopicPartition, LogRange]


Target = int | KafkaError
Targets = Callable[[Client, Scope], Awaitable[Mapping[TopicPartition, Target]]]
Partitions = Callable[[Client, str], Awaitable[Iterable[TopicPartition]]]


class Mode(NamedTuple):
    """A way to choose offsets: one for each partition of a scope, or an error.

    `partitions` returns a group's partitions in this mode, if they are not those with a committed offset.
    """

    targets: Targets
    partitions: Partitions | None = None


async def chosen_targets(
    client: Client, mode: Mode, group: str, committed: Offsets, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Target]:
    """Return new offsets for partitions, each within its log."""
    found = await log_ranges(client, partitions)
    ranges = {each: limits for each, limits in found.items() if not isinstance(limits, KafkaError)}
    results = await mode.targets(client, Scope(group, committed, ranges)) if ranges else {}
    chosen: dict[TopicPartition, Target] = {}
    for partition, limits in found.items():
        target = limits if isinstance(limits, KafkaError) else results[partition]
        chosen[partition] = target if isinstance(target, KafkaError) else _within(target, found[partition])
    return chosen


def _within(offset: int, limits: LogRange | KafkaError) -> int:
    assert not isinstance(limits, KafkaError)
    return min(max(offset, limits.start), limits.end)


def _missing(text: str) -> KafkaError:
    return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)


def mode_of(options: Mapping[str, object]) -> Mode:
    """Return the mode of the options. UsageError if they name none or several."""
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if len(given) != 1:
        flags = ", ".join(f"--{name.removesuffix('_group').replace('_', '-')}" for name in options)
        raise click.UsageError(f"give exactly one of {flags}")
    ((name, value),) = given.items()
    made: Mode = _MAKERS[name](value)
    return made


# Modes


def _to_earliest(_: object) -> Mode:
    async def targets(client: Client, scope: Scope) -> dict[TopicPartition, Target]:
        return {each: found.start for each, found in scope.ranges.items()}

    return Mode(targets)


def _to_latest(_: object) -> Mode:
    async def targets(client: Client, scope: Scope) -> dict[TopicPartition, Target]:
        return {each: found.end for each, found in scope.ranges.items()}

    return Mode(targets)


def _to_current(_: object) -> Mode:
    async def targets(client: Client, scope: Scope) -> dict[TopicPartition, Target]:
        return {
            each: scope.committed[each].offset if each in scope.committed else found.end
            for each, found in scope.ranges.items()
        }

    return Mode(targets)


def _to_offset(offset: int) -> Mode:
    async def targets(client: Client, scope: Scope) -> dict[TopicPartition, Target]:
        return dict.fromkeys(scope.ranges, offset)

    return Mode(targets)


def _shift_by(count: int) -> Mode:
    async def targets(client: Client, scope: Scope) -> dict[TopicPartition, Target]:
        return {
            each: scope.committed[each].offset + count if each in scope.committed else _missing("nothing to shift yet")
            for each in scope.ranges
        }

    return Mode(targets)


def _at(timestamp: int) -> Mode:
    async def targets(client: Client, scope: Scope) -> dict[TopicPartition, Target]:
        found = await list_offsets(client, dict.fromkeys(scope.ranges, max(0, timestamp)))
        return {
            each: result
            if isinstance(result, KafkaError)
            else scope.ranges[each].end
            if result.offset < 0
            else result.offset
            for each, result in found.items()
        }

    return Mode(targets)


def _to_datetime(text: str) -> Mode:
    return _at(read_point(f"@{text}", _now_ms()).time_ms or 0)


def _by_duration(text: str) -> Mode:
    match = _ISO_DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return _at(_now_ms() - duration_ms(text))
    days, hours, minutes, seconds = (float((each or "0").replace(",", ".")) for each in match.groups())
    length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return _at(_now_ms() - length // timedelta(milliseconds=1))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _as_group(other: str) -> Mode:
    async def targets(client: Client, scope: Scope) -> dict[TopicPartition, Target]:
        found = await offsets_of(client, other)
        return {
            each: found[each].offset if each in found else _missing(f"group {other} has no offset here")
            for each in scope.ranges
        }

    async def partitions(client: Client, group: str) -> Iterable[TopicPartition]:
        return await offsets_of(client, other)

    return Mode(targets, partitions)


async def offsets_of(client: Client, group: str) -> Offsets:
    """Return the committed offsets of a group. KafkaError if they cannot be read."""
    found = (await committed_offsets(client, [group]))[group]
    if isinstance(found, KafkaError):
        raise KafkaError(found.code, f"group {group}: {found.detail}".removesuffix(": "))
    return found


def _from_file(path: Path) -> Mode:
    plan = read_plan(path)

    async def targets(client: Client, scope: Scope) -> dict[TopicPartition, Target]:
        found = planned(plan, scope.group)
        return {each: found.get(each, _missing(f"{path} has no offset for it")) for each in scope.ranges}

    async def partitions(client: Client, group: str) -> Iterable[TopicPartition]:
        return planned(plan, group)

    return Mode(targets, partitions)


Plan = Sequence[tuple[str | None, TopicPartition, int]]
"""Lines of a file: a group or None for any, a partition and an offset."""


def read_plan(path: Path) -> Plan:
    """Read lines of CSV, `topic,partition,offset` or with the group in front, as Kafka's tool exports them."""
    plan = []
    lines = path.read_text("utf-8", errors="replace").splitlines()
    for number, line in enumerate(csv.reader(lines), 1):
        try:
            *group, topic, partition, offset = line
            plan.append((group[0] if group else None, TopicPartition(topic, int(partition)), int(offset)))
        except ValueError:
            text = ",".join(line)
            raise click.UsageError(f"{path}:{number}: {text} is not [group,]topic,partition,offset") from None
    return plan


def planned(plan: Plan, group: str) -> dict[TopicPartition, int]:
    """Return the offsets of a plan for a group."""
    return {partition: offset for name, partition, offset in plan if name in (None, group)}


# Records


def _to_record(wanted_record: tuple[str, int]) -> Mode:
    """Return the mode that searches so many records for `key=PATTERN`, `value=PATTERN` or `header=NAME:PATTERN`."""
    text, most_records = wanted_record
    matches = _test(text)

    async def targets(client: Client, scope: Scope) -> dict[TopicPartition, Target]:
        ranges = {}
        for each, found in scope.ranges.items():
            first = scope.committed[each].offset if each in scope.committed else found.start
            ranges[each] = (max(first, found.start), found.end)
        most = sum(min(end - first, most_records) for first, end in ranges.values())
        with Progress("records searched") as progress:
            results = await find_records(
                client, ranges, matches, most_records, lambda done: progress.update(done, most)
            )
        chosen: dict[TopicPartition, Target] = {}
        for each, result in results.items():
            if isinstance(result, KafkaError):
                chosen[each] = result
            elif result.offset is not None:
                chosen[each] = result.offset
            elif result.is_complete:
                chosen[each] = _missing("no record matches")
            else:
                chosen[each] = _missing(f"none of {result.records} records matches; --most-records reads more")
        return chosen

    return Mode(targets)


def _test(text: str) -> Wanted:
    part, equals, pattern = text.partition("=")
    kinds = {"key": 0, "value": 1, "header": 2}
    if not equals or part not in kinds:
        raise click.UsageError(f"--to-record {text}: use key=PATTERN, value=PATTERN or header=NAME:PATTERN")
    patterns: list[list[str]] = [[], [], []]
    patterns[kinds[part]].append(pattern)
    test = wanted(*patterns)
    assert test is not None
    return test


_MAKERS: Final[Mapping[str, Callable[..., Mode]]] = {
    "to_earliest": _to_earliest,
    "to_latest": _to_latest,
    "to_current": _to_current,
    "to_offset": _to_offset,
    "to_datetime": _to_datetime,
    "by_duration": _by_duration,
    "shift_by": _shift_by,
    "from_file": _from_file,
    "as_group": _as_group,
    "to_record": _to_record,
}
