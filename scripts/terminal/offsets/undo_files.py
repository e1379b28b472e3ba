"""Files of offsets that a command overwrote, so that `ottla groups undo` can restore them.

Owns the folder and the format of the files. Must not know a cluster. A file is `$XDG_STATE_HOME/ottla/undo/NAME.json`,
readable by its owner only, because the metadata of commits may be private.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ottla.client.admin.groups.committed_offsets import Committed
from ottla.client.admin.groups.offset_changes import Change, Changes
from ottla.scripts.terminal.profiles import state_folder
from ottla.wire.config_def import ConfigError
from ottla.wire.types import TopicPartition

_SCHEMA: Final = 1
_LONGEST_GROUP: Final = 60


class Overwritten(NamedTuple):
    """The changes of one command in one cluster."""

    name: str
    time: str
    command: str
    cluster_id: str | None
    groups: Mapping[str, Changes]


def folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the files."""
    return state_folder(environment) / "undo"


def save(
    environment: Mapping[str, str], command: str, cluster_id: str | None, groups: Mapping[str, Changes], now: datetime
) -> str:
    """Write a file and return its name: the time, and the first group with only the characters of file names."""
    path = folder(environment)
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    first = re.sub(r"[^A-Za-z0-9._-]", "_", next(iter(groups)))[:_LONGEST_GROUP]
    name = base = f"{now:%Y%m%d-%H%M%S}-{first}"
    number = 1
    while (path / f"{name}.json").exists():
        number += 1
        name = f"{base}-{number}"
    document = {
        "schema": _SCHEMA,
        "time": now.astimezone(UTC).isoformat(timespec="seconds"),
        "command": command,
        "cluster_id": cluster_id,
        "groups": [
            {"group": group, "partitions": [_as_json(partition, change) for partition, change in changes.items()]}
            for group, changes in groups.items()
        ],
    }
    fresh = path / f".{name}.{os.getpid()}"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path / f"{name}.json")
    return name


def _as_json(partition: TopicPartition, change: Change) -> dict[str, Any]:
    before, after = (None if each is None else each._asdict() for each in change)
    return {**partition._asdict(), "before": before, "after": after}


def load(environment: Mapping[str, str], name: str) -> Overwritten:
    """Read a file. UsageError if there is none of this name, ConfigError if it cannot be read."""
    if name not in names(environment):
        known = ", ".join(names(environment)) or "none"
        raise click.UsageError(f"there is no undo {name}; there are {known}")
    path = folder(environment) / f"{name}.json"
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["schema"] != _SCHEMA:
            raise ConfigError(f"{path}: another release of Ottla wrote it, with schema {content['schema']}")
        groups = {each["group"]: dict(map(_from_json, each["partitions"])) for each in content["groups"]}
        return Overwritten(name, content["time"], content["command"], content["cluster_id"], groups)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{path} cannot be read: {error!r}") from error


def _from_json(content: Mapping[str, Any]) -> tuple[TopicPartition, Change]:
    before, after = (None if content[each] is None else Committed(**content[each]) for each in Change._fields)
    return TopicPartition(content["topic"], content["partition"]), Change(before, after)


def names(environment: Mapping[str, str]) -> list[str]:
    """Return the names of all files, the oldest first."""
    return sorted(each.stem for each in folder(environment).glob("*.json") if not each.name.startswith("."))


def load_all(environment: Mapping[str, str]) -> Iterator[Overwritten]:
    """Yield all files, the oldest first."""
    for name in names(environment):
        yield load(environment, name)


def remove(environment: Mapping[str, str], name: str) -> None:
    """Remove a file."""
    (folder(environment) / f"{name}.json").unlink(missing_ok=True)
