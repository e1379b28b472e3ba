"""The declaration of a row."""

from collections.abc import Callable
from typing import NamedTuple

from compat_tests.compatibility.trials import Trial


class Feature(NamedTuple):
    """A row: a scenario, whose expectation does not depend on the broker."""

    name: str
    scenario: Callable[[Trial], None]
    setting: str = "plain"
    """The setting of its broker."""
    unsupported: str = ""
    """The words of docs/unsupported.md for a feature that Ottla does not support."""
