"""ExtractField: takes one field out of keys or values."""

from typing import TYPE_CHECKING

from ottla.pipeline.declared import REQUIRED
from ottla.pipeline.transforms.field_path import FIELD_SYNTAX_VERSION, steps
from ottla.pipeline.transforms.transform import Change, PartTransform
from ottla.pipeline.transforms.unused import REPLACE_NULL_WITH_DEFAULT
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ExtractField(PartTransform):
    """Put a field of a struct, or an entry of a map, into the place of the whole; null where there is none."""

    field = ConfigKey[str]("field", ConfigType.STRING, REQUIRED, doc="Name of the field, or path to it.")
    replace_null_with_default = REPLACE_NULL_WITH_DEFAULT
    version = FIELD_SYNTAX_VERSION

    def prepare(self) -> None:
        """Take the path to pieces."""
        try:
            self.steps = steps(self.field, self.version)
        except ValueError as error:
            raise self.settings.wrong("field", str(error)) from None

    def change(self, frame: "DataFrame") -> Change:
        """Go down the path."""
        from ottla.pipeline.transforms import fields

        found = fields.top(frame, self.part)
        if not (fields.is_struct(found.type) or fields.is_map(found.type)):
            raise self.unfit("a struct or a map", found.type)
        for step in self.steps:
            if fields.is_map(found.type):
                found = fields.Field(step, found.column[step], found.type.valueType)
                continue
            below = {each.name: each for each in fields.fields_of(found)} if fields.is_struct(found.type) else {}
            if step not in below:
                raise self.settings.wrong("field", f"names {self.field}, which the {self.part} has not")
            found = below[step]
        return Change({self.part: found.column}, metadata={self.part: found.metadata})
