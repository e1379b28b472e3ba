"""Schemas of keys and values: Connect's types, read from Connect's and Spark's JSON, told to both.

Owns what a type is called on either side, and which defaults fit. Must not know data. Counterparts in Kafka:
ConnectSchema, and JsonConverter's asConnectSchema and asJsonSchema.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.pipeline.names import quoted

LOGICAL: Final = "org.apache.kafka.connect.data."
DECIMAL: Final = LOGICAL + "Decimal"
DATE: Final = LOGICAL + "Date"
TIME: Final = LOGICAL + "Time"
TIMESTAMP: Final = LOGICAL + "Timestamp"
# How sources and sinks of tables tell how many digits a decimal may have; Connect itself has no bound.
PRECISION: Final = "connect.decimal.precision"
MOST_DIGITS: Final = 38
# Under these keys Spark's metadata of a column or field carries the name and version of its schema.
SCHEMA_NAME: Final = "connect.name"
SCHEMA_VERSION: Final = "connect.version"

# What JSON calls a type, what errors call it, and Spark's type for it.
_TYPES: Final = {
    "boolean": ("BOOLEAN", "BOOLEAN"),
    "int8": ("INT8", "TINYINT"),
    "int16": ("INT16", "SMALLINT"),
    "int32": ("INT32", "INT"),
    "int64": ("INT64", "BIGINT"),
    "float": ("FLOAT32", "FLOAT"),
    "double": ("FLOAT64", "DOUBLE"),
    "bytes": ("BYTES", "BINARY"),
    "string": ("STRING", "STRING"),
    "array": ("ARRAY", ""),
    "map": ("MAP", ""),
    "struct": ("STRUCT", ""),
}
# The types that these logical types are written as, and Spark's; a time of day stays its milliseconds.
_LOGICAL: Final = {
    DECIMAL: ("bytes", ""),
    DATE: ("int32", "DATE"),
    TIME: ("int32", "INT"),
    TIMESTAMP: ("int64", "TIMESTAMP"),
}


@dataclass(frozen=True)
class Schema:
    """A type, and what is said about it. `default` is what JSON has, None where there is none."""

    type: str
    optional: bool = True
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    default: Any = None
    fields: "tuple[tuple[str, Schema], ...]" = ()
    keys: "Schema | None" = None
    values: "Schema | None" = None
    """What a map holds, or an array."""
    symbols: tuple[str, ...] = ()
    """The only texts there may be (an enum of Avro)."""
    size: int | None = None
    """How many bytes there have to be (Avro's fixed)."""

    @property
    def shown_type(self) -> str:
        """The type as Connect's errors have it."""
        return _TYPES[self.type][0]

    @property
    def scale(self) -> int:
        """How many digits of a decimal stand behind its point."""
        return int(self.parameters["scale"])

    @property
    def spark_type(self) -> str:
        """Spark's type, in its DDL."""
        if self.name == DECIMAL:
            return f"DECIMAL({self.parameters.get(PRECISION, MOST_DIGITS)},{self.scale})"
        if self.name in _LOGICAL:
            return _LOGICAL[self.name][1]
        if self.type == "struct":
            return f"STRUCT<{', '.join(f'{quoted(name)}: {each.spark_type}' for name, each in self.fields)}>"
        inner = [each.spark_type for each in (self.keys, self.values) if each]
        return f"{self.type.upper()}<{', '.join(inner)}>" if inner else _TYPES[self.type][1]


def decimal(precision: int, scale: int) -> Schema:
    """The schema of decimals; ValueError where Spark has no such."""
    if not 0 <= scale <= precision <= MOST_DIGITS or not precision:
        raise ValueError(f"has a decimal of {precision} digits with {scale} of them behind the point")
    digits = {} if precision == MOST_DIGITS else {PRECISION: str(precision)}
    return Schema("bytes", name=DECIMAL, version=1, parameters={"scale": str(scale), **digits})


def struct(fields: list[tuple[str, Schema]]) -> Schema:
    """The schema of a struct; ValueError where Spark could not tell two fields apart."""
    names = [name.lower() for name, _ in fields]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"has two fields named {name}")
    return Schema("struct", fields=tuple(fields))


