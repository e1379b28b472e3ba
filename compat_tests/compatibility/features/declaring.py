"""The declaration of a row."""

from collections.abc import Callable
from typing import NamedTuple

from compat_tests.compatibility.trials import Trial


class Feature(NamedTuple):
    """A row: a scenario, whose expectation does not depend on the broker."""

    name: str
    scenario: Callable[[Trial], None]
    setting: str = "plain"
    """Which broker it needs."""
    unsupported: str = ""
    """The words of docs/unsupported.md by which Ottla does not have it."""
