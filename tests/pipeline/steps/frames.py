"""Record frames for tests of steps: from files, as they are or as streams of one batch a file."""

import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.pipeline.record_frame import ERROR, HEADERS, ORIGINAL
from ottla.pipeline.settings import Settings
from ottla.pipeline.steps import Step, apply_steps, output_mode, read_steps

VALUE = "STRUCT<id: BIGINT, amount: DOUBLE>"
SCHEMA = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key STRING, "
    f"value {VALUE}, headers {HEADERS}, error {ERROR}, original {ORIGINAL}"
)
Row = dict[str, Any]


def record(key: str | None, second: int, amount: float | None = 1.0, **more: object) -> Row:
    """A record of some second after noon, or a tombstone."""
    value = None if amount is None else {"id": second, "amount": amount}
    time = f"2024-01-01T12:{second // 60:02}:{second % 60:02}Z"
    return {"topic": "in", "partition": 0, "offset": second, "timestamp": time, "key": key, "value": value, **more}


def bad(second: int) -> Row:
    """A record that could not be read."""
    error = {"stage": "VALUE_CONVERTER", "executing": "C", "class": "E", "message": f"bad {second}"}
    return {**record(None, second, None), "error": error}


def table(spark: Any, folder: Path, rows: Sequence[Row]) -> Any:
    """The frame of some records."""
    _write(folder, [rows])
    return spark.read.schema(SCHEMA).json(str(folder))


def stream(spark: Any, folder: Path, batches: Sequence[Sequence[Row]]) -> Any:
    """The frame of a stream that has these batches."""
    _write(folder, batches)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def steps(text: str, file: str = "job.toml") -> list[Step]:
    """The steps of a job's file."""
    return read_steps(Settings(tomllib.loads(text), file))


def run(frame: Any, read: list[Step], inputs: dict[str, Any], checkpoint: Path) -> list[list[Any]]:
    """The rows of each batch of a stream that has gone through steps, until there is nothing more to do."""
    found: list[list[Any]] = []
    result = apply_steps(frame, read, inputs)
    writer = result.writeStream.outputMode(output_mode(read)).option("checkpointLocation", str(checkpoint))
    query = writer.foreachBatch(lambda batch, _: found.append(batch.collect())).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(90)
    finally:
        query.stop()
    return [rows for rows in found if rows]


def _write(folder: Path, batches: Sequence[Sequence[Row]]) -> None:
    folder.mkdir()
    for number, rows in enumerate(batches):
        path = folder / f"{number}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # Spark takes the oldest first.
        os.utime(path, (number, number))
