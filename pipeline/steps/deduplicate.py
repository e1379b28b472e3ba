"""`kind = "deduplicate"`: of the rows with the same keys the first alone.

Counterpart in Kafka: none of its own; a transformer with a window store.
"""

from ottla.pipeline.settings import Settings
from ottla.pipeline.steps.step import DataFrame, OneViewStep, Views, optional_duration


class Deduplicate(OneViewStep):
    """Rows whose `keys` (SQL) came before, no longer ago than `watermark`, are left out."""

    needs_watermark = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.keys = settings.texts("keys")
        if not self.keys:
            raise settings.wrong("keys", "is missing")
        self.watermark = optional_duration(settings, "watermark")

    def apply(self, views: Views) -> DataFrame:
        """The view without those rows."""
        from pyspark.sql import functions

        keys = {f"_key_{n}": functions.expr(sql) for n, sql in enumerate(self.keys)}
        keyed = self._with_watermark(views).withColumns(keys)
        drop = keyed.dropDuplicatesWithinWatermark if keyed.isStreaming else keyed.dropDuplicates
        return drop(list(keys)).drop(*keys)
