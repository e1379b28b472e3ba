"""InsertField: puts what is known of a record, or a constant, into keys or values."""

import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ottla.pipeline.transforms.transform import Change, PartTransform
from ottla.pipeline.transforms.unused import REPLACE_NULL_WITH_DEFAULT
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SUFFIX = " `!` behind the name means: never null; `?`, as nothing: may be null."
# What Connect calls the type of each, where it says that one is missing.
_TYPES = {"topic": "STRING", "partition": "INT32", "offset": "INT64", "timestamp": "INT64", "static": "STRING"}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ZEROS: dict[str, object] = {"topic": "", "partition": 0, "offset": 0, "timestamp": _EPOCH, "static": ""}


class _Spec(NamedTuple):
    name: str
    is_required: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(text[:-1] if text[-1:] in ("!", "?") else text, text.endswith("!"))


def _key(name: str, doc: str) -> ConfigKey[str | None]:
    return ConfigKey(name, ConfigType.STRING, None, doc=doc)


class InsertField(PartTransform):
    """Add fields with what is known of the record, or with a constant.

    Into a map go texts where its values are texts, and numbers where they are longs; a timestamp is then milliseconds.
    A required field that is null makes the record a bad one here, not in the format.
    """

    topic = _key("topic.field", "Name of a field for the topic." + _SUFFIX)
    partition = _key("partition.field", "Name of a field for the partition." + _SUFFIX)
    offset = _key("offset.field", "Name of a field for the offset, null where records come from no topic." + _SUFFIX)
    timestamp = _key("timestamp.field", "Name of a field for the record's timestamp." + _SUFFIX)
    static = _key("static.field", "Name of a field for the constant." + _SUFFIX)
    static_value = _key("static.value", "The constant, a text.")
    replace_null_with_default = REPLACE_NULL_WITH_DEFAULT

    def prepare(self) -> None:
        """Insist on one field, and on a value for the constant."""
        texts = {of: self.values[f"{of}.field"] for of in _TYPES}
        self.specs = {of: _Spec.parse(text) for of, text in texts.items() if text is not None}
        if not self.specs:
            raise self.settings.wrong("topic.field", "is missing, and so is every other field to insert")
        if "static" in self.specs and self.static_value is None:
            raise self.settings.wrong("static.value", "is missing for static.field")

    def change(self, frame: "DataFrame") -> Change:
        """Append the fields to a struct, or put the entries into a map."""
        from ottla.pipeline.transforms import fields

        whole = fields.top(frame, self.part)
        if fields.is_map(whole.type):
            return Change({self.part: self._with_entries(whole)})
        if not fields.is_struct(whole.type):
            raise self.unfit("a struct or a map", whole.type)
        return self._with_fields(whole)

    def _with_fields(self, whole: Any) -> Change:
        from pyspark.sql import functions as fn

        from ottla.pipeline.transforms import fields

        made, failures = fields.fields_of(whole), []
        for of, spec in self.specs.items():
            if spec.name in {each.name for each in made}:
                raise self.settings.wrong(f"{of}.field", f"makes two fields of the name {spec.name}")
            column = fn.lit(self.static_value) if of == "static" else fn.col(of)
            if spec.is_required:
                text = f'Invalid value: null used for required field: "{spec.name}", schema type: {_TYPES[of]}'
                failures.append(fn.when(whole.column.isNotNull() & column.isNull(), fn.lit(text)))
                # What stands in for null is not seen, for that row fails; but so the field's type says "never null".
                column = fn.coalesce(column, fn.lit(_ZEROS[of]))
            else:
                column = fields.unless_null(whole.column, column)
            made.append(fields.Field(spec.name, column))
        failure = fn.coalesce(*failures) if failures else None
        return Change({self.part: fields.unless_null(whole.column, fields.struct_of(made))}, failure)

    def _with_entries(self, whole: Any) -> "Column":
        from pyspark.sql import functions as fn
        from pyspark.sql.types import LongType, StringType

        from ottla.pipeline.transforms import fields

        made = whole.column
        for of, spec in self.specs.items():
            column = fn.lit(self.static_value) if of == "static" else fn.col(of)
            column = fn.unix_millis(column) if of == "timestamp" else column
            if isinstance(whole.type.valueType, StringType) or (
                isinstance(whole.type.valueType, LongType) and _TYPES[of] != "STRING"
            ):
                column = column.cast(whole.type.valueType)
            else:
                raise self.settings.wrong(
                    f"{of}.field", f"does not fit into a {self.part} of {whole.type.simpleString()}"
                )
            put = fields.with_entry(made, spec.name, column)
            # Connect puts no partition and no timestamp where there is none, but a null for the others.
            made = fn.when(column.isNull(), made).otherwise(put) if of in ("partition", "timestamp") else put
        return made
