"""Filters of records: patterns for keys, values and headers.

PURE. A pattern is a glob for the whole text, or a regular expression between slashes for a part of it. `!` before it
excludes. A record is wanted if it matches one pattern of each kind, and no excluding one.
"""

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from typing import Final

import click

from ottla.wire.records.batch import Record

_NOT: Final = "!"
Wanted = Callable[[Record], bool]
_Test = Callable[[bytes | None], bool]


def wanted(keys: Sequence[str], values: Sequence[str], headers: Sequence[str]) -> Wanted | None:
    """Return the test for a record; None if all are wanted. UsageError for an invalid pattern."""
    tests: list[Wanted] = []
    for texts, make in ((keys, _of_key), (values, _of_value), (headers, _of_header)):
        plain = [make(each) for each in texts if not each.startswith(_NOT)]
        opposite = [make(each.removeprefix(_NOT)) for each in texts if each.startswith(_NOT)]
        if plain:
            tests.append(_any(plain))
        tests += map(_none, opposite)
    if not tests:
        return None
    return lambda record: all(test(record) for test in tests)


def _any(tests: Sequence[Wanted]) -> Wanted:
    return lambda record: any(test(record) for test in tests)


def _none(test: Wanted) -> Wanted:
    return lambda record: not test(record)


def _of_key(text: str) -> Wanted:
    test = _test(text)
    return lambda record: test(record.key)


def _of_value(text: str) -> Wanted:
    test = _test(text)
    return lambda record: test(record.value)


def _of_header(text: str) -> Wanted:
    """Return the test for a header `NAME`, or `NAME:PATTERN` for its value."""
    name, colon, pattern = text.partition(":")
    if not name:
        raise click.UsageError(f"--header {text}: use NAME or NAME:PATTERN")
    test = _test(pattern) if colon else None

    def fits(record: Record) -> bool:
        return any(each == name and (test is None or test(value)) for each, value in record.headers)

    return fits


def _test(text: str) -> _Test:
    if len(text) > 1 and text[0] == text[-1] == "/":
        try:
            search = re.compile(text[1:-1]).search
        except re.error as error:
            raise click.UsageError(f"{text}: the regular expression is invalid: {error}") from None
    else:
        search = re.compile(translate(text)).match
    # Null matches no pattern.
    return lambda data: data is not None and search(data.decode("utf-8", "surrogateescape")) is not None
