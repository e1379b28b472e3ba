"""RegexRouter: names topics anew by a regular expression."""

from typing import TYPE_CHECKING

from ottla.pipeline import java_regex
from ottla.pipeline.declared import REQUIRED
from ottla.pipeline.transforms.transform import Change, Transform
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RegexRouter(Transform):
    """Name the topic anew where a regular expression matches its whole name."""

    regex = ConfigKey[str]("regex", ConfigType.STRING, REQUIRED, java_regex.JAVA_REGEX, "Regular expression of Java.")
    replacement = ConfigKey[str](
        "replacement", ConfigType.STRING, REQUIRED, doc="The new name; `$1` is what the first group matched."
    )

    def change(self, frame: "DataFrame") -> Change:
        """Replace the first match in topics that match as a whole: it is at their beginning."""
        from pyspark.sql import functions as fn

        java_regex.check_in_spark(frame.sparkSession, self.settings, "regex", self.regex, self.replacement)
        topic = fn.col("topic")
        replaced = fn.regexp_replace(topic, rf"\A(?:{self.regex})", self.replacement)
        return Change({"topic": fn.when(topic.rlike(java_regex.whole(self.regex)), replaced).otherwise(topic)})
