"""Durations on the command line: 90s, 1h30m, 7d.

PURE. Counterpart in Kafka: none; its tools take milliseconds.
"""

import re
from typing import Final

import click

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_STEP: Final = r"(\d+)(ms|[smhd])"


def duration_ms(value: str | int) -> int:
    """Return a duration in milliseconds; it is the type of an option, and a default may be a number already."""
    if isinstance(value, int):
        return value
    if not re.fullmatch(f"(?:{_STEP})+", value, re.ASCII):
        raise click.BadParameter(f"{value!r} is not a duration: use 90s, 1h30m or 7d")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in re.findall(_STEP, value))