ATOMS: Final = {
    **dict.fromkeys(("boolean",), Schema("boolean")),
    **dict.fromkeys(("tinyint", "byte"), Schema("int8")),
    **dict.fromkeys(("smallint", "short"), Schema("int16")),
    **dict.fromkeys(("int", "integer"), Schema("int32")),
    **dict.fromkeys(("bigint", "long"), Schema("int64")),
    **dict.fromkeys(("float", "real"), Schema("float")),
    **dict.fromkeys(("double",), Schema("double")),
    **dict.fromkeys(("string", "char", "varchar"), Schema("string")),
    **dict.fromkeys(("binary",), Schema("bytes")),
    **dict.fromkeys(("date",), Schema("int32", name=DATE, version=1)),
    **dict.fromkeys(("timestamp", "timestamp_ltz", "timestamp_ntz"), Schema("int64", name=TIMESTAMP, version=1)),
    **dict.fromkeys(("decimal", "dec", "numeric"), decimal(10, 0)),
}
"""What Spark calls types that have no others in them, in SQL and in JSON."""


def from_connect(node: object) -> Schema:
    """Read a schema as JsonConverter writes them; ValueError tells what is wrong with it."""
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        raise ValueError("has a schema without a type")
    if node["type"] not in _TYPES:
        raise ValueError(f"has a type that Connect does not know: {node['type']}")
    parameters = node.get("parameters") or {}
    if not isinstance(parameters, dict) or not all(isinstance(each, str) for each in parameters.values()):
        raise ValueError("has parameters that are no texts")
    name, version, doc = node.get("name"), node.get("version"), node.get("doc")
    schema = replace(
        _with_inner_types(node),
        optional=node.get("optional") is True,
        name=name if isinstance(name, str) else None,
        version=version if isinstance(version, int) else None,
        doc=doc if isinstance(doc, str) else None,
        parameters=parameters,
        default=node.get("default"),
    )
    _check_logical(schema)
    if schema.default is not None and not fits(schema, schema.default):
        raise ValueError(f"has a default that is no {schema.shown_type}: {json.dumps(schema.default)}")
    return schema


def _with_inner_types(node: dict[str, Any]) -> Schema:
    if node["type"] == "array":
        return Schema("array", values=from_connect(node.get("items")))
    if node["type"] == "map":
        return Schema("map", keys=from_connect(node.get("keys")), values=from_connect(node.get("values")))
    if node["type"] != "struct":
        return Schema(node["type"])
    fields = node.get("fields")
    if not isinstance(fields, list):
        raise ValueError("has a struct without fields")
    for each in fields:
        if not isinstance(each, dict) or not isinstance(each.get("field"), str):
            raise ValueError("has a field without a name")
    return struct([(each["field"], from_connect(each)) for each in fields])


def _check_logical(schema: Schema) -> None:
    if schema.name not in _LOGICAL:
        return
    if schema.type != _LOGICAL[schema.name][0]:
        raise ValueError(f"has a {schema.name} that is no {_LOGICAL[schema.name][0]}")
    if schema.name == DECIMAL:
        try:
            decimal(int(schema.parameters.get(PRECISION, MOST_DIGITS)), int(schema.parameters["scale"]))
        except KeyError:
            raise ValueError("has a decimal without the parameter scale") from None


