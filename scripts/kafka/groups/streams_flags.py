"""The flags of kafka-streams-groups, and the check of their combinations.

Counterpart: org.apache.kafka.tools.streams.StreamsGroupCommandOptions.
"""

from collections.abc import Sequence
from typing import Final

from ottla.scripts.kafka.face import Face
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_invalid,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.groups.commands import FLAGS as SHARED
from ottla.scripts.kafka.groups.commands import check_available, options
from ottla.scripts.kafka.java.numbers import LONG

FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    *SHARED,
    flag("group", argument="streams group", help="The streams group; may be repeated."),
    flag("input-topic", argument="topic", help="An input topic, or topic:partition,partition; may be repeated."),
    flag("all-input-topics", help="Take all input topics of the group."),
    flag("to-offset", argument="offset", type=LONG.convert, help="Reset to an offset."),
    flag("from-file", argument="path to CSV file", help="Reset to the offsets of a file."),
    flag("by-duration", argument="duration", help="Reset to a time so long ago: PnDTnHnMnS."),
    flag("to-current", help="Reset to the committed offsets."),
    flag("shift-by", argument="number-of-offsets", type=LONG.convert, help="Move the offsets by a number."),
    flag("delete-internal-topic", argument="topic", help="Delete this topic of the group; may be repeated."),
    flag("delete-all-internal-topics", help="Delete all topics that the group made for itself."),
    flag("export", help="Print the offsets as CSV."),
)
ACTIONS: Final = ("list", "describe", "reset-offsets", "delete", "delete-offsets")
SCENARIOS: Final = (
    *("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "shift-by", "from-file"),
)
_SCOPES: Final = ("group", "all-groups")


def read(arguments: Sequence[str]) -> Parsed:
    """Return the flags of a command line. JavaError, in the parser's words, for an invalid one."""
    parsed = parse(FLAGS, arguments)
    check_available(parsed)
    return parsed


def check(parsed: Parsed, arguments: Sequence[str], face: Face) -> None:
    """End the tool unless the flags may be combined."""
    maybe_print_help_or_version(face, FLAGS, parsed, arguments, "This tool helps to list, or describe streams groups.")
    check_required(face, FLAGS, parsed, "bootstrap-server")
    for find in (_describe_error, _delete_error, _delete_offsets_error, _reset_error):
        _end(face, find(parsed))
    if parsed.has("reset-offsets"):
        for name in SCENARIOS:
            check_invalid(face, FLAGS, parsed, name, [each for each in SCENARIOS if each != name])
    _end(face, _internal_topics_error(parsed))
    if (parsed.has("dry-run") or parsed.has("execute")) and not parsed.has("reset-offsets"):
        _end(face, "Only Option [reset-offsets] accepts [execute] or [dry-run]")
    check_invalid(face, FLAGS, parsed, "list", ["members", "offsets"])
    check_invalid(face, FLAGS, parsed, "group", ["all-groups"])
    check_invalid(face, FLAGS, parsed, "group", ["list"])
    check_invalid(face, FLAGS, parsed, "input-topic", ["list", "describe", "delete"])


def _end(face: Face, message: str | None) -> None:
    if message is not None:
        raise print_usage_and_exit(face, FLAGS, message)


def _lacks_groups(parsed: Parsed) -> bool:
    return not any(map(parsed.has, _SCOPES))


def _describe_error(parsed: Parsed) -> str | None:
    if not parsed.has("describe"):
        return None
    if _lacks_groups(parsed):
        return f"Option [describe] takes one of these options: {options(_SCOPES)}"
    if sum(map(parsed.has, ("members", "offsets", "state"))) > 1:
        return "Option [describe] takes at most one of these options: [members], [offsets], [state]"
    if parsed.has("state") and parsed.value("state") is not None:
        return "Option [describe] does not take a value for [state]"
    return None


def _delete_error(parsed: Parsed) -> str | None:
    if not parsed.has("delete"):
        return None
    if _lacks_groups(parsed):
        return f"Option [delete] takes one of these options: {options(_SCOPES)}"
    if parsed.has("input-topic") or parsed.has("all-input-topics"):
        return "Kafka Streams does not support topic-specific offset deletion from a streams group."
    return None


def _delete_offsets_error(parsed: Parsed) -> str | None:
    if not parsed.has("delete-offsets"):
        return None
    topics = ("input-topic", "all-input-topics")
    if not parsed.has("group") or not any(map(parsed.has, topics)):
        return f"Option [delete-offsets] takes the [group] and one of these options: {options(topics)}"
    groups = parsed.values("group")
    if len(groups) > 1:
        shown = ", ".join(groups)
        return f"Option [delete-offsets] supports only one [group] at a time, but found: [{shown}]"
    return None


def _reset_error(parsed: Parsed) -> str | None:
    if not parsed.has("reset-offsets"):
        return None
    if parsed.has("dry-run") and parsed.has("execute"):
        return "Option [reset-offsets] only accepts one of [execute] and [dry-run]"
    if not parsed.has("dry-run") and not parsed.has("execute"):
        return "Option [reset-offsets] takes the option: [execute] or [dry-run]"
    if _lacks_groups(parsed):
        return f"Option [reset-offsets] takes one of these options: {options(_SCOPES)}"
    return None


def _internal_topics_error(parsed: Parsed) -> str | None:
    resets, executes = parsed.has("reset-offsets"), parsed.has("execute")
    if parsed.has("delete-all-internal-topics"):
        if not resets and not parsed.has("delete"):
            names = options(("reset-offsets", "delete"))
            return f"Option [delete-all-internal-topics] takes one of these options: {names}"
        if resets and not executes:
            return "Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used."
    elif parsed.has("delete-internal-topic") and not (resets and executes):
        return "Option [delete-internal-topic] takes [reset-offsets] when [execute] is used."
    return None
