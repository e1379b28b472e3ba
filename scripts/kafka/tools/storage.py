"""kafka-storage: a random id, the state of log directories, and the levels of features.

`format` is refused, because Ottla formats its directories at its start. Must not write.
Counterpart: kafka.tools.StorageTool.
"""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.client.config import read_properties
from ottla.scripts.kafka.clusters.feature_levels import Level, level_of
from ottla.scripts.kafka.clusters.meta_properties import META_PROPERTIES, read_meta_properties
from ottla.scripts.kafka.face import Face, JavaError
from ottla.scripts.kafka.failures import TerseError
from ottla.scripts.kafka.java.numbers import SHORT
from ottla.scripts.kafka.subcommands import HelpShown, OneOf, Parser, ParserError, argument, report
from ottla.scripts.kafka.tools.features import print_dependencies, print_version_mapping
from ottla.wire.config_def import ConfigError
from ottla.wire.uuids import uuid_text

_DEFAULT_DIRECTORY: Final = "/tmp/kafka-logs"
_KRAFT: Final = "1"


def _parser(*, is_3_9: bool) -> Parser:
    config = argument("--config", "-c", is_required=True, help="The broker's configuration.")
    release = argument("--release-version", "-r", help="The release whose levels are meant, such as 3.9-IV0.")
    quorum = OneOf()
    info = Parser("info", "Print what log directories say of themselves.", [config])
    formatting = Parser(
        "format",
        "Format log directories, which Ottla does when it starts.",
        [
            config,
            argument("--cluster-id", "-t", is_required=True, help="The cluster's id."),
            argument("--add-scram", "-S", action="append", help="A SCRAM user."),
            argument("--ignore-formatted", "-g", action="store_true", help="Leave out formatted directories."),
            release,
            argument("--feature", "-f", action="append", help="A feature and its level: FEATURE=LEVEL."),
            argument("--standalone", "-s", action="store_true", help="There is one controller.", group=quorum),
            argument("--no-initial-controllers", "-N", action="store_true", help="There is none.", group=quorum),
            argument("--initial-controllers", "-I", help="Who the controllers are.", group=quorum),
        ],
    )
    random = Parser("random-uuid", "Print a random id.")
    feature = argument(
        "--feature", "-f", action="append", is_required=True, help="A feature and its level: FEATURE=LEVEL."
    )
    more = [
        Parser("version-mapping", "Print the levels of features that belong to a release.", [release]),
        Parser("feature-dependencies", "Print the levels that a level needs.", [feature]),
    ]
    commands = [info, formatting, random] if is_3_9 else [info, formatting, *more, random]
    return Parser("kafka-storage", "What log directories say of themselves.", commands=commands)


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        values = _parser(is_3_9=face.is_3_9).parse(arguments)
    except ParserError as error:
        report(face, error)
        return 0 if isinstance(error, HelpShown) else 1
    try:
        return _run(values, face)
    except TerseError as error:
        face.complain(str(error))
        return 1


def _run(values: Mapping[str, Any], face: Face) -> int:
    match values["command"]:
        case "random-uuid":
            face.print(uuid_text(_random_uuid()))
        case "version-mapping":
            print_version_mapping(values["release_version"], face)
        case "feature-dependencies":
            for text in values["feature"]:
                _print_dependencies(text, face)
        case "info":
            return _print_info(_properties(values["config"]), face)
        case _:
            _properties(values["config"])
            raise TerseError("Ottla has no KRaft log to format: it formats its log directories when it starts.")
    return 0


def _random_uuid() -> bytes:
    """Return an id whose text does not begin with a hyphen, because it would look like a flag."""
    while True:
        found = uuid.uuid4().bytes
        if not uuid_text(found).startswith("-"):
            return found


def _properties(path: str) -> Mapping[str, str]:
    if not Path(path).exists():
        raise JavaError("java.nio.file.NoSuchFileException", path)
    try:
        return read_properties(Path(path))
    except ConfigError as error:
        raise JavaError("org.apache.kafka.common.config.ConfigException", str(error)) from None


def _print_dependencies(text: str, face: Face) -> None:
    name, equals, number = text.partition("=")
    if not equals:
        expected = "Expected format: 'feature=version' (e.g. 'group.version=1')"
        raise TerseError(f"Invalid feature format: {text}. {expected}")
    try:
        level = SHORT.convert(number.strip())
    except ValueError:
        raise TerseError(f"Invalid version format: {number.strip()} for feature {name.strip()}") from None
    print_dependencies(name.strip(), level, face, _level_of)


def _level_of(name: str, number: int) -> Level:
    try:
        return level_of(name, number)
    except JavaError:
        raise TerseError(f"Feature level {number} is not supported for feature {name}") from None


# Info


def _print_info(properties: Mapping[str, str], face: Face) -> int:
    found: list[str] = []
    problems: list[str] = []
    first: Mapping[str, str] | None = None
    for directory in _directories(properties):
        path = Path(directory)
        if not path.is_dir():
            problems.append(f"{path} is not a directory" if path.exists() else f"{path} does not exist")
            continue
        found.append(str(path))
        try:
            meta = read_meta_properties(path)
        except ConfigError as error:
            problems.append(f"Error loading {path / META_PROPERTIES}: {error}")
            continue
        if meta is None:
            problems.append(f"{path} is not formatted.")
        elif first is None:
            first = meta
        elif first.get("cluster.id") != meta.get("cluster.id"):
            problems.append("Mismatched cluster IDs between storage directories.")
        elif _node_id(first) != _node_id(meta):
            problems.append("Mismatched node IDs between storage directories.")
    _print_list("Found log directory", "Found log directories", found, face)
    if first is not None:
        problems += _mode_problems(first, is_kraft=bool(properties.get("process.roles", "").strip()))
        shown = ", ".join(f"{key}={value}" for key, value in sorted(first.items()))
        face.print(f"Found metadata: {{{shown}}}\n")
    _print_list("Found problem", "Found problems", problems, face)
    return 1 if problems else 0


def _directories(properties: Mapping[str, str]) -> list[str]:
    text = properties.get("log.dirs") or properties.get("log.dir") or _DEFAULT_DIRECTORY
    directories = {each.strip() for each in text.split(",")}
    if properties.get("metadata.log.dir"):
        directories.add(properties["metadata.log.dir"])
    return sorted(directories)


def _node_id(meta: Mapping[str, str]) -> str | None:
    return meta.get("node.id", meta.get("broker.id"))


def _mode_problems(meta: Mapping[str, str], *, is_kraft: bool) -> list[str]:
    is_of_kraft = meta.get("version") == _KRAFT
    if is_kraft and not is_of_kraft:
        return [
            "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are formatted "
            "for legacy mode."
        ]
    if is_of_kraft and not is_kraft:
        return [
            "The kafka configuration file appears to be for a legacy cluster, but the directories are formatted for a "
            "cluster in KRaft mode."
        ]
    return []


def _print_list(one: str, several: str, items: Sequence[str], face: Face) -> None:
    if items:
        face.print(f"{one if len(items) == 1 else several}:")
        for each in items:
            face.print(f"  {each}")
        face.print()
