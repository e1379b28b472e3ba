"""The key that many transforms have and that means nothing here: fields of Spark's structs have no defaults."""

from typing import Final

from ottla.wire.config_def import ConfigKey, ConfigType

REPLACE_NULL_WITH_DEFAULT: Final = ConfigKey(
    "replace.null.with.default",
    ConfigType.BOOLEAN,
    True,
    doc="Whether null becomes the default of a field that has one; without effect, as Spark's have none.",
)
