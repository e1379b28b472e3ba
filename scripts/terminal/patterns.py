"""Choosing names by patterns: globs as in a shell, or regular expressions.

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
    """Return the names that match any pattern, sorted; all names without a pattern."""
    if not patterns:
        return sorted(names)
    if not regex:
        return sorted(name for name in names if any(fnmatchcase(name, each) for each in patterns))
    try:
        compiled = [re.compile(each) for each in patterns]
    except re.error as error:
        raise click.UsageError(f"the regular expression is invalid: {error}") from None
    return sorted(name for name in names if any(each.fullmatch(name) for each in compiled))
