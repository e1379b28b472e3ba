"""Rows of a record frame as the records of Connect: the same schema and payload, so that both can be compared."""

import base64
import datetime
import struct
from typing import Any

DATA = "org.apache.kafka.connect.data."
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
PLAIN = {
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "binary": "bytes",
}
LOGICAL = {"date": ("int32", "Date"), "timestamp": ("int64", "Timestamp")}


def schema(kind: Any, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema that Connect's JSON has for a type of Spark."""
    name = kind.typeName()
    named = {} if not metadata or "connect.name" not in metadata else {"name": metadata["connect.name"]}
    if metadata and "connect.version" in metadata:
        named["version"] = metadata["connect.version"]
    if name == "struct":
        fields = [{**schema(each.dataType, each.metadata), "field": each.name} for each in kind.fields]
        return {"type": "struct", "optional": True, "fields": fields, **named}
    if name == "array":
        return {"type": "array", "optional": True, "items": schema(kind.elementType)}
    if name == "map":
        return {"type": "map", "optional": True, "keys": schema(kind.keyType), "values": schema(kind.valueType)}
    if name == "decimal":
        parameters = {"scale": str(kind.scale)}
        return {"type": "bytes", "optional": True, "name": f"{DATA}Decimal", "version": 1, "parameters": parameters}
    if name in LOGICAL:
        of, logical = LOGICAL[name]
        return {"type": of, "optional": True, "name": f"{DATA}{logical}", "version": 1}
    return {"type": PLAIN[kind.simpleString()], "optional": True, **named}


def payload(kind: Any, value: Any) -> Any:
    """Return a value as Connect's JSON has it."""
    if value is None:
        return None
    name = kind.typeName()
    if name == "struct":
        return {each.name: payload(each.dataType, part) for each, part in zip(kind.fields, value, strict=True)}
    if name == "array":
        return [payload(kind.elementType, part) for part in value]
    if name == "map":
        return {key: payload(kind.valueType, part) for key, part in value.items()}
    if name == "binary":
        return base64.b64encode(value).decode()
    if name == "date":
        return (value - EPOCH.date()).days
    if name == "timestamp":
        return (value.astimezone(datetime.UTC) - EPOCH) // datetime.timedelta(milliseconds=1)
    if name == "decimal":
        unscaled = int(value.scaleb(kind.scale))
        return base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, signed=True)).decode()
    return value


def record(frame_schema: Any, row: Any) -> dict[str, Any]:
    """Return a row as a record; one of maps has no schema."""
    both = {}
    for part in ("key", "value"):
        field = frame_schema[part]
        has_schema = field.dataType.typeName() != "map"
        shown = {"schema": schema(field.dataType, field.metadata)} if has_schema else {}
        both[part] = None if row[part] is None else {**shown, "payload": payload(field.dataType, row[part])}
    headers = [
        [each["key"], None if each["value"] is None else bytes(each["value"]).decode()] for each in row["headers"] or ()
    ]
    return {"topic": row["topic"], "partition": row["partition"], **both, "headers": headers}


def comparable(found: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any] | None:
    """Leave out what Spark and Connect cannot have in common: what is optional, and how many digits a number shows.

    The schema counts where both sides have one.
    """
    if found is None or "error" in found:
        return found
    result = {"topic": found["topic"], "partition": found["partition"], "headers": found["headers"]}
    for part in ("key", "value"):
        data = found[part] or {}
        own, others = data.get("schema"), ((other or {}).get(part) or {}).get("schema")
        result[part] = {"payload": _number(data.get("payload"), own or others)}
        if own and others and data.get("payload") is not None:
            result[part]["schema"] = _shape(own)
    return result


def _shape(found: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in found.items() if key in ("type", "name", "field")}
    if "version" in found and not str(found.get("name")).startswith(DATA):
        kept["version"] = found["version"]
    if found["type"] == "struct":
        kept["fields"] = [_shape(each) for each in found["fields"]]
    return kept


def _number(value: Any, of: dict[str, Any] | None) -> Any:
    kind = (of or {}).get("type")
    if of and kind == "struct" and value is not None:
        return {each["field"]: _number(value.get(each["field"]), each) for each in of["fields"]}
    if kind in ("float", "double") and value is not None:
        return repr(struct.unpack("f", struct.pack("f", float(value)))[0] if kind == "float" else float(value))
    return value
