"""What every transform is: declared keys, a look at them, and columns that take the place of a record frame's.

Owns which rows a transform applies to, how a row that cannot be changed gets its error, and what becomes of the other
rows when a column changes its type. Must import without pyspark, and must not know any one transform. Counterparts in
Kafka: Transformation, TransformationStage.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from ottla.pipeline.declared import Declared, read_key
from ottla.pipeline.predicates import Predicate
from ottla.pipeline.record_frame import data_error
from ottla.pipeline.settings import Settings
from ottla.wire.config_def import ConfigDef, ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PACKAGE: Final = "org.apache.kafka.connect.transforms"
STAGE: Final = "TRANSFORMATION"
# Columns and fields carry the name and version of a Connect schema under these keys of their metadata.
SCHEMA_NAME: Final = "connect.name"
SCHEMA_VERSION: Final = "connect.version"
_FAILURE: Final = "__failure"

PREDICATE: Final = ConfigKey[str | None](
    "predicate",
    ConfigType.STRING,
    None,
    doc="Which of `predicates` has to hold for a record to be changed; none: all records are.",
)
NEGATE: Final = ConfigKey(
    "negate", ConfigType.BOOLEAN, False, doc="Whether it is to be the records for which the predicate does not hold."
)
# Every transform has these beside its own.
COMMON_CONFIG: Final = ConfigDef((PREDICATE, NEGATE))


@dataclass(frozen=True)
class Change:
    """What becomes of the rows that a transform applies to.

    `failure` is a text where a row cannot be changed, else null. A column keeps its metadata unless
    `metadata` has other. Spark computes an expression wherever it stands: what is costly and needed more than once is
    `staged`, columns that are there before the others, each stage seeing those before it.
    """

    columns: "Mapping[str, Column]"
    failure: "Column | None" = None
    metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    staged: "Sequence[Mapping[str, Column]]" = ()


class Transform(Declared):
    """One transform of a job, read and checked as far as that is possible without data."""

    def __init__(self, settings: Settings, predicates: Mapping[str, Predicate]) -> None:
        super().__init__(settings)
        self.negate = read_key(settings, NEGATE)
        self.predicate: Predicate | None = None
        name = read_key(settings, PREDICATE)
        if name is not None and name not in predicates:
            raise settings.wrong("predicate", f"names {name}, which is not among predicates")
        if name is not None:
            self.predicate = predicates[name]
        elif NEGATE.name in settings:
            raise settings.wrong("negate", "stands without a predicate")
        settings.finish()

    @abstractmethod
    def change(self, frame: "DataFrame") -> Change:
        """Say what becomes of columns; JobError where the frame's schema does not allow it."""

    def apply(self, frame: "DataFrame") -> "DataFrame":
        """Return the frame with what this transform makes of the rows that are meant and have no error."""
        from pyspark.sql import functions as fn

        change = self.change(frame)
        applies = self.applies(frame)
        becomes, staged = applies, frame
        for stage in change.staged:
            staged = staged.withColumns(dict(stage))
        if change.failure is not None:
            staged = staged.withColumn(_FAILURE, fn.when(applies, change.failure))
            becomes = applies & fn.col(_FAILURE).isNull()
        columns = {
            name: self._merged(staged, name, column, becomes).alias(
                name, metadata=dict(change.metadata.get(name, frame.schema[name].metadata))
            )
            for name, column in change.columns.items()
        }
        if change.failure is not None:
            error = data_error(STAGE, f"{PACKAGE}.{type(self).__name__}", fn.col(_FAILURE))
            columns["error"] = fn.when(fn.col(_FAILURE).isNotNull(), error).otherwise(fn.col("error")).alias("error")
        return staged.select(*(columns.get(name, fn.col(name)) for name in frame.columns))

    def applies(self, frame: "DataFrame") -> "Column":
        """Return whether a row is meant: one without an error, for which the predicate holds if there is one."""
        from pyspark.sql import functions as fn

        sound = fn.col("error").isNull()
        if self.predicate is None:
            return sound
        holds = self.predicate.holds(frame)
        return sound & (~holds if self.negate else holds)

    def _merged(self, frame: "DataFrame", name: str, column: "Column", becomes: "Column") -> "Column":
        """Return the new column where a row becomes another one, else the old one, as far as it fits the new type."""
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms import fields

        old, new = frame.schema[name].dataType, frame.select(column.alias(name)).schema[name].dataType
        if fields.same(old, new):
            return fn.when(becomes, column).otherwise(fn.col(name))
        if self.predicate is None:
            return fn.when(becomes, column)
        try:
            both = fields.unified(old, new)
        except ValueError as error:
            raise self.settings.wrong("predicate", f"leaves rows whose {name} is of another type: {error}") from None
        return fn.when(becomes, fields.fitted(column, new, both)).otherwise(fields.fitted(fn.col(name), old, both))


class PartTransform(Transform):
    """A transform that is there twice: for keys, and for values."""

    part: ClassVar[str]

    @classmethod
    def on(cls, part: str) -> type[Self]:
        """Return the class for "Key" or "Value"."""
        name = f"{cls.__name__}${part}"
        return type(name, (cls,), {"part": part.lower(), "__doc__": cls.__doc__})

    def unfit(self, needed: str, kind: Any) -> Exception:
        """Return the error of a key or value that is not of a type that is needed."""
        return self.settings.wrong("type", f"needs a {self.part} that is {needed}, not {kind.simpleString()}")
