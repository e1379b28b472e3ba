"""Topics as a file describes them, and the changes that make a cluster's topics the same.

PURE. Owns the format of the file and the plan. Must not know a cluster. Counterpart in Kafka: none.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from ottla.wire.config_def import render

_KEYS: Final = frozenset({"partitions", "replication_factor", "configs"})


class DesiredError(Exception):
    """A file that does not describe topics; the text names the wrong part."""


class Topic(NamedTuple):
    """A topic of a file, where None leaves a count as it is; or a topic of a cluster, with its own configs."""

    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str]


class Action(Enum):
    """The kind of a change."""

    CREATE = "create"
    ADD_PARTITIONS = "add partitions"
    CHANGE_REPLICAS = "change replicas"
    SET_CONFIG = "set config"
    UNSET_CONFIG = "unset config"
    DELETE = "delete"


class Change(NamedTuple):
    """One change. `key` is set for configs; `before` and `after` are counts or values, None if there is none."""

    topic: str
    action: Action
    key: str | None = None
    before: int | str | None = None
    after: int | str | None = None


def read_topics(text: str) -> dict[str, Topic]:
    """Return the topics of a TOML file. DesiredError names the first part that is wrong."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DesiredError(str(error)) from None
    unknown = next(iter(content.keys() - {"topics"}), None)
    if unknown is not None:
        raise DesiredError(f"{unknown}: the file may have tables [topics.NAME] only")
    topics = content.get("topics", {})
    if not isinstance(topics, dict):
        raise DesiredError("topics: it is a table of topics")
    return {name: _topic(name, table) for name, table in topics.items()}


def _topic(name: str, table: Any) -> Topic:
    if not isinstance(table, dict):
        raise DesiredError(f"topics.{name}: it is a table")
    unknown = next(iter(table.keys() - _KEYS), None)
    if unknown is not None:
        raise DesiredError(f"topics.{name}.{unknown}: a topic has {', '.join(sorted(_KEYS))}")
    configs = table.get("configs", {})
    if not isinstance(configs, dict):
        raise DesiredError(f"topics.{name}.configs: it is a table")
    texts = {key: _value(f"topics.{name}.configs.{key}", value) for key, value in configs.items()}
    return Topic(_count(name, table, "partitions"), _count(name, table, "replication_factor"), texts)


def _count(name: str, table: Mapping[str, Any], key: str) -> int | None:
    value = table.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise DesiredError(f"topics.{name}.{key}: it is a number from 1 on")
    return value


def _value(where: str, value: Any) -> str:
    if isinstance(value, dict):
        raise DesiredError(f'{where}: quote a key with dots: "{where.rpartition(".")[2]}...." = ...')
    return render(value)


def write_topics(topics: Mapping[str, Topic]) -> str:
    """Return the file that describes these topics."""
    lines: list[str] = []
    for name, topic in topics.items():
        lines += ["", f"[topics.{_quoted(name)}]"]
        counts = (("partitions", topic.partitions), ("replication_factor", topic.replication_factor))
        lines += [f"{key} = {count}" for key, count in counts if count is not None]
        if topic.configs:
            lines += ["", f"[topics.{_quoted(name)}.configs]"]
            lines += [f"{_quoted(key)} = {_quoted(value)}" for key, value in sorted(topic.configs.items())]
    return "\n".join(lines[1:]) + "\n" if lines else ""


def _quoted(text: str) -> str:
    """Return a basic string of TOML: a JSON string with DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def plan(wanted: Mapping[str, Topic], actual: Mapping[str, Topic], *, prune: bool = False) -> list[Change]:
    """Return the changes that make the actual topics equal the wanted ones.

    Only with `prune` are topics and configs removed that the file does not name.
    """
    changes = [change for name, topic in wanted.items() for change in _changes(name, topic, actual.get(name), prune)]
    if prune:
        gone = [name for name in actual if name not in wanted]
        changes += [Change(name, Action.DELETE, before=actual[name].partitions) for name in gone]
    return changes


def _changes(name: str, wanted: Topic, actual: Topic | None, prune: bool) -> Iterator[Change]:
    if actual is None:
        yield Change(name, Action.CREATE, after=wanted.partitions)
        return
    counts = (
        (Action.ADD_PARTITIONS, actual.partitions, wanted.partitions),
        (Action.CHANGE_REPLICAS, actual.replication_factor, wanted.replication_factor),
    )
    for action, before, after in counts:
        if after is not None and after != before:
            yield Change(name, action, before=before, after=after)
    for key, value in wanted.configs.items():
        if actual.configs.get(key) != value:
            yield Change(name, Action.SET_CONFIG, key, actual.configs.get(key), value)
    for key in sorted(actual.configs.keys() - wanted.configs.keys()) if prune else ():
        yield Change(name, Action.UNSET_CONFIG, key, actual.configs[key])


def differences(left: Mapping[str, Topic], right: Mapping[str, Topic]) -> list[Change]:
    """Return the changes that would make the right topics equal the left ones."""
    return plan(left, right, prune=True)


def names_of(changes: Sequence[Change], action: Action) -> list[str]:
    """Return the topics with a change of this kind."""
    return list(dict.fromkeys(change.topic for change in changes if change.action is action))
