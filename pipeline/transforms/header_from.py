"""HeaderFrom: makes headers of fields."""

from typing import TYPE_CHECKING, Any

from ottla.pipeline.declared import NON_EMPTY_LIST, REQUIRED
from ottla.pipeline.transforms.transform import Change, PartTransform
from ottla.pipeline.transforms.unused import REPLACE_NULL_WITH_DEFAULT
from ottla.wire.config_def import ConfigKey, ConfigType, OneOf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class HeaderFrom(PartTransform):
    """Make headers of fields of a struct, or of entries of a map.

    A header's value is the text that Connect's SimpleHeaderConverter writes; a null field makes a header without one.
    """

    fields = ConfigKey[tuple[str, ...]](
        "fields",
        ConfigType.LIST,
        REQUIRED,
        NON_EMPTY_LIST,
        "Names of the fields.",
    )
    headers = ConfigKey[tuple[str, ...]](
        "headers",
        ConfigType.LIST,
        REQUIRED,
        NON_EMPTY_LIST,
        "Name of the header for each field, in the order of `fields`.",
    )
    operation = ConfigKey[str](
        "operation",
        ConfigType.STRING,
        REQUIRED,
        OneOf("move", "copy"),
        "Whether the key or value loses the fields.",
    )
    replace_null_with_default = REPLACE_NULL_WITH_DEFAULT

    def prepare(self) -> None:
        """Insist on a header for each field."""
        if len(self.fields) != len(self.headers):
            raise self.settings.wrong("headers", f"names {len(self.headers)} for {len(self.fields)} fields")

    def change(self, frame: "DataFrame") -> Change:
        """Append headers; leave the fields out where they are moved."""
        from ottla.pipeline.transforms import fields
        from ottla.pipeline.transforms.headers import header_value, with_headers

        whole = fields.top(frame, self.part)
        found: dict[str, Any]
        if fields.is_map(whole.type):
            found = {name: fields.Field(name, whole.column[name], whole.type.valueType) for name in self.fields}
            rest = fields.without_entries(whole.column, self.fields)
        elif fields.is_struct(whole.type):
            found = {each.name: each for each in fields.fields_of(whole)}
            rest = fields.struct_of(each for each in found.values() if each.name not in self.fields)
        else:
            raise self.unfit("a struct or a map", whole.type)
        for name in self.fields:
            if name not in found:
                raise self.settings.wrong("fields", f"names {name}, which the {self.part} has not")
        try:
            values = [header_value(found[name]) for name in self.fields]
        except ValueError as error:
            raise self.settings.wrong("fields", str(error)) from None
        columns = {"headers": with_headers(list(zip(self.headers, values, strict=True)))}
        if self.operation == "move":
            columns[self.part] = rest
        return Change(columns, fields.failure_of_null(whole.column, f"header {self.operation}"))
