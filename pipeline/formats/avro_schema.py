"""Schemas of Avro, looked at before Spark sees them.

Owns what a schema of Avro must have, and what it is in Connect's types. Must not know data. Counterpart in Avro:
Schema.Parser.
"""

import json
from dataclasses import replace
from typing import Any, Final

from ottla.pipeline.formats.schema import DATE, TIMESTAMP, Schema, decimal, struct

_ATOMS: Final = {
    "boolean": Schema("boolean", optional=False),
    "int": Schema("int32", optional=False),
    "long": Schema("int64", optional=False),
    "float": Schema("float", optional=False),
    "double": Schema("double", optional=False),
    "bytes": Schema("bytes", optional=False),
    "string": Schema("string", optional=False),
}
_LOGICAL: Final = {
    ("int", "date"): Schema("int32", name=DATE),
    ("long", "timestamp-millis"): Schema("int64", name=TIMESTAMP),
    ("long", "timestamp-micros"): Schema("int64", name=TIMESTAMP),
}
_NULL: Final = "null"


def parse_avro(text: str) -> tuple[Any, Schema]:
    """Read a schema: its JSON, and Connect's types for it; ValueError tells what is wrong with it."""
    try:
        node = json.loads(text) if text.lstrip().startswith(("{", "[", '"')) else text.strip()
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from None
    return node, _Parser().schema(node, "")


class _Parser:
    """Remembers the types that have names."""

    def __init__(self) -> None:
        self._named: dict[str, Schema | None] = {}

    def schema(self, node: Any, space: str) -> Schema:
        """Read a type within a namespace."""
        if isinstance(node, list):
            return self._union(node, space)
        if isinstance(node, str):
            return self._by_name(node, space)
        kind = node.get("type") if isinstance(node, dict) else None
        if isinstance(kind, dict | list) and "name" not in node:
            return self.schema(kind, space)
        match kind:
            case "record" | "enum" | "fixed":
                return self._definition(node, kind, space)
            case "array":
                return Schema("array", optional=False, values=self.schema(node.get("items"), space))
            case "map":
                values = self.schema(node.get("values"), space)
                return Schema("map", optional=False, keys=_ATOMS["string"], values=values)
            case str():
                return self._logical(node, self._by_name(kind, space))
        raise ValueError(f"has a type that Avro does not know: {json.dumps(node)}")

    def _by_name(self, name: str, space: str) -> Schema:
        if name in _ATOMS:
            return _ATOMS[name]
        for full in (f"{space}.{name}", name):
            if full in self._named:
                schema = self._named[full]
                if schema is None:
                    raise ValueError(f"has a record that holds itself, which Spark cannot read: {name}")
                return schema
        raise ValueError(f"has a type that Avro does not know: {name}")

    def _union(self, branches: list[Any], space: str) -> Schema:
        others = [self.schema(each, space) for each in branches if each != _NULL]
        if not others:
            raise ValueError("has a union of nothing")
        is_optional = len(others) < len(branches)
        if len(others) == 1:
            return replace(others[0], optional=is_optional)
        # As Spark reads those: a struct in which only one member is not null.
        members = tuple((f"member{i}", replace(each, optional=True)) for i, each in enumerate(others))
        return Schema("struct", optional=is_optional, name="union", fields=members)

    def _definition(self, node: dict[str, Any], kind: str, space: str) -> Schema:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"has a {kind} without a name")
        full = name if "." in name else f"{node.get('namespace', space)}.{name}"
        if full in self._named:
            raise ValueError(f"tells twice what {name} is")
        self._named[full] = None
        schema = self._defined(node, kind, name, full.rpartition(".")[0])
        self._named[full] = schema
        return schema

    def _defined(self, node: dict[str, Any], kind: str, name: str, space: str) -> Schema:
        if kind == "enum":
            symbols = node.get("symbols")
            if not isinstance(symbols, list) or not symbols or not all(isinstance(each, str) for each in symbols):
                raise ValueError(f"has an enum without symbols: {name}")
            return Schema("string", optional=False, symbols=tuple(symbols))
        if kind == "fixed":
            size = node.get("size")
            if not isinstance(size, int) or size < 0:
                raise ValueError(f"has a fixed without a size: {name}")
            return self._logical(node, Schema("bytes", optional=False, size=size))
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise ValueError(f"has a record without fields: {name}")
        for each in fields:
            if not isinstance(each, dict) or not isinstance(each.get("name"), str) or "type" not in each:
                raise ValueError(f"has a field without a name or a type: {name}")
        return replace(struct([(each["name"], self.schema(each["type"], space)) for each in fields]), optional=False)

    def _logical(self, node: dict[str, Any], schema: Schema) -> Schema:
        kind = node.get("logicalType")
        if kind == "decimal" and schema.type == "bytes":
            precision, scale = node.get("precision"), node.get("scale", 0)
            if not isinstance(precision, int) or not isinstance(scale, int):
                raise ValueError("has a decimal without a precision")
            return replace(decimal(precision, scale), optional=False)
        return replace(_LOGICAL.get((node.get("type", ""), kind or ""), schema), optional=False)
