"""The paths by which transforms name a field, in both of Connect's syntaxes.

Pure. Counterparts in Kafka: FieldSyntaxVersion, SingleFieldPath.
"""

import re
from typing import Final

from ottla.wire.config_def import ConfigKey, ConfigType, OneOf

FIELD_SYNTAX_VERSION: Final = ConfigKey(
    "field.syntax.version",
    ConfigType.STRING,
    "V1",
    OneOf("V1", "V2"),
    "With `V1` a path is the name of a field; with `V2` it leads through fields of fields with dots between, and names "
    "that have dots themselves stand in backticks.",
)
_PLAIN: Final = re.compile(r"([^.]*)(?:\.|\Z)")
# A backtick ends a name only where a dot or the end follows; a backslash before it keeps it from that.
_QUOTED: Final = re.compile(r"`((?:\\`(?=\.)|`(?!\.|\Z)|[^`])*)(?<!\\)`(?:\.|\Z)")


def steps(path: str, version: str) -> list[str]:
    """Return the names on a path; ValueError for one that is none."""
    if not path:
        raise ValueError("is empty")
    if version == "V1":
        return [path]
    found = []
    position = 0
    while position < len(path):
        is_quoted = path[position] == "`"
        match = (_QUOTED if is_quoted else _PLAIN).match(path, position)
        if match is None:
            raise ValueError(f"has a backtick without another at position {position}: {path}")
        found.append(match[1].replace("\\`.", "`.") if is_quoted else match[1])
        position = match.end()
    return [*found, ""] if path.endswith(".") else found
