"""The flags of kafka-console-consumer, checked in Kafka's order.

Counterpart: org.apache.kafka.tools.consumer.ConsoleConsumerOptions.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.scripts.kafka.client_properties import key_values, properties_of
from ottla.scripts.kafka.face import Face, JavaError, ToolExit
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.scripts.kafka.java.numbers import INTEGER, LONG
from ottla.scripts.kafka.records.formatters import DEFAULT_FORMATTER, Formatter, formatter

_ABOUT: Final = "This tool helps to read data from Kafka topics and outputs it to standard output."
_LONG_TEXT: Final = re.compile(r"[+-]?[0-9]+")
_MOST: Final = (1 << 63) - 1
_COMMON: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("topic", argument="topic", help="The topic to read."),
    flag("include", argument="Java regex (String)", help="A regular expression for the topics to read."),
    flag("partition", argument="partition", type=INTEGER.convert, help="The partition to read, from its end on."),
    flag("offset", argument="consume offset", default="latest", help="Where to begin: earliest, latest, a number."),
    flag("consumer-property", argument="consumer_prop", help="key=value: a property of the consumer."),
    flag("consumer.config", argument="config file", help="A file of properties of the consumer."),
    flag("formatter", argument="class", default=DEFAULT_FORMATTER, help="How to print; only Kafka's own are here."),
    flag("property", argument="prop", help="key=value: a property of the formatter, such as print.key=true."),
    flag("formatter-config", argument="config file", help="A file of properties of the formatter."),
    flag("from-beginning", help="Begin with the first record, unless the group has committed."),
    flag("max-messages", argument="num_messages", type=INTEGER.convert, help="End after so many records."),
    flag("timeout-ms", argument="timeout_ms", type=LONG.convert, help="End when no record comes for so long."),
    flag("skip-message-on-error", help="Pass over a record that cannot be printed."),
    flag("bootstrap-server", argument="server to connect to", help="The brokers to find the cluster at (required)."),
    flag("key-deserializer", argument="deserializer for keys", help="The class that reads keys; only Kafka's own."),
    flag("value-deserializer", argument="deserializer for values", help="The same for values."),
    flag("enable-systest-events", help="Say when the tool ends."),
    flag("isolation-level", argument="String", default="read_uncommitted", help="read_committed or read_uncommitted."),
    flag("group", argument="consumer group id", help="The group to read as."),
)
_FLAGS: Final = (
    *_COMMON,
    flag("command-property", argument="consumer_prop", help="key=value: a property of the consumer."),
    flag("command-config", argument="config file", help="A file of properties of the consumer."),
    flag("formatter-property", argument="prop", help="key=value: a property of the formatter."),
)
_OLDER_FLAGS: Final = (
    *_COMMON,
    flag("whitelist", argument="Java regex (String)", help="An older name of --include."),
)


class ConsumerOptions(NamedTuple):
    """The parsed flags. `timeout_ms` is the largest number if there is none."""

    parsed: Parsed
    properties: Mapping[str, str]
    topic: str | None
    include: str | None
    partition: int | None
    offset: int
    timeout_ms: int
    formatter: Formatter


def read_options(arguments: Sequence[str], face: Face) -> ConsumerOptions:
    """Return the options. ToolExit or JavaError for invalid flags."""
    flags = _OLDER_FLAGS if face.is_3_9 else _FLAGS
    try:
        parsed = parse(flags, arguments)
    except JavaError as error:
        raise print_usage_and_exit(face, flags, str(error.message)) from None
    maybe_print_help_or_version(face, flags, parsed, arguments, _ABOUT)
    partition = _check_topic(parsed, flags, face)
    check_required(face, flags, parsed, "bootstrap-server")
    if not face.is_3_9:
        _check_renamed(parsed, face)
    from_file = properties_of(parsed.value("consumer.config") or _new_value(parsed, "command-config"))
    extra = key_values(parsed.values("consumer-property") or _new_values(parsed, "command-property"))
    group = _group(parsed, flags, face, from_file, extra)
    return ConsumerOptions(
        parsed=parsed,
        properties=_properties(parsed, face, {**from_file, **extra}, group),
        topic=parsed.value("topic"),
        include=parsed.value("include") or (parsed.value("whitelist") if parsed.knows("whitelist") else None),
        partition=partition,
        offset=_offset(parsed, flags, face),
        timeout_ms=_timeout_ms(parsed),
        formatter=_formatter(parsed, flags, face),
    )


def _new_value(parsed: Parsed, name: str) -> str | None:
    return parsed.value(name) if parsed.knows(name) else None


def _new_values(parsed: Parsed, name: str) -> list[str]:
    return parsed.values(name) if parsed.knows(name) else []


def _check_topic(parsed: Parsed, flags: Sequence[Flag], face: Face) -> int | None:
    """Return the partition, after checking the flags for topics."""
    names = ("topic", "include", "whitelist") if face.is_3_9 else ("topic", "include")
    given = [name for name in names if parsed.has(name)]
    if face.is_3_9:
        if len({name.replace("whitelist", "include") for name in given}) != 1:
            hint = "--whitelist is DEPRECATED use --include instead; ignored if --include specified."
            text = f"Exactly one of --include/--topic is required. {hint if parsed.has('whitelist') else ''}"
            raise print_usage_and_exit(face, flags, text)
    elif len(given) != 1:
        text = f"Exactly one of the following arguments is required: {', '.join(f'[{each}]' for each in names)}"
        raise print_usage_and_exit(face, flags, text)
    if not parsed.has("partition"):
        if parsed.has("offset"):
            raise print_usage_and_exit(face, flags, "The partition is required when offset is specified.")
        return None
    partition: int = parsed.value("partition")
    if not parsed.has("topic"):
        raise print_usage_and_exit(face, flags, "The topic is required when partition is specified.")
    if parsed.has("from-beginning") and parsed.has("offset"):
        raise print_usage_and_exit(face, flags, "Options from-beginning and offset cannot be specified together.")
    return partition


def _check_renamed(parsed: Parsed, face: Face) -> None:
    renamed = (("consumer-property", "command-property"), ("consumer.config", "command-config"))
    for old, new in renamed:
        if parsed.has(old) and parsed.has(new):
            raise print_usage_and_exit(face, _FLAGS, f"Options --{old} and --{new} cannot be specified together.")
    for old, new in renamed:
        if parsed.has(old):
            face.print(_deprecated(old, new))


def _deprecated(old: str, new: str) -> str:
    return f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead."


def _group(
    parsed: Parsed, flags: Sequence[Flag], face: Face, from_file: Mapping[str, str], extra: Mapping[str, str]
) -> str | None:
    given = [parsed.value("group"), from_file.get("group.id"), extra.get("group.id")]
    groups = by_string_hash(each for each in given if each is not None)
    if len(groups) > 1:
        shown = ", ".join(f"'{each}'" for each in groups)
        text = (
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {shown}"
        )
        raise print_usage_and_exit(face, flags, text)
    if groups and parsed.has("partition"):
        raise print_usage_and_exit(face, flags, "Options group and partition cannot be specified together.")
    return groups[0] if groups else None


def _properties(parsed: Parsed, face: Face, properties: dict[str, str], group: str | None) -> dict[str, str]:
    reset = properties.get("auto.offset.reset")
    if reset is None:
        properties["auto.offset.reset"] = "earliest" if parsed.has("from-beginning") else "latest"
    elif parsed.has("from-beginning") and reset != "earliest":
        face.complain(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
        raise ToolExit(1)
    properties["bootstrap.servers"] = parsed.value("bootstrap-server")
    properties.setdefault("client.id", "console-consumer")
    if parsed.has("isolation-level") or "isolation.level" not in properties:
        properties["isolation.level"] = parsed.value("isolation-level")
    if group is None:
        properties["group.id"] = f"console-consumer-{random.randrange(100_000)}"
        properties.setdefault("enable.auto.commit", "false")
    else:
        properties["group.id"] = group
    return properties


def _offset(parsed: Parsed, flags: Sequence[Flag], face: Face) -> int:
    if not parsed.has("offset"):
        return EARLIEST if parsed.has("from-beginning") else LATEST
    text: str = parsed.value("offset")
    named = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in named:
        return named[text.lower()]
    if _LONG_TEXT.fullmatch(text) and 0 <= int(text) <= _MOST:
        return int(text)
    message = (
        f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative "
        "long."
    )
    raise print_usage_and_exit(face, flags, message)


def _timeout_ms(parsed: Parsed) -> int:
    found = parsed.value("timeout-ms")
    return found if found is not None and found >= 0 else _MOST


def _formatter(parsed: Parsed, flags: Sequence[Flag], face: Face) -> Formatter:
    name = parsed.value("formatter")
    if not face.is_3_9:
        if parsed.has("formatter-property") and parsed.has("property"):
            text = "Options --property and --formatter-property cannot be specified together."
            raise print_usage_and_exit(face, flags, text)
        if parsed.has("property"):
            face.print(_deprecated("property", "formatter-property"))
    try:
        properties = properties_of(parsed.value("formatter-config"))
        for field in ("key", "value"):
            found = parsed.value(f"{field}-deserializer")
            if found:
                properties[f"{field}.deserializer"] = found
        properties |= key_values(parsed.values("property") or _new_values(parsed, "formatter-property"))
        return formatter(name, properties, face)
    except JavaError as error:
        raise print_usage_and_exit(face, flags, str(error.message)) from None
