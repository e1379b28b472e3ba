"""Messages as JSON, with the names and types that Kafka's tools print.

PURE. Counterparts in Kafka: the generated JsonConverter classes.
"""

import base64
from typing import Any

from ottla.wire.schema import ArrayOf, Field, Struct, StructOf, WireType, fields, same_value
from ottla.wire.uuids import uuid_text


def as_json(message: Struct, version: int) -> dict[str, Any]:
    """Return the fields of a message in a version; a tagged field only if it differs from its default."""
    found = {}
    for field in fields(type(message)):
        value = getattr(message, field.name)
        if version in field.versions and not (field.is_tagged(version) and same_value(value, field.default)):
            found[_name(field)] = _value(value, field.type, version)
    return found


def _name(field: Field) -> str:
    return field.kafka_name[:1].lower() + field.kafka_name[1:]


def _value(value: Any, wire_type: WireType, version: int) -> Any:
    if value is None:
        return None
    if isinstance(wire_type, ArrayOf):
        return [_value(each, wire_type.element, version) for each in value]
    if isinstance(wire_type, StructOf):
        return as_json(value, version)
    if wire_type.kafka_name == "uuid":
        return uuid_text(value)
    if wire_type.kafka_name == "bytes":
        return base64.b64encode(value).decode()
    return value
