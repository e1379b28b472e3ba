"""Files of offsets to reset to: lines of CSV, `topic,partition,offset`, or with a group first.

PURE. Counterparts: org.apache.kafka.tools.consumer.group.CsvUtils, OffsetsUtils.parseResetPlan.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.scripts.kafka.face import JavaError
from ottla.scripts.kafka.groups.offset_resets import NewOffsets, in_hash_order
from ottla.scripts.kafka.java.numbers import INTEGER, LONG
from ottla.wire.types import TopicPartition

Plan = Mapping[str, NewOffsets]
_LONGEST_PLAIN: Final = 24
_LEAST_PLAIN: Final = "-"
_FIELD: Final = re.compile(r'\s*"((?:[^"]|"")*)"\s*|([^,]*)')


class _Schema(NamedTuple):
    """The columns of a line, with their Java class."""

    java_class: str
    columns: Sequence[tuple[str, str, Callable[[str], Any]]]


_COLUMNS: Final = (("topic", "", str), ("partition", "int", INTEGER.convert), ("offset", "long", LONG.convert))
_WITHOUT_GROUP: Final = _Schema("CsvRecordNoGroup", _COLUMNS)
_WITH_GROUP: Final = _Schema("CsvRecordWithGroup", (("group", "", str), *_COLUMNS))


def plan_of(text: str, groups: Sequence[str]) -> tuple[Plan, JavaError | None]:
    """Return the offsets of each group, and an exception if the first line names a group: Kafka's tool prints it later.

    Lines may leave the group out if there is a single `--group`.
    """
    lines = text.split("\n")
    while len(lines) > 1 and not lines[-1]:
        lines.pop()  # like Java's split
    plan: dict[str, dict[TopicPartition, int]] = {}
    unfit = None
    try:
        _record(lines[0], _WITHOUT_GROUP)
    except JavaError as error:
        unfit = error
    for line in lines:
        if len(groups) == 1 and unfit is None:
            group, (topic, partition, offset) = groups[0], _record(line, _WITHOUT_GROUP)
        else:
            group, topic, partition, offset = _record(line, _WITH_GROUP)
        plan.setdefault(group, {})[TopicPartition(topic, partition)] = offset
    return plan, unfit


def _record(line: str, schema: _Schema) -> list[Any]:
    """Return the values of a line. A missing text is empty, and a missing or empty number is 0."""
    found: list[Any] = ["" if not kind else 0 for _, kind, _ in schema.columns]
    for position, (start, text) in enumerate(_fields(line)):
        if position == len(schema.columns):
            count = len(schema.columns)
            raise _csv_error(
                "dataformat.csv.CsvReadException",
                f'Too many entries: expected at most {count} (value #{count} ({len(text)} chars) "{text}")',
                start,
            )
        name, kind, convert = schema.columns[position]
        try:
            found[position] = convert(text) if text or not kind else 0
        except ValueError:
            raise _csv_error(
                "databind.exc.InvalidFormatException",
                f'Cannot deserialize value of type `{kind}` from String "{text}": not a valid `{kind}` value',
                start,
                f" (through reference chain: org.apache.kafka.tools.consumer.group.CsvUtils${schema.java_class}"
                f'["{name}"])',
            ) from None
    return found


def _fields(line: str) -> Iterator[tuple[int, str]]:
    """Yield the start and the text of each field."""
    position = 0
    while position <= len(line):
        match = _FIELD.match(line, position)
        assert match is not None
        quoted, plain = match.groups()
        yield position, plain if quoted is None else quoted.replace('""', '"')
        position = match.end() + 1


def _csv_error(java_class: str, message: str, start: int, chain: str = "") -> JavaError:
    where = f"\n at [Source: (StringReader); line: 1, column: {start + 1}]{chain}"
    return JavaError(f"com.fasterxml.jackson.{java_class}", message + where)


def exported(plan: Plan, *, with_groups: bool) -> str:
    """Return the lines of a plan, each with its newline."""
    lines = []
    for group, found in plan.items():
        for each in in_hash_order(found):
            names = [group, each.topic] if with_groups else [each.topic]
            lines.append(",".join([*map(_quoted, names), str(each.partition), str(found[each])]) + "\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    """Return text in quotes if it is long or has a special character."""
    if len(text) <= _LONGEST_PLAIN and all(each >= _LEAST_PLAIN for each in text):
        return text
    return '"' + text.replace('"', '""') + '"'
