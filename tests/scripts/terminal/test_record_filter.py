"""Filters of records."""

import click
import pytest

from ottla.scripts.terminal.records.filters import wanted
from ottla.wire.records.batch import Record

RECORD = Record(0, 0, b"order-17", "größe=5\n".encode(), (("trace", b"abc"), ("trace", None), ("retry", b"2")))
NULLS = Record(0, 0, None, None)


def fits(record: Record, *, key: str = "", value: str = "", header: str = "") -> bool:
    """Return whether a record is wanted; blanks separate patterns."""
    test = wanted(key.split(), value.split(), header.split())
    assert test is not None
    return test(record)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("order-17", True), ("order-*", True), ("order", False), ("/^order/", True), ("/17$/", True), ("/^17/", False),
     ("!order-*", False), ("!user-*", True), ("!/17/", False), ("user-* order-*", True), ("order-* !*-17", False),
     ("order-1[0-9]", True), ("/", False)],
)  # fmt: skip
def test_a_pattern_is_a_glob_or_an_expression_or_excludes_one(pattern: str, expected: bool) -> None:
    assert fits(RECORD, key=pattern) is expected


def test_a_question_mark_matches_a_character_and_not_a_byte() -> None:
    assert fits(RECORD, value="gr??e=*")
    assert not fits(RECORD, value="gr????e=*")


def test_bytes_that_are_not_text_can_be_matched() -> None:
    assert fits(Record(0, 0, b"\xff\xfe", None), key="??")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("trace", True), ("trace:abc", True), ("trace:x*", False), ("retry:/[12]/", True), ("other", False),
     ("!other", True), ("!trace:abc", False), ("!trace:x", True)],
)  # fmt: skip
def test_a_header_is_matched_by_its_name_and_its_value(pattern: str, expected: bool) -> None:
    assert fits(RECORD, header=pattern) is expected


def test_patterns_of_all_kinds_must_match() -> None:
    assert fits(RECORD, key="order-*", header="trace")
    assert not fits(RECORD, key="order-*", header="other")


def test_null_matches_no_pattern() -> None:
    assert not fits(NULLS, key="*")
    assert fits(NULLS, value="!*")


def test_without_patterns_all_records_are_wanted() -> None:
    assert wanted([], [], []) is None


@pytest.mark.parametrize(("kind", "text"), [("keys", "/(/"), ("headers", ":x"), ("headers", "!")])
def test_an_invalid_pattern_is_wrong_usage(kind: str, text: str) -> None:
    with pytest.raises(click.UsageError):
        wanted(**{"keys": [], "values": [], "headers": [], kind: [text]})