def fits(schema: Schema, value: Any) -> bool:
    """Whether a value of JSON is one of a schema."""
    if value is None:
        return schema.optional or schema.default is not None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if schema.name == DECIMAL and is_number:
        return True
    match schema.type:
        case "boolean":
            return isinstance(value, bool)
        case "int8" | "int16" | "int32" | "int64":
            bits = int(schema.type.removeprefix("int"))
            return is_number and isinstance(value, int) and -(1 << bits - 1) <= value < 1 << bits - 1
        case "float" | "double":
            return is_number
        case "bytes":
            return isinstance(value, str) and _is_base64(value)
        case "struct":
            return isinstance(value, dict) and all(fits(each, value.get(name)) for name, each in schema.fields)
        case "array" | "map" if schema.values is not None:
            return _elements_fit(schema, schema.values, value)
    return isinstance(value, str)


def _elements_fit(schema: Schema, values: Schema, value: Any) -> bool:
    if schema.keys is None:
        return isinstance(value, list) and all(fits(values, each) for each in value)
    keys = schema.keys
    if keys.type == "string":
        return isinstance(value, dict) and all(fits(values, each) for each in value.values())
    pairs = value if isinstance(value, list) else [None]
    return all(isinstance(p, list) and len(p) == 2 and fits(keys, p[0]) and fits(values, p[1]) for p in pairs)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def to_connect(schema: Schema) -> dict[str, Any]:
    """Tell a schema as JsonConverter does, its keys in the same order."""
    node: dict[str, Any] = {"type": schema.type}
    if schema.keys:
        node["keys"] = to_connect(schema.keys)
    if schema.values:
        node["values" if schema.keys else "items"] = to_connect(schema.values)
    if schema.type == "struct":
        node["fields"] = [{**to_connect(each), "field": name} for name, each in schema.fields]
    node["optional"] = schema.optional
    others = {
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": dict(schema.parameters) or None,
        "default": schema.default,
    }
    return node | {key: value for key, value in others.items() if value is not None}


def to_connect_text(schema: Schema) -> str:
    """The same as a text, without blanks."""
    return json.dumps(to_connect(schema), separators=(",", ":"), ensure_ascii=False)


def from_spark(node: object, *, optional: bool = True, metadata: Mapping[str, Any] | None = None) -> Schema:
    """Read a type as Spark has it in JSON; ValueError tells what is wrong with it, or has no counterpart."""
    known = metadata or {}
    schema = replace(_from_spark(node), optional=optional)
    if SCHEMA_NAME in known and schema.name not in _LOGICAL:
        schema = replace(schema, name=str(known[SCHEMA_NAME]))
    if SCHEMA_VERSION in known and schema.name not in _LOGICAL:
        schema = replace(schema, version=int(known[SCHEMA_VERSION]))
    return schema


def _from_spark(node: object) -> Schema:
    if isinstance(node, str):
        return atom(node)
    kind = node.get("type") if isinstance(node, dict) else None
    if not isinstance(node, dict) or kind not in ("struct", "array", "map"):
        raise ValueError(f"has a type that records cannot have: {json.dumps(node)}")
    try:
        if kind == "array":
            items = from_spark(node["elementType"], optional=node.get("containsNull", True))
            return Schema("array", values=items)
        if kind == "map":
            values = from_spark(node["valueType"], optional=node.get("valueContainsNull", True))
            return Schema("map", keys=from_spark(node["keyType"], optional=False), values=values)
        return struct([_field(each) for each in node["fields"]])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"has a {kind} that is not as Spark tells them: {error}") from None


def _field(node: dict[str, Any]) -> tuple[str, Schema]:
    schema = from_spark(node["type"], optional=node.get("nullable", True), metadata=node.get("metadata"))
    return str(node["name"]), schema


def atom(text: str) -> Schema:
    """Read the name of a type that has no others in it, with its numbers: `decimal(10,2)`."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", text)
    name = match[1].lower() if match else ""
    if not match or name not in ATOMS:
        raise ValueError(f"has a type that records cannot have: {text}")
    if match[2] and ATOMS[name].name == DECIMAL:
        return decimal(int(match[2]), int(match[3] or 0))
    return ATOMS[name]
