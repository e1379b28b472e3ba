"""Values of records for load.

Counterpart in Kafka: ProducerPerformance.generateRandomPayload.
"""

import random
import string
from collections.abc import Callable, Sequence
from typing import Final

_LETTERS: Final = string.ascii_uppercase.encode()
_SPARE: Final = 4096
Payloads = Callable[[], bytes]


def letters(size: int) -> Payloads:
    """Return a maker of random capital letters: slices of one random text, because random numbers are slow."""
    text = bytes(random.choices(_LETTERS, k=size + _SPARE))

    def payload() -> bytes:
        start = int(random.random() * _SPARE)
        return text[start : start + size]

    return payload


def chosen(values: Sequence[bytes]) -> Payloads:
    """Return a maker that chooses one of these values each time."""
    return lambda: random.choice(values)


def counted() -> Payloads:
    """Return a maker that counts from 0 on, in digits."""
    number = -1

    def payload() -> bytes:
        nonlocal number
        number += 1
        return b"%d" % number

    return payload
