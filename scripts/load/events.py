"""Events of the verifiable programs: one line of JSON each, with its time and its name first.

Counterparts in Kafka: ProducerEvent of VerifiableProducer, ConsumerEvent of VerifiableConsumer.
"""

import json
import time
from collections.abc import Callable
from typing import Any, TextIO


class Events:
    """Prints events as they happen, by calling `write`."""

    def __init__(self, write: Callable[[dict[str, Any]], object]) -> None:
        self._write = write

    def print(self, name: str, **values: Any) -> None:
        """Print an event."""
        self._write({"timestamp": time.time_ns() // 1_000_000, "name": name, **values})


def json_lines(stream: TextIO) -> Events:
    """Return events that are written to a stream as lines, flushed at once, because a reader waits for them."""
    # On a terminal ASCII only, because other characters may be control characters.
    is_terminal = stream.isatty()

    def write(event: dict[str, Any]) -> None:
        stream.write(json.dumps(event, separators=(",", ":"), ensure_ascii=is_terminal) + "\n")
        stream.flush()

    return Events(write)
