"""Common parts of kafka-share-groups and kafka-streams-groups: flags, listings, and the errors of a group.

Counterparts: ShareGroupCommand, StreamsGroupCommand, and their options.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.client.admin.groups.descriptions import GroupListing, delete_groups, list_groups
from ottla.client.cluster import Client
from ottla.scripts.kafka.face import Face, JavaError, as_java, illegal_argument
from ottla.scripts.kafka.flags import Flag, Parsed, flag
from ottla.scripts.kafka.groups.calls import call, waited
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.scripts.kafka.java.numbers import LONG
from ottla.wire.errors import KafkaError

DEAD: Final = "Dead"
EMPTY: Final = "Empty"
_LEAST_WIDTH: Final = 15
FLAGS: Final[Sequence[Flag]] = (
    flag("bootstrap-server", argument="server to connect to", help="The brokers to ask (required)."),
    flag("list", help="List groups."),
    flag("describe", help="Describe groups."),
    flag("delete", help="Delete groups."),
    flag("all-groups", help="Take all groups."),
    flag("timeout", argument="timeout (ms)", type=LONG.convert, default=30_000, help="How long a call may take."),
    flag("command-config", argument="command config property file", help="A file of client properties."),
    flag("reset-offsets", help="Reset offsets of groups without members."),
    flag("delete-offsets", help="Delete offsets of a group."),
    flag("dry-run", help="Say what would be done, and change nothing."),
    flag("execute", help="Do it."),
    flag("to-datetime", argument="datetime", help="Reset to a time: YYYY-MM-DDThh:mm:ss.sss."),
    flag("to-earliest", help="Reset to the first offsets."),
    flag("to-latest", help="Reset to the last offsets."),
    flag("members", help="Describe the members."),
    flag("offsets", help="Describe the offsets, which is the default."),
    flag("state", argument="state", is_optional_argument=True, help="Describe the state; list only these states."),
    flag("verbose", help="Describe more."),
)
_ONLY_WITH: Final[Mapping[str, Sequence[str]]] = {
    "members": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "verbose": ("describe",),
}


def check_available(parsed: Parsed) -> None:
    """Raise JavaError for flags that need other ones."""
    unavailable = [name for name, others in _ONLY_WITH.items() if parsed.has(name) and not any(map(parsed.has, others))]
    if unavailable:
        names = ", ".join(sorted(unavailable))
        raise JavaError(
            "joptsimple.UnavailableOptionException",
            f"Option(s) [{names}] are unavailable given other options on the command line",
        )


def options(names: Iterable[str]) -> str:
    """Return names in the form of an option list in messages."""
    return ", ".join(f"[{name}]" for name in sorted(names))


def print_error(face: Face, message: str) -> None:
    """Print an error on stdout."""
    face.print(f"\nError: {message}")


def complain(face: Face, kind: str, error: JavaError) -> None:
    """Print the failure of the whole tool, with its trace."""
    print_error(face, f"Executing {kind} group command failed due to {error.message or 'null'}")
    for line in error.trace():
        face.complain(line)


def states(text: str | None, valid: Sequence[str]) -> list[str]:
    """Return the states of `--state`."""
    by_name = {each.upper(): each for each in valid}
    names = [each.strip().upper() for each in text.split(",")] if text else []
    if any(each not in by_name for each in names):
        raise illegal_argument(f"Invalid state list '{text}'. Valid states are: {', '.join(valid)}")
    return list(dict.fromkeys(by_name[each] for each in names))


# Groups


async def listings(client: Client, kind: str, wanted: Sequence[str] = ()) -> list[GroupListing]:
    """Return the groups of a type in the order of a HashMap."""
    found = {each.group_id: each for each in await list_groups(client, states=wanted, types=[kind])}
    return [found[name] for name in by_string_hash(found)]


async def print_listings(client: Client, parsed: Parsed, face: Face, kind: str, valid: Sequence[str]) -> None:
    """Print the groups of a type; with `--state` also their states."""
    if not parsed.has("state"):
        for each in await waited(client, "listGroups", listings(client, kind)):
            face.print(each.group_id)
        return
    found = await call(client, "listGroups", listings(client, kind, states(parsed.value("state"), valid)))
    width = max([_LEAST_WIDTH, *(len(each.group_id) for each in found)])
    for name, state in [("GROUP", "STATE"), *((each.group_id, each.state or "Unknown") for each in found)]:
        face.print(f"{name:<{width}} {state}")


async def chosen(client: Client, parsed: Parsed, kind: str) -> list[str]:
    """Return the groups of the command line."""
    if parsed.has("all-groups"):
        return [each.group_id for each in await waited(client, "listGroups", listings(client, kind))]
    return list(parsed.values("group"))


def print_empty(face: Face, kind: str, group: str, state: str) -> None:
    """Print the line for a group's state."""
    if state == DEAD:
        print_error(face, f"{kind} group '{group}' does not exist.")
    elif state == EMPTY:
        face.complain(f"\n{kind} group '{group}' has no active members.")


async def deleted(
    client: Client, groups: Sequence[str], known: Sequence[GroupListing], kind: str, unknown: str
) -> tuple[list[str], dict[str, JavaError]]:
    """Delete groups that are empty; return the deleted ones and the errors of the others, in the order of HashMaps.

    `unknown` is the error text for a group of another type.
    """
    by_id = {each.group_id: each for each in known}
    failed: dict[str, JavaError] = {}
    for name in dict.fromkeys(groups):
        state = by_id[name].state if name in by_id else None
        if name not in by_id:
            failed[name] = illegal_argument(f"Group '{name}' {unknown}")
        elif state == DEAD:
            text = f"{kind} group '{name}' group state is DEAD."
            failed[name] = JavaError("java.lang.IllegalStateException", text)
        elif state is not None and state != EMPTY:
            text = f"{kind} group '{name}' is not EMPTY."
            failed[name] = JavaError("org.apache.kafka.common.errors.GroupNotEmptyException", text)
    left = [name for name in dict.fromkeys(groups) if name not in failed]
    results = await call(client, "deleteConsumerGroups", delete_groups(client, left)) if left else {}
    failed |= {name: as_java(error) for name, error in results.items() if isinstance(error, KafkaError)}
    succeeded = by_string_hash(name for name, error in results.items() if error is None)
    return succeeded, {name: failed[name] for name in by_string_hash(failed)}
