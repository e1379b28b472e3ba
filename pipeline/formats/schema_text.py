"""The schema that a job gives: Spark's SQL, Spark's JSON or Connect's JSON, in the job's file or in one of its own.

Owns which of them a text is. Must not know what is done with schemas.
"""

import json
from pathlib import Path
from typing import Final

from ottla.pipeline.formats.ddl import parse_ddl
from ottla.pipeline.formats.schema import Schema, from_connect, from_spark
from ottla.pipeline.settings import Settings

KEY: Final = "schema"
_FILES: Final = (".avsc", ".json")


def read_text(settings: Settings) -> str | None:
    """The text of a schema, None where there is none; the name of a file, beside the job's own, stands for its text."""
    text = settings.optional(KEY)
    if text is None or not text.endswith(_FILES):
        return text
    path = Path(settings.file).parent / text
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise settings.wrong(KEY, f"cannot be read: {error}") from None


def read_schema(settings: Settings) -> Schema | None:
    """The schema that a text tells; JobError says what is wrong with it."""
    text = read_text(settings)
    if text is None:
        return None
    try:
        return parse_schema(text)
    except ValueError as error:
        raise settings.wrong(KEY, str(error)) from None


def parse_schema(text: str) -> Schema:
    """Read a schema in any of the three languages; ValueError tells what is wrong with it."""
    if not text.lstrip().startswith(("{", '"')):
        return parse_ddl(text)
    try:
        node = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from None
    return from_spark(node) if _is_sparks(node) else from_connect(node)


def _is_sparks(node: object) -> bool:
    if not isinstance(node, dict):
        return True
    fields = node.get("fields")
    if node.get("type") == "struct" and isinstance(fields, list):
        return not any(isinstance(each, dict) and "field" in each for each in fields)
    return "elementType" in node or "keyType" in node
