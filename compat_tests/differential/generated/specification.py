"""Kafka's specification of its requests, from the kafka-clients jar."""

import functools
import json
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from compat_tests.differential.generated.codec import CLIENTS
from compat_tests.support import jars

_FOLDER: Final = "common/message/"


class Field(NamedTuple):
    """A field in one version; `name` is that of Kafka's JSON."""

    name: str
    type: str
    entity: str
    nullable: bool
    tagged: bool
    fields: "tuple[Field, ...]"


class Request:
    """A request with all its versions."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.name: str = raw["name"].removesuffix("Request")
        self.key: int = raw["apiKey"]
        lowest, _, highest = raw["validVersions"].partition("-")
        self.lowest, self.highest = int(lowest), int(highest or lowest)
        self._raw = raw["fields"]
        self._flexible: str = raw["flexibleVersions"]
        self._common = {each["name"]: each["fields"] for each in raw.get("commonStructs", ())}

    def is_flexible(self, version: int) -> bool:
        """Whether this version has tagged fields."""
        return _covers(self._flexible, version)

    @functools.cache  # noqa: B019 - there is one of each request
    def fields(self, version: int) -> tuple[Field, ...]:
        """Return the fields of a version in their order."""
        return tuple(self._walk(self._raw, version))

    def _walk(self, fields: list[dict[str, Any]], version: int) -> Iterator[Field]:
        for raw in fields:
            if _covers(raw["versions"], version):
                inner = raw.get("fields") or self._common.get(raw["type"].removeprefix("[]"), [])
                yield Field(
                    name=raw["name"][:1].lower() + raw["name"][1:],
                    type=raw["type"],
                    entity=raw.get("entityType", ""),
                    nullable=_covers(raw.get("nullableVersions", "none"), version),
                    tagged=_covers(raw.get("taggedVersions", "none"), version),
                    fields=tuple(self._walk(inner, version)),
                )


def _covers(versions: str, version: int) -> bool:
    if versions == "none":
        return False
    lowest, _, highest = versions.partition("-")
    if lowest.endswith("+"):
        return version >= int(lowest[:-1])
    return int(lowest) <= version <= int(highest or lowest)


@functools.cache
def requests() -> Mapping[int, Request]:
    """Return all requests of Kafka 3.9.2 by the numbers of their APIs."""
    found = {}
    with zipfile.ZipFile(jars.jar(CLIENTS)) as archive:
        for name in archive.namelist():
            if name.startswith(_FOLDER) and name.endswith("Request.json"):
                lines = archive.read(name).decode().splitlines()
                raw = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
                if raw["validVersions"] != "none":
                    found[raw["apiKey"]] = Request(raw)
    return found


@functools.cache
def key_of(api: str) -> int:
    """Return the number of an API."""
    return next(key for key, request in requests().items() if request.name == api)
