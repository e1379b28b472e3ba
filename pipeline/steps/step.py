"""What all steps have: the views that they read and make, durations, and the time of events.

Owns the names of the record frame's columns, and where watermarks are put. Must not know the kinds of steps.
Counterparts in Kafka: ProcessorNode, TimestampExtractor, and the grace of TimeWindows and JoinWindows.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ottla.pipeline.settings import Settings

# PySpark's, which is not needed to read steps.
DataFrame: TypeAlias = Any
Views: TypeAlias = Mapping[str, DataFrame]

RECORDS: Final = "records"
TIME: Final = "timestamp"
# What a view of records shows; `error` and `original` are for those who put bad records aside.
COLUMNS: Final = ("key", "value", "topic", "partition", "offset", TIME, "headers")
_WATERMARK: Final = "spark.watermarkDelayMs"
_UNITS_MS: Final = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_AMOUNT: Final = re.compile(rf"(\d+) *({'|'.join(_UNITS_MS)})s?")


class Step:
    """Makes the view `name` (`records` unless said otherwise) of others. Reads its settings when it is made."""

    # Whether it makes rows anew that it has made already, so that nothing that keeps state may follow.
    updates = False
    is_stateful = True
    watermark: str | None = None
    needs_watermark = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = identifier(settings, "name", RECORDS)

    def reads(self) -> dict[str, str]:
        """The views that it names, by the keys that name them."""
        return {}

    def apply(self, views: Views) -> DataFrame:
        """The view that it makes."""
        raise NotImplementedError


class OneViewStep(Step):
    """A step that reads the view `from`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.source = settings.text("from", RECORDS)

    def reads(self) -> dict[str, str]:
        """The view that it names."""
        return {"from": self.source}

    def _with_watermark(self, views: Views) -> DataFrame:
        """The view, with the watermark of this step or of an earlier one."""
        frame = views[self.source]
        if has_watermark(frame):
            if self.watermark:
                raise self.settings.wrong("watermark", "was said by an earlier step, and stays")
        elif frame.isStreaming and self.needs_watermark and not self.watermark:
            raise self.settings.wrong("watermark", "is missing")
        return with_watermark(frame, self.watermark, self.settings)


def has_watermark(frame: DataFrame) -> bool:
    """Say whether a frame's timestamp has a watermark."""
    return TIME in frame.columns and _WATERMARK in frame.schema[TIME].metadata


def with_watermark(frame: DataFrame, watermark: str | None, settings: Settings) -> DataFrame:
    """A frame whose timestamp has a watermark, unless there is none to put or it has one."""
    if watermark is None or not frame.isStreaming or has_watermark(frame):
        return frame
    if TIME not in frame.columns:
        raise settings.wrong("watermark", f"finds no column {TIME}")
    return frame.withWatermark(TIME, watermark)


def duration(settings: Settings, key: str) -> str:
    """A duration as Spark's SQL has it: "1 hour 30 minutes"."""
    text = settings.text(key)
    if not re.fullmatch(rf"{_AMOUNT.pattern}( +{_AMOUNT.pattern})*", text):
        raise settings.wrong(key, f'is to be a duration such as "10 minutes", not {text!r}')
    return text


def optional_duration(settings: Settings, key: str) -> str | None:
    """A duration, or None where there is none."""
    return None if settings.optional(key) is None else duration(settings, key)


def milliseconds(text: str) -> int:
    """How long a duration is."""
    return sum(int(amount) * _UNITS_MS[unit] for amount, unit in _AMOUNT.findall(text))


def identifier(settings: Settings, key: str, default: str | None = None) -> str:
    """A name that SQL takes without quotes."""
    name = settings.text(key, default)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise settings.wrong(key, f"is to be a name of letters, digits and _, not {name!r}")
    return name
