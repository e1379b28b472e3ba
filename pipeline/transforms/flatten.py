"""Flatten: makes one struct of structs in structs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.pipeline.transforms.transform import Change, PartTransform
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Flatten(PartTransform):
    """Flatten a nested struct: each name is made of the names on its way, with a delimiter between.

    Arrays stay as they are. A map stays as it is too, unless its values are maps or structs, which are refused.
    """

    delimiter = ConfigKey(
        "delimiter",
        ConfigType.STRING,
        ".",
        doc="What stands between the names that a new name is made of.",
    )

    def change(self, frame: "DataFrame") -> Change:
        """Put the innermost fields into one struct."""
        from pyspark.sql.types import MapType, StructType

        from ottla.pipeline.transforms import fields

        whole = fields.top(frame, self.part)
        if fields.is_map(whole.type) and not isinstance(whole.type.valueType, MapType | StructType):
            return Change({self.part: whole.column})
        if not fields.is_struct(whole.type):
            raise self.unfit("a struct, or a map without structs and maps in it", whole.type)
        try:
            flat = fields.struct_of(self._innermost(whole, ""))
        except ValueError as error:
            raise self.settings.wrong("delimiter", str(error)) from None
        return Change({self.part: fields.unless_null(whole.column, flat)})

    def _innermost(self, struct: Any, prefix: str) -> Iterator[Any]:
        from pyspark.sql.types import MapType

        from ottla.pipeline.transforms import fields

        for each in fields.fields_of(struct):
            name = prefix + each.name
            if fields.is_struct(each.type):
                yield from self._innermost(each, name + self.delimiter)
            elif isinstance(each.type, MapType):
                raise self.unfit(f"without maps in it ({name})", struct.type)
            else:
                yield fields.Field(name, each.column, metadata=each.metadata)
