"""`kind = "aggregate"` and `kind = "window"`: one row for each key, or for each key and window.

Owns when rows leave: with every change, or once when their window is closed. Counterparts in Kafka: KGroupedStream,
TimeWindowedKStream, SessionWindowedKStream, Suppressed.
"""

from typing import Final

from ottla.pipeline.settings import Settings
from ottla.pipeline.steps.step import (
    TIME,
    DataFrame,
    OneViewStep,
    Views,
    duration,
    milliseconds,
    optional_duration,
)

START: Final = "window_start"
END: Final = "window_end"


class Aggregate(OneViewStep):
    """`aggregates` (names and SQL) for each value of `group_by`, over all time: what changes leaves anew."""

    updates = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.group_by = settings.texts("group_by")
        self.aggregates = settings.part("aggregates").all_texts()
        if not self.aggregates:
            raise settings.wrong("aggregates", "is missing")

    def apply(self, views: Views) -> DataFrame:
        """One row for each key: its columns, those of the aggregates, and the newest timestamp."""
        return self._aggregated(views[self.source], [])

    def _aggregated(self, frame: DataFrame, windows: list[DataFrame]) -> DataFrame:
        from pyspark.sql import functions

        keys = [functions.expr(each) for each in self.group_by]
        results = [functions.expr(sql).alias(name) for name, sql in self.aggregates.items()]
        if TIME in frame.columns and TIME not in self.aggregates:
            results.append(functions.max(TIME).alias(TIME))
        return frame.groupBy(*windows, *keys).agg(*results)


class Window(Aggregate):
    """The same for each window: of a `size`, every `advance` where they hop, or with a `session_gap` behind it.

    The end of a session is its last record, as in Kafka Streams.
    """

    needs_watermark = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.session_gap = optional_duration(settings, "session_gap")
        if self.session_gap is None:
            self.size = duration(settings, "size")
            self.advance = optional_duration(settings, "advance")
            if self.advance and not 0 < milliseconds(self.advance) <= milliseconds(self.size):
                raise settings.wrong("advance", f"is to be more than nothing and at most {self.size}")
        elif not self.group_by:
            raise settings.wrong("group_by", "is empty, but a session belongs to a key")
        elif not milliseconds(self.session_gap):
            # Spark would leave out all records.
            raise settings.wrong("session_gap", "is to be more than nothing")
        self.watermark = optional_duration(settings, "watermark")
        self.updates = (
            settings.choice("emit", ["updates", "final"], "final" if self.session_gap else "updates") == "updates"
        )
        if self.session_gap and self.updates:
            raise settings.wrong("emit", "is to be final: Spark tells of a session only once it has ended")

    def apply(self, views: Views) -> DataFrame:
        """One row for each key and window; one that is closed has the window's time, for windows that follow."""
        from pyspark.sql import functions

        frame = self._with_watermark(views)
        if self.session_gap:
            window = functions.session_window(TIME, self.session_gap)
            end = functions.expr(f"window.end - INTERVAL '{self.session_gap}'")
        else:
            window = functions.window(TIME, self.size, self.advance)
            end = functions.expr("window.end")
        found = self._aggregated(frame, [window.alias("window")])
        if not self.updates and TIME not in self.aggregates:
            found = found.withColumn(TIME, functions.window_time("window"))
        return found.withColumns({START: functions.expr("window.start"), END: end}).drop("window")
