"""Choosing names by patterns: globs as a shell has them, or regular expressions.

PURE. Counterpart in Kafka: IncludeList.
"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import click

_GLOB = re.compile(r"[*?\[]")


def is_pattern(text: str) -> bool:
    """Whether the text is a glob that may stand for several names."""
    return bool(_GLOB.search(text))


def chosen(names: Iterable[str], patterns: Sequence[str], *, regex: bool = False) -> list[str]:
    """Return the names that match any pattern, sorted; all of them without a pattern."""
    if not patterns:
        return sorted(names)
    if not regex:
        return sorted(name for name in names if any(fnmatchcase(name, each) for each in patterns))
    try:
        compiled = [re.compile(each) for each in patterns]
    except re.error as error:
        raise click.UsageError(f"a regular expression that cannot be read: {error}") from None
    return sorted(name for name in names if any(each.fullmatch(name) for each in compiled))
