"""ValueToKey: makes keys of fields of values."""

from typing import TYPE_CHECKING

from ottla.pipeline.declared import NON_EMPTY_LIST, REQUIRED
from ottla.pipeline.transforms.transform import Change, Transform
from ottla.pipeline.transforms.unused import REPLACE_NULL_WITH_DEFAULT
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ValueToKey(Transform):
    """Make a new key of some fields of the value, which keeps them."""

    fields = ConfigKey[tuple[str, ...]](
        "fields",
        ConfigType.LIST,
        REQUIRED,
        NON_EMPTY_LIST,
        "Names of the fields.",
    )
    replace_null_with_default = REPLACE_NULL_WITH_DEFAULT

    def change(self, frame: "DataFrame") -> Change:
        """Take the fields out of a struct, or the entries out of a map."""
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms import fields

        value = fields.top(frame, "value")
        failure = fields.failure_of_null(value.column, "copying fields from value to key")
        if fields.is_map(value.type):
            entries = [part for name in self.fields for part in (fn.lit(name), value.column[name])]
            return Change({"key": fn.create_map(*entries)}, failure, {"key": {}})
        if not fields.is_struct(value.type):
            raise self.settings.wrong("type", f"needs a value with fields, not {value.type.simpleString()}")
        found = {field.name: field for field in fields.fields_of(value)}
        for name in self.fields:
            if name not in found:
                raise self.settings.wrong("fields", f"names {name}, which the value has not")
        return Change({"key": fields.struct_of([found[name] for name in self.fields])}, failure, {"key": {}})
