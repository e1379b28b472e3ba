"""Predicates: for which rows of a record frame a transform is meant.

Owns Connect's three by their names, as conditions on columns. Must import without pyspark, and must not know the
transforms. Counterpart: org.apache.kafka.connect.transforms.predicates.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from ottla.pipeline import java_regex
from ottla.pipeline.declared import NON_EMPTY_TEXT, REQUIRED, Declared, class_of, named_parts
from ottla.pipeline.settings import Settings
from ottla.wire.config_def import Check, ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PACKAGE: Final = "org.apache.kafka.connect.transforms.predicates"


class Predicate(Declared):
    """A condition on rows."""

    @abstractmethod
    def holds(self, frame: "DataFrame") -> "Column":
        """Return a truth for each row, never null."""


class HasHeaderKey(Predicate):
    """Holds for records that have a header of this name."""

    header = ConfigKey("name", ConfigType.STRING, REQUIRED, NON_EMPTY_TEXT, "Name of the header, in its very case.")

    def holds(self, frame: "DataFrame") -> "Column":
        """Look through the headers."""
        from pyspark.sql import functions as fn

        found = fn.exists(fn.col("headers"), lambda header: header["key"] == self.header)
        return fn.coalesce(found, fn.lit(False))


class RecordIsTombstone(Predicate):
    """Holds for records without a value."""

    def holds(self, frame: "DataFrame") -> "Column":
        """Look at the value alone."""
        from pyspark.sql import functions as fn

        return fn.col("value").isNull()


class TopicNameMatches(Predicate):
    """Holds for records of topics whose whole name a regular expression matches."""

    pattern = ConfigKey(
        "pattern",
        ConfigType.STRING,
        REQUIRED,
        Check("Java regular expression", lambda text: java_regex.JAVA_REGEX.fault(text) if text else "is empty"),
        "Regular expression of Java.",
    )

    def holds(self, frame: "DataFrame") -> "Column":
        """Match the topic; a record without one has no such name."""
        from pyspark.sql import functions as fn

        java_regex.check_in_spark(frame.sparkSession, self.settings, "pattern", self.pattern)
        return fn.coalesce(fn.col("topic").rlike(java_regex.whole(self.pattern)), fn.lit(False))


PREDICATES: Final[dict[str, type[Predicate]]] = {
    each.__name__: each for each in (HasHeaderKey, RecordIsTombstone, TopicNameMatches)
}


def read_predicates(job: Settings) -> dict[str, Predicate]:
    """Read all that a job names in `predicates`; JobError for what cannot stand."""
    read = {}
    for name, part in named_parts(job, "predicates").items():
        read[name] = class_of(part, PREDICATES, PACKAGE)(part)
        part.finish()
    return read
