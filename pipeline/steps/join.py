"""`kind = "join"`: rows of two streams that are near in time, or of a stream and a table.

Counterparts in Kafka: KStream's join, leftJoin and outerJoin, with JoinWindows, with a KTable and a GlobalKTable.
"""

from typing import Final

from ottla.pipeline.settings import Settings
from ottla.pipeline.steps.step import (
    TIME,
    DataFrame,
    OneViewStep,
    Views,
    optional_duration,
    with_watermark,
)

_TYPES: Final = {"inner": "inner", "left": "left", "outer": "full_outer"}


class Join(OneViewStep):
    """The view `from` with the view `with`: rows for which `on` is true, and that are `within` a time of each other."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.other = settings.text("with")
        if self.other == self.source:
            raise settings.wrong("with", f"is to be another view than {self.source}")
        self.type = settings.choice("type", list(_TYPES), "inner")
        self.on = settings.text("on")
        self.select = settings.texts("select")
        self.within = optional_duration(settings, "within")
        self.watermark = optional_duration(settings, "watermark")
        self.is_stateful = self.within is not None

    def reads(self) -> dict[str, str]:
        """Both views."""
        return {**super().reads(), "with": self.other}

    def check(self, *, with_stream: bool) -> None:
        """Refuse what a join with a stream lacks, or what one with a table cannot have."""
        for key, value in (("within", self.within), ("watermark", self.watermark)):
            if with_stream and value is None:
                raise self.settings.wrong(key, f"is missing: {self.other} is a stream")
            if not with_stream and value is not None:
                raise self.settings.wrong(key, f"is for streams, and {self.other} is a table")
        if self.type == "outer" and not with_stream:
            raise self.settings.wrong("type", f"is to be inner or left, as {self.other} is a table")

    def apply(self, views: Views) -> DataFrame:
        """The columns that are selected, of the rows that belong together."""
        from pyspark.sql import functions

        here, there = views[self.source], views[self.other]
        if here.isStreaming:
            self.check(with_stream=there.isStreaming)
        condition = f"({self.on})"
        if self.within:
            apart = f"{self.source}.{TIME} {{}} INTERVAL '{self.within}'"
            condition += f" AND {self.other}.{TIME} BETWEEN {apart.format('-')} AND {apart.format('+')}"
        left = with_watermark(here, self.watermark, self.settings).alias(self.source)
        right = with_watermark(there, self.watermark, self.settings).alias(self.other)
        joined = left.join(right, functions.expr(condition), _TYPES[self.type])
        return joined.selectExpr(*self.select)
