"""kafka-leader-election: elect leaders of partitions.

Counterpart: org.apache.kafka.tools.LeaderElectionCommand.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.client.admin.elections import ElectionType, elect_leaders
from ottla.client.config import read_properties
from ottla.scripts.kafka.calls import client_config, reached
from ottla.scripts.kafka.face import Face, JavaError, as_java
from ottla.scripts.kafka.failures import command_failed, operation_failed
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_invalid,
    flag,
    maybe_print_help_or_version,
    parse,
)
from ottla.scripts.kafka.java import json_values
from ottla.scripts.kafka.java.hashes import by_partition_hash
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition


def _election_type(text: str) -> ElectionType:
    if text.upper() not in ElectionType.__members__:
        known = ",".join(ElectionType.__members__)
        raise ValueError(JavaError("joptsimple.ValueConversionException", f"Value [{text}] is not one of [[{known}]]"))
    return ElectionType[text.upper()]


_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="host:port", help="The brokers to ask (required)."),
    flag("admin.config", argument="config file", help="A file of client properties; --command-config is its new name."),
    flag("command-config", argument="Config file", help="A file of client properties."),
    flag("path-to-json-file", argument="Path to JSON file", help="The partitions, as a JSON file."),
    flag("topic", argument="topic name", help="The topic of one partition."),
    flag("partition", argument="partition id", type=int, help="The number of that partition."),
    flag("all-topic-partitions", help="All partitions that need an election."),
    flag("election-type", argument="election type", type=_election_type, help="preferred or unclean (required)."),
)
_ABOUT: Final = (
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas."
)
_EXCLUSIVE: Final = ("topic", "all-topic-partitions", "path-to-json-file")
_TIMEOUTS: Final = {"default.api.timeout.ms": "30000", "request.timeout.ms": "15000"}
_RUNTIME: Final = "java.lang.RuntimeException"


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    flags = [each for each in _FLAGS if not (face.is_3_9 and each.name == "command-config")]
    try:
        parsed = parse(flags, arguments)
        maybe_print_help_or_version(face, flags, parsed, arguments, _ABOUT)
        _check(parsed, flags, face)
        partitions = _partitions(parsed, face)
        if parsed.has("admin.config") and not face.is_3_9:
            face.print(
                "Option --admin.config has been deprecated and will be removed in a future version. Use "
                "--command-config instead."
            )
        _elect(parsed, partitions, face)
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1
    return 0


def _check(parsed: Parsed, flags: Sequence[Flag], face: Face) -> None:
    missing = [each for each in ("bootstrap-server", "election-type") if not parsed.has(each)]
    if missing:
        raise command_failed(face.release, f"Missing required option(s): {', '.join(missing)}")
    if not face.is_3_9:
        check_invalid(face, flags, parsed, "admin.config", ["command-config"])
    if sum(parsed.has(each) for each in _EXCLUSIVE) != 1:
        message = f"One and only one of the following options is required: {', '.join(_EXCLUSIVE)}"
        raise command_failed(face.release, message)
    if parsed.has("topic") and not parsed.has("partition"):
        raise command_failed(face.release, "Missing required option(s): partition")
    if parsed.has("partition") and not parsed.has("topic"):
        raise command_failed(face.release, "Option partition is only allowed if topic is used")


def _partitions(parsed: Parsed, face: Face) -> list[TopicPartition] | None:
    if parsed.has("path-to-json-file"):
        return _in_file(parsed.value("path-to-json-file"), face)
    if parsed.has("topic"):
        return [TopicPartition(parsed.value("topic"), parsed.value("partition"))]
    return None


def _in_file(path: str, face: Face) -> list[TopicPartition]:
    try:
        text = json_values.read_file(path)
    except JavaError as error:
        raise JavaError(_RUNTIME, str(error), error) from None
    try:
        document = json_values.parse(text)
    except JavaError:
        raise operation_failed(face.release, "Replica election data is empty") from None
    try:
        return _in_document(document, face)
    except JavaError as error:
        if error.java_class.startswith("com.fasterxml"):
            raise JavaError(_RUNTIME, str(error), error) from None
        raise


def _in_document(document: Any, face: Face) -> list[TopicPartition]:
    fields = json_values.as_object(document)
    if "partitions" not in fields:
        raise operation_failed(face.release, 'Replica election data is missing "partitions" field')
    found = []
    for each in map(json_values.as_object, json_values.as_array(fields["partitions"])):
        topic = json_values.as_text(json_values.field(each, "topic"))
        found.append(TopicPartition(topic, json_values.as_int(json_values.field(each, "partition"))))
    twice = by_partition_hash(each for each, count in Counter(found).items() if count > 1)
    if twice:
        shown = ", ".join(map(str, twice))
        raise operation_failed(face.release, f"Replica election data contains duplicate partitions: [{shown}]")
    return found


def _elect(parsed: Parsed, partitions: Sequence[TopicPartition] | None, face: Face) -> None:
    path = parsed.value("admin.config") or (None if face.is_3_9 else parsed.value("command-config"))
    kind: ElectionType = parsed.value("election-type")
    own = _own_properties(path)
    timeouts = {key: value for key, value in _TIMEOUTS.items() if key not in own}
    server = parsed.value("bootstrap-server")
    try:
        results = reached(
            face, client_config(face, server, path, **timeouts), "electLeaders", elect_leaders, kind, partitions
        )
    except JavaError as error:
        raise _failed(error, face) from None
    _report(kind, results, face)


def _own_properties(path: str | None) -> Mapping[str, str]:
    try:
        return {} if path is None else read_properties(Path(path))
    except (ConfigError, OSError):
        return {}  # creating the client reads the file again, and refuses it


def _failed(error: JavaError, face: Face) -> JavaError:
    """Print the line for a request that failed as a whole; return its exception."""
    cause = error.cause
    if cause is None:
        return error
    for name, message in (
        ("TimeoutException", "Timeout waiting for election results"),
        ("ClusterAuthorizationException", "Not authorized to perform leader election"),
    ):
        if cause.java_class.endswith(f".{name}"):
            face.print(message)
            return command_failed(face.release, message, cause if name == "TimeoutException" else None)
    return JavaError(_RUNTIME, str(error), error)


def _report(kind: ElectionType, results: Mapping[TopicPartition, KafkaError | None], face: Face) -> None:
    ordered = by_partition_hash(results)
    needless = [each for each in ordered if _is_needless(results[each])]
    elected = [each for each in ordered if results[each] is None]
    if elected:
        shown = ", ".join(map(str, elected))
        face.print(f"Successfully completed leader election ({kind.name}) for partitions {shown}")
    if needless:
        face.print(f"Valid replica already elected for partitions {', '.join(map(str, needless))}")
    failed = {each: error for each in ordered if (error := results[each]) and not _is_needless(error)}
    for each, error in failed.items():
        face.print(f"Error completing leader election ({kind.name}) for partition: {each}: {as_java(error)}")
    if failed:
        raise command_failed(face.release, f"{len(failed)} replica(s) could not be elected")


def _is_needless(error: KafkaError | None) -> bool:
    return error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED
