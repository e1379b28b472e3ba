"""Record frames for tests, and formats as a job file has them."""

from collections.abc import Iterable
from typing import Any

from ottla.pipeline.formats import Format, read_format
from ottla.pipeline.record_frame import from_kafka
from ottla.pipeline.settings import Settings

KAFKA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int,"
    " headers array<struct<key: string, value: binary>>"
)


def records(spark: Any, values: Iterable[bytes | None], key: bytes | None = None) -> Any:
    """Return the record frame of a topic in whose partition 3 these values stand."""
    headers = [("from", b"test")]
    rows = [(key, value, "orders", 3, offset, None, 0, headers) for offset, value in enumerate(values)]
    return from_kafka(spark.createDataFrame(rows, KAFKA).coalesce(1))


def made(**values: object) -> Format:
    """Return the format that a job asks for; dots of keys are underscores."""
    return read_format(Settings({key.replace("_", "."): each for key, each in values.items()}, "job.toml", "value."))


def seen(frame: Any) -> list[tuple[Any, str | None]]:
    """Return values and messages, in the order of offsets."""
    found = sorted(frame.select("offset", "value", "error").collect(), key=lambda row: int(row.offset))
    return [(row.value, row.error and row.error.message) for row in found]
