"""ReplaceField: leaves out fields of keys or values, and names them anew."""

from typing import TYPE_CHECKING

from ottla.pipeline.transforms.transform import Change, PartTransform
from ottla.pipeline.transforms.unused import REPLACE_NULL_WITH_DEFAULT
from ottla.wire.config_def import Check, ConfigKey, ConfigType, Importance

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _fault(renames: tuple[str, ...]) -> str | None:
    for each in renames:
        if each.count(":") != 1 or each.endswith(":"):
            return f"is to be a list of old:new, not {each}"
    return None


class ReplaceField(PartTransform):
    """Leave out or rename fields of a struct, or entries of a map."""

    exclude = ConfigKey[tuple[str, ...]](
        "exclude", ConfigType.LIST, (), doc="Fields to leave out, even if they are included."
    )
    include = ConfigKey[tuple[str, ...]](
        "include", ConfigType.LIST, (), doc="Fields to keep, and no others; none: all."
    )
    renames = ConfigKey[tuple[str, ...]](
        "renames",
        ConfigType.LIST,
        (),
        Check("list of `old:new`", _fault),
        "Old and new name of fields that are kept.",
    )
    blacklist = ConfigKey[tuple[str, ...]](
        "blacklist", ConfigType.LIST, (), doc="The name of `exclude` until Kafka 3.9.", importance=Importance.LOW
    )
    whitelist = ConfigKey[tuple[str, ...]](
        "whitelist", ConfigType.LIST, (), doc="The name of `include` until Kafka 3.9.", importance=Importance.LOW
    )
    replace_null_with_default = REPLACE_NULL_WITH_DEFAULT

    def prepare(self) -> None:
        """Take the renames to pieces; newer names count before older ones."""
        self.excluded, self.included = self.exclude or self.blacklist, self.include or self.whitelist
        self.new_names = dict(each.split(":") for each in self.renames)

    def keeps(self, name: str) -> bool:
        """Tell whether a field stays."""
        return name not in self.excluded and (not self.included or name in self.included)

    def change(self, frame: "DataFrame") -> Change:
        """Make a struct of the fields that stay, or a map of the entries."""
        from ottla.pipeline.transforms import fields

        whole = fields.top(frame, self.part)
        if fields.is_map(whole.type):
            return Change({self.part: self._entries(whole.column)})
        if not fields.is_struct(whole.type):
            raise self.unfit("a struct or a map", whole.type)
        kept = [each for each in fields.fields_of(whole) if self.keeps(each.name)]
        renamed = [
            fields.Field(self.new_names.get(each.name, each.name), each.column, metadata=each.metadata) for each in kept
        ]
        try:
            made = fields.struct_of(renamed)
        except ValueError as error:
            raise self.settings.wrong("renames", str(error)) from None
        return Change({self.part: fields.unless_null(whole.column, made)})

    def _entries(self, whole: "Column") -> "Column":
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms import fields

        dropped = [*self.excluded, *self.new_names]
        kept = fields.without_entries(whole, dropped)
        if self.included:
            kept = fn.map_filter(kept, lambda name, _: name.isin(list(self.included)))
        for old, new in self.new_names.items():
            if self.keeps(old):
                there = fn.map_contains_key(whole, old)
                kept = fn.when(there, fields.with_entry(kept, new, whole[old])).otherwise(kept)
        return kept
