"""What tests of sources and sinks share: keys as in a job's file, and streams that run until all is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.pipeline.settings import Settings

Rows = list[tuple[Any, ...]]


def keys(prefix: str, **values: object) -> Settings:
    """Keys of a part of a job, with "_" where they have a dot."""
    return Settings({key.replace("_", "."): value for key, value in values.items()}, "job.toml", f"{prefix}.")


def batches(frame: Any, checkpoint: Path, and_then: Callable[[], None] = lambda: None) -> list[Rows]:
    """Stream all that there is; return the rows of each batch, in order. `and_then` is called at the end of each."""
    found: list[Rows] = []

    def note(batch: Any, _: int) -> None:
        found.append(sorted(map(tuple, batch.collect())))
        and_then()

    writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    return [rows for rows in found if rows]
