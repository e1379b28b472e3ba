"""kafka-get-offsets: an offset of each partition.

Counterpart: org.apache.kafka.tools.GetOffsetShell.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.admin.offsets import NO_OFFSET, FoundOffset, list_offsets
from ottla.client.admin.topics import describe_topics
from ottla.client.cluster import Client
from ottla.client.connection import Connection
from ottla.client.errors import UnsupportedRequestError
from ottla.scripts.kafka.calls import as_execution, client_config, reached
from ottla.scripts.kafka.face import Face, JavaError, as_java, execution
from ottla.scripts.kafka.failures import TerseError
from ottla.scripts.kafka.filters import IncludeList
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
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.types import TopicPartition

_BROKER_LIST: Final = flag(
    "broker-list", argument="HOST1:PORT1,...,HOST3:PORT3", help="The same as --bootstrap-server."
)
_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="HOST1:PORT1,...,HOST3:PORT3", help="The brokers to ask (required)."),
    flag("topic-partitions", argument="topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3", help="What to ask for."),
    flag("topic", argument="topic", help="A regular expression for topics."),
    flag("partitions", argument="partition ids", help="Numbers of partitions, parted by commas."),
    flag("time", argument="timestamp", default="latest", help="A timestamp, or a word such as latest or earliest."),
    flag("command-config", argument="config file", help="A file of client properties."),
    flag("exclude-internal-topics", help="Leave out internal topics."),
)
_ABOUT: Final = "An interactive shell for getting topic-partition offsets."
_NAMED_TIMES: Final[Mapping[str, int]] = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_VERSION_OF: Final[Mapping[int, int]] = {-3: 7, -4: 8, -5: 9, -6: 11}
"""The first version of ListOffsets that knows these special timestamps."""
_NEWEST: Final = 11
_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_PORT: Final = re.compile(r".*:[0-9]+|\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+")
_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}")


class _Rule(NamedTuple):
    """A pattern of topics and some of their partitions."""

    topics: IncludeList
    partitions: range | frozenset[int]

    def allows(self, topic: str) -> bool:
        return self.topics.allows(topic, exclude_internal=False)

    def allows_partition(self, partition: int) -> bool:
        return self.partitions == frozenset() or partition in self.partitions


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = _parsed(arguments, face)
        server = parsed.value("bootstrap-server" if parsed.has("bootstrap-server") else "broker-list")
        if not parsed.has("topic-partitions"):
            rules = [_rule_of(parsed)]
        elif parsed.has("topic") or parsed.has("partitions"):
            raise TerseError("--topic-partitions cannot be used with --topic or --partitions")
        timestamp = _timestamp(parsed.value("time"), face)
        if parsed.has("topic-partitions"):
            rules = [_rule(each) for each in parsed.value("topic-partitions").split(",")]
        config = parsed.value("command-config")
        found = reached(face, client_config(face, server, config), "listTopics", _fetch, rules, timestamp, parsed, face)
    except TerseError as error:
        face.complain(f"Error occurred: {error}")
        return 1
    except JavaError as error:
        if error.java_class.startswith("joptsimple."):
            face.complain(f"Error occurred: {error.message}")
        else:
            face.complain(f"Error occurred: {error.message}")
            face.complain_trace(error)
        return 1
    for partition in sorted(found, key=str):
        face.print(f"{partition.topic}:{partition.partition}:{found[partition].offset}")
    return 0


def _parsed(arguments: Sequence[str], face: Face) -> Parsed:
    flags = [*_FLAGS, _BROKER_LIST] if face.is_3_9 else _FLAGS
    if not arguments:
        raise print_usage_and_exit(face, flags, _ABOUT)
    parsed = parse(flags, arguments)
    required = "bootstrap-server"
    if face.is_3_9 and not parsed.has("help") and not parsed.has("version"):
        if not parsed.has("bootstrap-server") and not parsed.has("broker-list"):
            raise TerseError("Missing required option(s) [bootstrap-server]")
        required = "bootstrap-server" if parsed.has("bootstrap-server") else "broker-list"
    maybe_print_help_or_version(face, flags, parsed, arguments, _ABOUT)
    check_required(face, flags, parsed, required)
    servers = parsed.value(required)
    if not servers.strip():
        raise print_usage_and_exit(face, flags, "Error while validating the bootstrap address\n")
    if not all(_PORT.fullmatch(each) for each in servers.split(",")):
        raise print_usage_and_exit(face, flags, "Please provide valid host:port like host1:9091,host2:9092\n")
    return parsed


def _timestamp(text: str, face: Face) -> int:
    is_new = text == "earliest-pending-upload"
    if text in _NAMED_TIMES and not (face.is_3_9 and is_new):
        return _NAMED_TIMES[text]
    if _LONG.fullmatch(text):
        return int(text)
    known = [f"{number} or {name}" for name, number in _NAMED_TIMES.items()]
    shown = " / ".join(known[:-1] if face.is_3_9 else known)
    raise TerseError(f"Malformed time argument {text}. Please use {shown}, or a specified long format timestamp")


def _rule_of(parsed: Parsed) -> _Rule:
    """Return the rule of --topic and --partitions."""
    topics, numbers = parsed.value("topic"), parsed.value("partitions")
    try:
        chosen = frozenset(map(int, numbers.split(","))) if numbers else frozenset()
    except ValueError:
        raise TerseError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {numbers}"
        ) from None
    return _Rule(IncludeList(".*" if topics is None else topics), chosen)


def _rule(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        error = JavaError("org.apache.kafka.tools.TerseException", f"Invalid rule specification: {text}")
        raise JavaError("java.lang.RuntimeException", str(error), error)
    topics, single, lower, upper = match.groups()
    numbers = range(int(lower or 0), int(upper or 2**31 - 1))
    if single:
        numbers = range(int(single), int(single) + 1)
    return _Rule(IncludeList(topics or ".*"), numbers)


async def _fetch(
    client: Client, rules: Sequence[_Rule], timestamp: int, parsed: Parsed, face: Face
) -> dict[TopicPartition, FoundOffset]:
    partitions = await _partitions(client, rules, parsed.has("exclude-internal-topics"))
    if not partitions:
        raise TerseError("Could not match any topic-partitions with the specified filters")
    if face.is_3_9 and timestamp == _NAMED_TIMES["earliest-pending-upload"]:
        # The client of that release sends it like any time, in a version in which brokers refuse it.
        results: Mapping[TopicPartition, FoundOffset | JavaError]
        results = dict.fromkeys(partitions, as_java(KafkaError(ErrorCode.UNSUPPORTED_VERSION, "")))
    else:
        results = await _offsets(client, partitions, timestamp)
    found = {}
    for partition in partitions:
        result = results[partition]
        if isinstance(result, JavaError):
            face.complain(
                f"Skip getting offsets for topic-partition {partition} due to error: {execution(result).message}"
            )
        elif result.offset != NO_OFFSET:
            found[partition] = result
    return found


async def _partitions(client: Client, rules: Sequence[_Rule], excludes_internal: bool) -> list[TopicPartition]:
    topics = (await client.metadata(None)).topics
    names = [each.name or "" for each in topics if not (excludes_internal and each.is_internal)]
    names = [name for name in names if any(rule.allows(name) for rule in rules)]
    described = await describe_topics(client, names)
    found = []
    for name in by_string_hash(names, len(names)):
        topic = described[name]
        if isinstance(topic, KafkaError):
            raise topic
        found += [
            TopicPartition(name, number)
            for number in sorted(each.partition_index for each in topic.partitions)
            if any(rule.allows(name) and rule.allows_partition(number) for rule in rules)
        ]
    return found


async def _offsets(
    client: Client, partitions: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, FoundOffset | JavaError]:
    connection = await client.connection()
    try:
        connection.version_of(ListOffsetsRequest, _VERSION_OF.get(timestamp, 1))
    except UnsupportedRequestError:
        return dict.fromkeys(partitions, _unsupported(connection, _VERSION_OF.get(timestamp, 1)))
    results = await list_offsets(client, dict.fromkeys(partitions, timestamp))
    return {each: _as_java(result) for each, result in results.items()}


def _unsupported(connection: Connection, lowest: int) -> JavaError:
    """Return the exception of Kafka's client for a broker that is too old for a request."""
    offered = connection.api_versions[ListOffsetsRequest.api_key]
    return JavaError(
        "org.apache.kafka.common.errors.UnsupportedVersionException",
        f"The node does not support LIST_OFFSETS with version in range [{lowest},{_NEWEST}]. The supported range is "
        f"[{offered.lowest},{offered.highest}].",
    )


def _as_java(result: FoundOffset | KafkaError) -> FoundOffset | JavaError:
    if not isinstance(result, KafkaError):
        return result
    cause = as_execution(result, "listOffsets").cause
    assert cause is not None
    return cause
