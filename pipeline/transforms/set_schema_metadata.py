"""SetSchemaMetadata: gives the schema of keys or values a name and a version."""

from typing import TYPE_CHECKING

from ottla.pipeline.transforms.transform import SCHEMA_NAME, SCHEMA_VERSION, Change, PartTransform
from ottla.pipeline.transforms.unused import REPLACE_NULL_WITH_DEFAULT
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SetSchemaMetadata(PartTransform):
    """Name the schema of keys or values, or give it a version, or both.

    They become the column's metadata `connect.name` and `connect.version`, for formats that write names. A column has
    them for all of its rows, so that there can be no predicate.
    """

    name = ConfigKey[str | None]("schema.name", ConfigType.STRING, None, doc="The name.")
    version = ConfigKey[int | None]("schema.version", ConfigType.INT, None, doc="The version.")
    replace_null_with_default = REPLACE_NULL_WITH_DEFAULT

    def prepare(self) -> None:
        """Insist on one of both, for every row."""
        if self.name is None and self.version is None:
            raise self.settings.wrong("schema.name", "is missing, and so is schema.version")
        if "predicate" in self.settings:
            raise self.settings.wrong("predicate", "cannot be: all rows of a column have one schema name")

    def change(self, frame: "DataFrame") -> Change:
        """Change nothing but the metadata."""
        from pyspark.sql import functions as fn

        new = {SCHEMA_NAME: self.name, SCHEMA_VERSION: self.version}
        metadata = {
            **frame.schema[self.part].metadata,
            **{key: value for key, value in new.items() if value is not None},
        }
        return Change({self.part: fn.col(self.part)}, metadata={self.part: metadata})
