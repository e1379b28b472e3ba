"""HoistField: wraps keys or values into a struct."""

from typing import TYPE_CHECKING

from ottla.pipeline.declared import REQUIRED
from ottla.pipeline.transforms.transform import Change, PartTransform
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class HoistField(PartTransform):
    """Put the key or value into a struct, as its only field; null becomes a struct whose field is null."""

    field = ConfigKey[str]("field", ConfigType.STRING, REQUIRED, doc="Name of that field.")

    def change(self, frame: "DataFrame") -> Change:
        """Make the struct."""
        from ottla.pipeline.transforms import fields

        whole = fields.top(frame, self.part)
        hoisted = fields.struct_of([fields.Field(self.field, whole.column, metadata=whole.metadata)])
        return Change({self.part: hoisted}, metadata={self.part: {}})
