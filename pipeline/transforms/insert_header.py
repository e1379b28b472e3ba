"""InsertHeader: puts a header on records."""

from typing import TYPE_CHECKING

from ottla.pipeline.declared import REQUIRED
from ottla.pipeline.transforms.literals import header_bytes
from ottla.pipeline.transforms.transform import Change, Transform
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class InsertHeader(Transform):
    """Append a header to those that a record has.

    The value is what Connect's SimpleHeaderConverter makes of the literal: `1.0` becomes `1`, `null` a header without
    a value, and `12:30` becomes `12`. Arrays and maps stay as they are written, where Connect leaves out blanks.
    """

    header = ConfigKey[str]("header", ConfigType.STRING, REQUIRED, doc="Name of the header.")
    literal = ConfigKey[str](
        "value.literal",
        ConfigType.STRING,
        REQUIRED,
        doc="What the header says: null, true, false, a number, a date or time, or any text.",
    )

    def change(self, frame: "DataFrame") -> Change:
        """Append the header."""
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms.headers import with_headers

        return Change({"headers": with_headers([(self.header, fn.lit(header_bytes(self.literal)))])})
