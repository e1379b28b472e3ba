"""The command line of kafka-consumer-groups, and the parsing of its values.

PURE. Counterparts: org.apache.kafka.tools.consumer.group.ConsumerGroupCommandOptions, com.google.re2j.Parser.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.scripts.kafka.face import Face, JavaError, illegal_argument
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
from ottla.scripts.kafka.java.hashes import hash_order, string_hash
from ottla.scripts.kafka.java.numbers import LONG

_COMMON: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="server to connect to", help="The brokers to ask (required)."),
    flag("command-config", argument="command config property file", help="A file of client properties."),
    flag("group", argument="consumer group", help="A group; may be repeated."),
    flag("all-groups", help="All groups."),
    flag("topic", argument="topic", help="A topic, or topic:0,1 for some of its partitions; may be repeated."),
    flag("all-topics", help="All topics for which the group has offsets."),
    flag("list", help="List groups."),
    flag("describe", help="Describe groups: offsets and lag."),
    flag("delete", help="Delete groups with their offsets."),
    flag("reset-offsets", help="Reset the offsets of groups without members."),
    flag("delete-offsets", help="Delete offsets of a group."),
    flag("dry-run", help="Only show what a reset would do (the default)."),
    flag("execute", help="Carry out a reset."),
    flag("export", help="Print the offsets of a reset as CSV."),
    flag("to-offset", argument="offset", type=LONG.convert, help="Reset to this offset."),
    flag("from-file", argument="path to CSV file", help="Reset to the offsets in a file."),
    flag("to-datetime", argument="datetime", help="Reset to a time, such as 2026-01-31T23:59:59.000."),
    flag("by-duration", argument="duration", help="Reset to a time so long ago, such as PT1H30M."),
    flag("to-earliest", help="Reset to the starts of logs."),
    flag("to-latest", help="Reset to the ends of logs."),
    flag("to-current", help="Reset to the committed offsets."),
    flag("shift-by", argument="number-of-offsets", type=LONG.convert, help="Move committed offsets by this number."),
    flag("members", help="Describe the members."),
    flag("offsets", help="Describe the offsets (the default)."),
    flag("state", argument="String", is_optional_argument=True, help="Describe the state; list groups by state."),
    flag("type", argument="String", is_optional_argument=True, help="List groups by type."),
    flag("verbose", help="Describe more."),
)
_TIMEOUT: Final = "How long a call may take."
_FLAGS: Final = (
    *_COMMON,
    flag("timeout", argument="timeout (ms)", type=LONG.convert, default=30_000, help=_TIMEOUT),
    flag("validate-regex", argument="regex", help="Say whether brokers take this expression for topics."),
)
_OLDER_FLAGS: Final = (
    *_COMMON,
    flag("timeout", argument="timeout (ms)", type=LONG.convert, default=5_000, help=_TIMEOUT),
)
_ABOUT: Final = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset "
    "consumer group offsets."
)
_ONLY_WITH: Final[Mapping[str, Sequence[str]]] = {
    "members": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "verbose": ("describe",),
}
_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_LEVELS: Final = ("list", "describe", "delete", "reset-offsets")
_SCENARIOS: Final = (
    *("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "shift-by", "from-file"),
)
_STATES: Final = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling"),
)
_WARNING: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)
_OLDER_WARNING: Final = (
    "WARN: No action will be performed as the --execute option is missing.In a future major release, the default "
    "behavior of this command will be to prompt the user before executing the reset rather than doing a dry run. You "
    "should add the --dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting."
)


def flags_of(face: Face) -> Sequence[Flag]:
    """Return the flags of a release."""
    return _OLDER_FLAGS if face.is_3_9 else _FLAGS


def in_set_order(names: Iterable[str]) -> list[str]:
    """Return names of options in the order of a HashSet of options."""
    found = list(names)
    return [found[position] for position in hash_order((31 + string_hash(each)) & 0xFFFFFFFF for each in found)]


def parsed(arguments: Sequence[str], face: Face) -> Parsed:
    """Return the parsed and checked command line."""
    flags = flags_of(face)
    found = parse(flags, arguments)
    unavailable = [
        name for name, others in _ONLY_WITH.items() if found.has(name) and not any(found.has(other) for other in others)
    ]
    if unavailable:
        raise JavaError(
            "joptsimple.UnavailableOptionException",
            f"Option(s) [{', '.join(sorted(unavailable))}] are unavailable given other options on the command line",
        )
    maybe_print_help_or_version(face, flags, found, arguments, _ABOUT)
    if face.is_3_9 or not found.has("validate-regex"):
        check_required(face, flags, found, "bootstrap-server")
    for check in (_check_describe, _check_deletions, _check_reset):
        message = check(found, face)
        if message is not None:
            raise print_usage_and_exit(face, flags, message)
    for scenario in _SCENARIOS if found.has("reset-offsets") else ():
        check_invalid(face, flags, found, scenario, _without(_SCENARIOS, scenario))
    check_invalid(face, flags, found, "group", ["all-groups"])
    check_invalid(face, flags, found, "group", ["list"])
    check_invalid(face, flags, found, "topic", _without(_LEVELS, "delete", "reset-offsets"))
    return found


def _without(names: Sequence[str], *out: str) -> list[str]:
    return in_set_order(each for each in names if each not in out)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in in_set_order(names))


def _lacks_groups(found: Parsed) -> bool:
    return not found.has("group") and not found.has("all-groups")


def _check_describe(found: Parsed, face: Face) -> str | None:
    if not found.has("describe"):
        return None
    if _lacks_groups(found):
        return f"Option [describe] takes one of these options: {_listed(_LEVELS if face.is_3_9 else _SCOPES)}"
    if sum(found.has(each) for each in ("members", "offsets", "state")) > 1:
        return "Option [describe] takes at most one of these options: [members], [offsets], [state]"
    if found.has("state") and found.value("state") is not None:
        return "Option [describe] does not take a value for [state]"
    return None


_SCOPES: Final = ("group", "all-groups")


def _check_deletions(found: Parsed, face: Face) -> str | None:
    if found.has("delete") and _lacks_groups(found):
        return f"Option [delete] takes one of these options: {_listed(_SCOPES)}"
    if found.has("delete") and found.has("topic"):
        return "The consumer does not support topic-specific offset deletion from a consumer group."
    if found.has("delete-offsets") and not (found.has("group") and found.has("topic")):
        needed = _SCOPES if face.is_3_9 else ("group", "topic")
        return f"Option [delete-offsets] takes the following options: {_listed(needed)}"
    return None


def _check_reset(found: Parsed, face: Face) -> str | None:
    if not found.has("reset-offsets"):
        return None
    if found.has("dry-run") and found.has("execute"):
        return "Option [reset-offsets] only accepts one of [execute] and [dry-run]"
    if not found.has("dry-run") and not found.has("execute"):
        face.complain(_OLDER_WARNING if face.is_3_9 else _WARNING)
    if _lacks_groups(found):
        return f"Option [reset-offsets] takes one of these options: {_listed(_SCOPES)}"
    return None


def action(found: Parsed, face: Face) -> str:
    """Return the one action of the command line."""
    names = _ACTIONS if face.is_3_9 else (*_ACTIONS, "validate-regex")
    given = [each for each in names if found.has(each)]
    if len(given) != 1:
        shown = ", ".join(f"--{each}" for each in names)
        raise print_usage_and_exit(face, flags_of(face), f"Command must include exactly one action: {shown}")
    return given[0]


def check_values(found: Parsed, face: Face) -> None:
    """Raise JavaError for invalid values, also unused ones; with 3.9 only for those in use."""
    if not face.is_3_9:
        for name in ("to-offset", "from-file", "to-datetime"):
            found.values(name)
        for name in ("by-duration", "shift-by", "timeout"):
            found.value(name)


# Values


def states(text: str | None) -> list[str]:
    """Return the states of `--state`."""
    by_name = {each.upper(): each for each in _STATES}
    names = [each.strip().upper() for each in text.split(",")] if text else []
    if any(each not in by_name for each in names):
        raise illegal_argument(f"Invalid state list '{text}'. Valid states are: {', '.join(_STATES)}")
    return list(dict.fromkeys(by_name[each] for each in names))


def types(text: str | None, face: Face) -> list[str]:
    """Return the types of `--type`."""
    known = ("Consumer", "Classic")
    names = [each.strip().capitalize() for each in text.split(",")] if text else []
    if face.is_3_9 and "Share" in names:
        return names
    if any(each not in known for each in names):
        raise illegal_argument(f"Invalid types list '{text}'. Valid types are: {', '.join(known)}")
    return names


_PYTHON_ERRORS: Final = (
    ("unterminated character set", "missing closing ]"),
    ("missing ), unterminated subpattern", "missing closing )"),
    ("unbalanced parenthesis", "regexp/syntax: internal error"),
    ("nothing to repeat", "missing argument to repetition operator"),
    ("multiple repeat", "invalid nested repetition operator"),
    ("min repeat greater than max repeat", "invalid repeat count"),
    ("bad character range", "invalid character class range"),
    ("bad escape (end of pattern)", "trailing backslash at end of expression"),
    ("bad escape", "invalid escape sequence"),
)
_NOT_RE2: Final = (
    (re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]"), "invalid escape sequence"),
    (re.compile(r"\(\?(?:[=!#>]|<[=!]|P[=>])"), "invalid or unsupported Perl syntax"),
)
"""Syntax of Python that RE2 lacks: backreferences, lookahead and lookbehind."""


def regex_verdict(text: str) -> str:
    """Return the line about the validity of an expression for topics."""
    reason = next((said for pattern, said in _NOT_RE2 if pattern.search(text)), None)
    try:
        # RE2 has named groups in both spellings.
        re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", text))
    except re.error as error:
        reason = reason or next((said for begin, said in _PYTHON_ERRORS if error.msg.startswith(begin)), error.msg)
    return f"The regular expression `{text}` is {'valid' if reason is None else f'invalid: {reason}'}."
