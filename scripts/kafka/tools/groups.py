"""kafka-groups: the groups of a cluster, of all types.

Counterpart: org.apache.kafka.tools.GroupsCommand, which Kafka 3.9 does not have yet.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.admin.groups.descriptions import GroupListing, list_groups
from ottla.client.errors import ClientError
from ottla.scripts.kafka.calls import client_config
from ottla.scripts.kafka.face import Face, JavaError, as_java, illegal_argument
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_invalid,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.wire.errors import KafkaError

_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="server to connect to", help="The brokers to ask (required)."),
    flag("command-config", argument="command config property file", help="A file of client properties."),
    flag("list", help="List groups."),
    flag("group-type", argument="type", help="List only groups of this type: classic, consumer, share or streams."),
    flag("protocol", argument="protocol", help="List only groups of this protocol type."),
    flag("consumer", help="List only groups of consumers, whatever their type."),
    flag("share", help="List only share groups."),
    flag("streams", help="List only streams groups."),
)
TYPES: Final[Mapping[str, str]] = {
    "consumer": "Consumer",
    "classic": "Classic",
    "share": "Share",
    "streams": "Streams",
}
"""Kafka's spelling of each type."""
_LEAST_WIDTH: Final = 20
_ABOUT: Final = "This tool helps to list groups of all types."


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = _parsed(arguments, face)
        return _execute(parsed, face)
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1


def _parsed(arguments: Sequence[str], face: Face) -> Parsed:
    try:
        parsed = parse(_FLAGS, arguments)
    except JavaError as error:
        raise print_usage_and_exit(face, _FLAGS, str(error.message)) from None
    if not any(map(parsed.has, ("bootstrap-server", "help", "version"))):
        raise print_usage_and_exit(face, _FLAGS, "Missing required option(s) [bootstrap-server]")
    maybe_print_help_or_version(face, _FLAGS, parsed, arguments, _ABOUT)
    if not parsed.has("list"):
        raise print_usage_and_exit(face, _FLAGS, "Command must include exactly one action: --list.")
    if parsed.has("group-type") and parsed.value("group-type").lower() not in TYPES:
        raise illegal_argument("--group-type must be a valid group type.")
    filters = ("consumer", "group-type", "protocol", "share", "streams")
    for name in ("consumer", "share", "streams"):
        check_invalid(face, _FLAGS, parsed, name, [each for each in filters if each != name])
    return parsed


def _execute(parsed: Parsed, face: Face) -> int:
    config = client_config(face, parsed.value("bootstrap-server"), parsed.value("command-config"))
    try:
        found = face.with_client(config, list_groups)
    except KafkaError as error:
        return _failed(face, str(as_java(error).message))
    except ClientError:
        return _failed(face, "Failed to find brokers to send ListGroups")
    _print_groups([each for each in found if _is_meant(each, parsed)], face)
    return 0


def _failed(face: Face, message: str) -> int:
    face.print(f"Error while executing groups command : {message}")
    return 1


def _is_meant(group: GroupListing, parsed: Parsed) -> bool:
    kind = type_text(group)
    if parsed.has("group-type"):
        is_protocol = not parsed.has("protocol") or group.protocol_type == parsed.value("protocol")
        return kind == TYPES[parsed.value("group-type").lower()] and is_protocol
    if parsed.has("protocol"):
        return bool(group.protocol_type == parsed.value("protocol"))
    if parsed.has("consumer"):
        return group.protocol_type in ("consumer", "") or kind == TYPES["consumer"]
    return all(kind == TYPES[name] for name in ("share", "streams") if parsed.has(name))


def type_text(group: GroupListing) -> str:
    """Return a group's type in Kafka's spelling; empty if the broker is too old to return it."""
    return "" if group.type is None else TYPES.get(group.type.lower(), "Unknown")


def _print_groups(groups: Sequence[GroupListing], face: Face) -> None:
    by_id = {each.group_id: each for each in groups}
    rows = [
        (name, type_text(by_id[name]), by_id[name].protocol_type)
        for name in by_string_hash(each.group_id for each in groups)
    ]
    width = max([_LEAST_WIDTH, *(len(cell) for row in rows for cell in row)])
    face.print(" ".join(f"{title:<{width}}" for title in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        face.print("".join(f"{cell:<{width}} " for cell in row))
