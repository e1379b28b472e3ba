"""TimestampRouter: names topics by the time of records."""

import re
from typing import TYPE_CHECKING

from ottla.pipeline.transforms.java_dates import JAVA_DATE_FORMAT, tokens
from ottla.pipeline.transforms.transform import Change, Transform
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TimestampRouter(Transform):
    """Name the topic by its old name and the time of the record, in UTC.

    Names of months and days are English, where Connect takes the worker's language.
    """

    topic_format = ConfigKey(
        "topic.format",
        ConfigType.STRING,
        "${topic}-${timestamp}",
        doc="The new name; `${topic}` is the old one, `${timestamp}` the time.",
    )
    timestamp_format = ConfigKey(
        "timestamp.format",
        ConfigType.STRING,
        "yyyyMMdd",
        JAVA_DATE_FORMAT,
        "How the time is written.",
    )

    def change(self, frame: "DataFrame") -> Change:
        """Put the pieces of the format together."""
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms.dates import formatted

        topic, timestamp = fn.col("topic"), fn.col("timestamp")
        values = {
            "${topic}": topic,
            "${timestamp}": formatted(fn.unix_millis(timestamp), tokens(self.timestamp_format)),
        }
        pieces = re.split(r"(\$\{topic\}|\$\{timestamp\})", self.topic_format)
        routed = fn.concat(*(values.get(piece, fn.lit(piece)) for piece in pieces))
        failure = fn.when(timestamp.isNull(), fn.concat(fn.lit("Timestamp missing on record of topic "), topic))
        return Change({"topic": routed}, failure)
