"""Cast: gives fields, or whole keys and values, other types."""

from typing import TYPE_CHECKING, Final

from ottla.pipeline.declared import REQUIRED
from ottla.pipeline.transforms.transform import Change, PartTransform
from ottla.pipeline.transforms.unused import REPLACE_NULL_WITH_DEFAULT
from ottla.wire.config_def import Check, ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TARGETS: Final = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")


def _fault(spec: tuple[str, ...]) -> str | None:
    for each in spec:
        target = each.rpartition(":")[2].strip().lower()
        if each.count(":") > 1 or target not in _TARGETS:
            return f"is to be field:type or a type, of {', '.join(_TARGETS)}, not {each}"
        if ":" not in each and len(spec) > 1:
            return "names a type for the whole and more beside it"
    return None if spec else "names nothing"


class Cast(PartTransform):
    """Give fields, or the whole key or value, another type; integers that are too large lose their upper bits.

    Binary can only become a string, in base64. Dates and times become strings as Connect writes them in UTC, decimals
    without an exponent; a decimal beyond 64 bits cannot become an integer. Fields of a map have one type, so that they
    cannot be cast.
    """

    spec = ConfigKey[tuple[str, ...]](
        "spec",
        ConfigType.LIST,
        REQUIRED,
        Check("list of `field:type`, or a type", _fault),
        f"The types: {', '.join(_TARGETS)}.",
    )
    replace_null_with_default = REPLACE_NULL_WITH_DEFAULT

    def prepare(self) -> None:
        """Take the pairs to pieces; the type of the whole has no name."""
        pairs = (each.rpartition(":") for each in self.spec)
        self.targets = {name.strip(): target.strip().lower() for name, _, target in pairs}

    def change(self, frame: "DataFrame") -> Change:
        """Cast the whole, or some of its fields."""
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms import fields
        from ottla.pipeline.transforms.casting import casted

        whole = fields.top(frame, self.part)
        failures: list[Column] = []

        def new(field: fields.Field, target: str) -> "Column":
            try:
                made = casted(field, target)
            except ValueError as error:
                raise self.settings.wrong("spec", f"cannot be: {field.name} of type {error}") from None
            shown = fn.concat(
                fn.lit("Value ("), field.column.cast("string"), fn.lit(") was out of range for requested data type")
            )
            failures.append(fn.when(field.column.isNotNull() & made.isNull(), shown))
            return made

        if "" in self.targets:
            column = new(whole, self.targets[""])
        elif fields.is_struct(whole.type):
            cast = [
                fields.Field(each.name, new(each, self.targets[each.name])) if each.name in self.targets else each
                for each in fields.fields_of(whole)
            ]
            column = fields.unless_null(whole.column, fields.struct_of(cast))
        else:
            raise self.unfit("a struct", whole.type)
        return Change({self.part: column}, fn.coalesce(*failures) if failures else None)
