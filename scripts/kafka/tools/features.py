"""kafka-features: the levels of a cluster's features, and changing them.

Counterpart: org.apache.kafka.tools.FeatureCommand.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ottla.client.admin.features import Features, UpgradeType, describe_features, update_features
from ottla.client.cluster import ANY, Client
from ottla.scripts.kafka.bootstraps import bootstraps, call, check_bootstraps
from ottla.scripts.kafka.clusters.feature_levels import (
    FEATURES,
    METADATA_VERSION,
    default_level,
    latest_version,
    level_of,
    metadata_level,
    metadata_version,
    upgradable_versions_of_3_9,
)
from ottla.scripts.kafka.face import EXECUTION, Face, JavaError, Release, as_java, illegal_argument
from ottla.scripts.kafka.failures import TerseError
from ottla.scripts.kafka.java.numbers import INTEGER, SHORT
from ottla.scripts.kafka.subcommands import Argument, HelpShown, Parser, ParserError, argument, report
from ottla.wire.errors import ErrorCode, KafkaError

_DRY_RUN: Final = argument("--dry-run", action="store_true", help="Say what would happen, and change nothing.")
_UNSAFE: Final = argument("--unsafe", action="store_true", help="Change it even if metadata is lost.")
_RUNTIME: Final = "java.lang.RuntimeException"


def _parser(*, is_3_9: bool) -> Parser:
    metadata = argument("--metadata", help="The level of metadata.version, such as 3.9-IV0.")
    release = argument("--release-version", help="The release whose levels are to be set, such as 3.9-IV0.")
    feature = argument("--feature", action="append", help="A feature and its level: FEATURE=LEVEL.")
    disabled = argument("--feature", action="append", help="A feature to turn off.")
    levels = [metadata, feature] if is_3_9 else [metadata, release, feature]
    node = argument("--node-id", type=INTEGER, help="The broker or controller to ask.")
    commands = [
        Parser("describe", "Print the features and their levels.", [] if is_3_9 else [node]),
        Parser("upgrade", "Raise levels.", [*levels, _DRY_RUN]),
        Parser("downgrade", "Lower levels.", [*levels, _UNSAFE, _DRY_RUN]),
        Parser("disable", "Turn features off.", [disabled, _UNSAFE, _DRY_RUN]),
    ]
    if not is_3_9:
        needed: Argument = argument(
            "--feature", action="append", is_required=True, help="A feature and its level: FEATURE=LEVEL."
        )
        commands.append(Parser("version-mapping", "Print the levels that belong to a release.", [release]))
        commands.append(Parser("feature-dependencies", "Print the levels that a level needs.", [needed]))
    arguments = [*bootstraps(is_required=is_3_9), argument("--command-config", help="A file of client properties.")]
    return Parser("kafka-features", "The levels of a cluster's features.", arguments, commands)


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    parser = _parser(is_3_9=face.is_3_9)
    try:
        if face.is_3_9:
            _run(parser.parse_or_exit(arguments, face), parser, face)
        else:
            _run(parser.parse(arguments), parser, face)
    except HelpShown as shown:
        report(face, shown)
        return 0
    except ParserError as error:
        face.complain(f"Command line error: {error.message}. Type --help for help.", end="")
        return 1
    except TerseError as error:
        face.complain(str(error))
        return 1
    except JavaError as error:
        face.complain("null" if error.message is None else error.message)
        return 1
    return 0


def _run(values: Mapping[str, Any], parser: Parser, face: Face) -> None:
    command = values["command"]
    if command == "version-mapping":
        print_version_mapping(values["release_version"], face)
    elif command == "feature-dependencies":
        for text in values["feature"]:
            name, level = _name_and_level(text)
            print_dependencies(name, level, face, level_of)
    else:
        try:
            check_bootstraps(values)
        except JavaError as error:
            raise ParserError(parser, str(error.message)) from None
        _WORK[command](values, face)


# Describe


def _describe(values: Mapping[str, Any], face: Face) -> None:
    node_id = values.get("node_id")
    if node_id is not None and node_id < 0:
        raise illegal_argument(f"Invalid node id {node_id}: must be non-negative.")
    found = _call(face, values, "describeFeatures", _described, node_id)
    epoch = "-" if found.epoch is None else found.epoch
    for each in found.features.values():
        lowest, highest, finalized = (
            _level_text(each.name, level, face.release) for level in (each.lowest, each.highest, each.finalized)
        )
        if face.is_3_9:
            face.print(
                f"Feature: {each.name}\tSupportedMinVersion: {lowest}\tSupportedMaxVersion: {highest}"
                f"\tFinalizedVersionLevel: {finalized}\tEpoch: {epoch}"
            )
        else:
            face.print(
                f"Feature: {each.name:<40}  SupportedMinVersion: {lowest:<15}  SupportedMaxVersion: {highest:<15}  "
                f"FinalizedVersionLevel: {finalized:<15}  Epoch: {epoch}"
            )


async def _described(client: Client, node_id: int | None) -> Features:
    return await describe_features(client, ANY if node_id is None else node_id)


def _level_text(feature: str, level: int, release: Release) -> str:
    if feature != METADATA_VERSION:
        return str(level)
    try:
        return metadata_version(level, release)
    except JavaError:
        return f"UNKNOWN {level}"


def _call(face: Face, values: Mapping[str, Any], name: str, work: Callable[..., Any], *arguments: Any) -> Any:
    return call(face, values, values["command_config"], name, work, *arguments)


# Changes


def _upgrade(values: Mapping[str, Any], face: Face) -> None:
    _update("upgrade", values, _levels(values, UpgradeType.UPGRADE, face), UpgradeType.UPGRADE, face)


def _downgrade(values: Mapping[str, Any], face: Face) -> None:
    kind = _downgrade_type(values)
    _update("downgrade", values, _levels(values, kind, face), kind, face)


def _disable(values: Mapping[str, Any], face: Face) -> None:
    levels: dict[str, int] = {}
    kind = _downgrade_type(values)
    for name in values["feature"] or ():
        _add(levels, name, 0, kind)
    _update("disable", values, levels, kind, face)


def _downgrade_type(values: Mapping[str, Any]) -> UpgradeType:
    return UpgradeType.UNSAFE_DOWNGRADE if values["unsafe"] else UpgradeType.SAFE_DOWNGRADE


def _add(levels: dict[str, int], name: str, level: int, kind: UpgradeType) -> None:
    if level == 0 and kind is UpgradeType.UPGRADE:
        flag = "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE"
        raise illegal_argument(f"{flag} when the provided maxVersionLevel:{level} is < 1.")
    if level < 0:
        raise illegal_argument("Cannot specify a negative version level.")
    if name in levels:
        raise JavaError(_RUNTIME, f"Feature {name} was specified more than once.")
    levels[name] = level


def _levels(values: Mapping[str, Any], kind: UpgradeType, face: Face) -> dict[str, int]:
    metadata, features, release = values["metadata"], values["feature"], values.get("release_version")
    if release is not None and (metadata is not None or features is not None):
        raise TerseError("Can not specify `release-version` with other feature flags.")
    levels: dict[str, int] = {}
    if release is not None:
        level = levels[METADATA_VERSION] = _metadata_level(release, face.release)
        found = {name: default_level(name, level) for name in FEATURES}
        levels |= {name: each for name, each in found.items() if each > 0 or kind is not UpgradeType.UPGRADE}
    if metadata is not None:
        if not face.is_3_9:
            face.print(" `metadata` flag is deprecated and may be removed in a future release.")
        _add(levels, METADATA_VERSION, _metadata_level(metadata, face.release), kind)
    for text in features or ():
        _add(levels, *_name_and_level(text), kind)
    return levels


def _metadata_level(text: str, release: Release) -> int:
    try:
        return metadata_level(text, release)
    except JavaError as error:
        if release is Release.V3_9:
            supported = f"Supported metadata.version are {', '.join(upgradable_versions_of_3_9())}"
            raise TerseError(f"Unsupported metadata.version {text}. {supported}") from None
        raise TerseError(str(error.message)) from None


def _name_and_level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise JavaError(_RUNTIME, f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), SHORT.convert(level.strip())
    except ValueError:
        reason = f"unable to parse {level.strip()} as a short."
        raise JavaError(_RUNTIME, f"Can't parse feature=level string {text}: {reason}") from None


def _update(
    operation: str, values: Mapping[str, Any], levels: Mapping[str, int], kind: UpgradeType, face: Face
) -> None:
    if not levels:
        raise TerseError(f"You must specify at least one feature to {operation}")
    if not all(name.strip() for name in levels):
        raise illegal_argument("Provided feature can not be empty.")
    is_dry_run = values["dry_run"]
    results = _results(levels, kind, is_dry_run, values, face)
    for name, message in sorted(results.items()):
        what = f"{operation} {name}" if operation == "disable" else f"{operation} {name} to {levels[name]}"
        done = "disabled." if operation == "disable" else f"{operation}d to {levels[name]}."
        if message is not None:
            face.print(f"{'Can not' if is_dry_run else 'Could not'} {what}. {message}")
        else:
            face.print(f"{name} {'can be' if is_dry_run else 'was'} {done}")
    failed = sum(each is not None for each in results.values())
    if failed:
        raise TerseError(f"{failed} out of {len(levels)} operation(s) failed.")


def _results(
    levels: Mapping[str, int], kind: UpgradeType, is_dry_run: bool, values: Mapping[str, Any], face: Face
) -> dict[str, str | None]:
    """Return the message of each change that failed."""

    async def update(client: Client) -> dict[str, KafkaError | None]:
        return await update_features(client, levels, kind, validate_only=is_dry_run)

    try:
        found: Mapping[str, KafkaError | None] = _call(face, values, "updateFeatures", update)
    except JavaError as error:
        if error.java_class != EXECUTION or error.cause is None:
            raise
        return dict.fromkeys(levels, str(error.cause.message))
    return {
        name: None if error is None or error.code == ErrorCode.NONE else str(as_java(error).message)
        for name, error in found.items()
    }


_WORK: Final = {"describe": _describe, "upgrade": _upgrade, "downgrade": _downgrade, "disable": _disable}

# Without a cluster


def print_version_mapping(release: str | None, face: Face) -> None:
    """Print the levels of a release, for kafka-features and kafka-storage."""
    text = latest_version() if release is None else release
    try:
        level = metadata_level(text)
    except JavaError as error:
        raise TerseError(str(error.message)) from None
    face.print(f"{METADATA_VERSION}={level} ({text})")
    for name in FEATURES:
        face.print(f"{name}={default_level(name, level)}")


def print_dependencies(name: str, number: int, face: Face, find: Callable[[str, int], Any]) -> None:
    """Print the levels that a level needs; `find(name, number)` returns the level."""
    if name == METADATA_VERSION:
        try:
            version = metadata_version(number)
        except JavaError:
            raise TerseError(f"Unknown metadata.version {number}") from None
        face.print(f"{name}={number} ({version}) has no dependencies.")
        return
    if name not in FEATURES:
        raise TerseError(f"Unknown feature: {name}")
    needs = find(name, number).needs
    face.print(f"{name}={number} requires:" if needs else f"{name}={number} has no dependencies.")
    for needed, level in needs.items():
        version = f" ({metadata_version(level)})" if needed == METADATA_VERSION else ""
        face.print(f"    {needed}={level}{version}")
