"""So many rows a second, numbered: Spark's own source, to try out all that comes behind it.

Owns its keys. Counterpart in Kafka: ProducerPerformance's throughput, kafka-verifiable-producer.
"""

from typing import Any

from ottla.pipeline.settings import Settings
from ottla.pipeline.sources.source import Source


class RateSource(Source):
    """Rows of `timestamp` and `value`, which counts from 0."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rows_per_second = settings.integer("rowsPerSecond", 1, least=1)

    def load(self, spark: Any, *, streaming: bool, checkpoint: str = "") -> Any:
        """Rows as time goes by; there are none at once."""
        if not streaming:
            raise self._settings.wrong("type", "rate only streams")
        return spark.readStream.format("rate").option("rowsPerSecond", self._rows_per_second).load()
