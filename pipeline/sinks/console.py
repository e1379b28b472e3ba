"""The terminal: to see what comes.

Owns its keys. A batch that is replayed is shown again: nothing remembers what a terminal has shown. Counterpart in
Kafka: the console consumer.
"""

import sys
from typing import Any

from ottla.pipeline.settings import Settings
from ottla.pipeline.sinks.sink import Sink


class ConsoleSink(Sink):
    """Shows `numRows` rows of each batch, with values cut off unless `truncate` is false."""

    takes_nulls = True

    def __init__(self, settings: Settings) -> None:
        self._rows = settings.integer("numRows", 20, least=1)
        self._truncates = settings.truth("truncate", default=True)

    def write(self, batch: Any, query_id: str, batch_id: int) -> None:
        """Show rows."""
        # Read the whole batch, once: a row that is not shown may be a bad one, and counts.
        batch.persist()
        try:
            batch.count()
            sys.stdout.write(f"batch {batch_id}\n")
            batch.show(self._rows, self._truncates)
        finally:
            batch.unpersist()
