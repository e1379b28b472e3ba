"""Events of the verifiable programs: a line of JSON each, with its time and its name first.

Counterparts in Kafka: ProducerEvent of VerifiableProducer, ConsumerEvent of VerifiableConsumer.
"""

import json
import time
from collections.abc import Callable
from typing import Any, TextIO


class Events:
    """Prints events as they happen: `write` is called with each."""

    def __init__(self, write: Callable[[dict[str, Any]], object]) -> None:
        self._write = write

    def print(self, name: str, **values: Any) -> None:
        """Print an event."""
        self._write({"timestamp": time.time_ns() // 1_000_000, "name": name, **values})


def json_lines(stream: TextIO) -> Events:
    """Return events that are lines of a stream, flushed at once, because whoever reads them waits for them."""
    # On a terminal nothing but ASCII: other characters of records may steer it.
    is_terminal = stream.isatty()

    def write(event: dict[str, Any]) -> None:
        stream.write(json.dumps(event, separators=(",", ":"), ensure_ascii=is_terminal) + "\n")
        stream.flush()

    return Events(write)
