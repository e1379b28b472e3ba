"""Kafka's own specification of its messages, from the kafka-clients jars.

Owns the reading of that JSON, by Kafka's rules (org.apache.kafka.message.MessageSpec, FieldSpec), and nothing of ours
but the notation of version ranges.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from compat_tests.support import jars
from ottla.wire.types import ZERO_UUID, VersionRange

RELEASES = ("3.9.2", "4.4.0")
FOLDER = "common/message/"
INTEGERS = ("int8", "int16", "uint16", "int32", "uint32", "int64")
# The default of each type. (Kafka's default for records is null, which none of its messages uses.)
EMPTY = {"bool": False, "float64": 0.0, "string": "", "uuid": ZERO_UUID, "bytes": b"", "records": b""}
DEFAULT_STRUCT = "a struct of defaults"
# Fields that an older release names differently: struct and field, and the name in the newest release.
RENAMED = {("TxnOffsetCommitRequest", "GenerationId"): "GenerationIdOrMemberEpoch"}


class FieldAt(NamedTuple):
    """A field as one version has it."""

    name: str
    type: str
    tag: int | None
    nullable: bool
    compact: bool
    default: object
    fields: "tuple[FieldAt, ...]"


class Specification:
    """One message as one release of Kafka specifies it."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.name: str = raw["name"]
        self.kind: str = raw["type"]
        self.api_key: int | None = raw.get("apiKey")
        self.versions = VersionRange.parse(raw["validVersions"])
        self.flexible = VersionRange.parse(raw.get("flexibleVersions", "none"))
        self._fields = raw.get("fields", ())
        self._common = {struct["name"]: struct["fields"] for struct in raw.get("commonStructs", ())}

    def fields_at(self, version: int) -> tuple[FieldAt, ...]:
        """Return the fields of `version` in their order."""
        return tuple(self._walk(self._fields, version))

    def _walk(self, fields: list[dict[str, Any]], version: int) -> Iterator[FieldAt]:
        for raw in fields:
            if not _in(raw, "versions", version):
                continue
            wire_type = raw["type"]
            element = wire_type.removeprefix("[]")
            inner = raw.get("fields") or self._common.get(element, [])
            yield FieldAt(
                name=raw["name"][:1].upper() + raw["name"][1:],
                type=wire_type,
                tag=raw["tag"] if _in(raw, "taggedVersions", version) else None,
                nullable=_in(raw, "nullableVersions", version),
                compact=version in VersionRange.parse(raw["flexibleVersions"])
                if "flexibleVersions" in raw
                else version in self.flexible,
                default=_default(wire_type, raw.get("default")),
                fields=tuple(self._walk(inner, version)),
            )


def _in(raw: Mapping[str, Any], key: str, version: int) -> bool:
    return version in VersionRange.parse(raw.get(key, "none"))


def _default(wire_type: str, text: object) -> object:
    if text == "null":
        return None
    if wire_type.startswith("[]"):
        return ()
    if wire_type == "bool":
        return text in ("true", True)
    if wire_type in INTEGERS:
        return int(str(text or 0), 0)
    if wire_type not in EMPTY:
        return DEFAULT_STRUCT
    return EMPTY[wire_type] if text is None else text


def newest_name(struct: str, field: str) -> str:
    """Return what the newest release calls a field that any release may have named."""
    return RENAMED.get((struct, field), field)


@cache
def specifications(release: str) -> Mapping[str, Specification]:
    """Return all messages of a release by name, without removed ones."""
    found = {}
    with zipfile.ZipFile(jars.jar(f"org.apache.kafka:kafka-clients:{release}")) as archive:
        for name in archive.namelist():
            if name.startswith(FOLDER) and name.endswith(".json"):
                lines = archive.read(name).decode().splitlines()
                raw = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
                if raw.get("validVersions", "none") != "none":
                    found[raw["name"]] = Specification(raw)
    return found
