"""kafka-log-dirs: the log directories of brokers, as one line of JSON.

Counterpart: org.apache.kafka.tools.LogDirsCommand.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.admin.log_dirs import LogDir, describe_log_dirs
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import as_execution, client_config, reached
from ottla.scripts.kafka.face import Face, JavaError, as_java
from ottla.scripts.kafka.failures import TerseError
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
)
from ottla.scripts.kafka.java import json_values
from ottla.scripts.kafka.java.hashes import by_number_hash, by_partition_hash, by_string_hash
from ottla.scripts.kafka.java.numbers import INTEGER
from ottla.wire.errors import KafkaError

_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="The server(s) to use for bootstrapping", help="The brokers to ask (required)."),
    flag("command-config", argument="Admin client property file", help="A file of client properties."),
    flag("describe", help="Describe log directories (required)."),
    flag("topic-list", argument="Topic list", default="", help="Only these topics, parted by commas."),
    flag("broker-list", argument="Broker list", default="", help="Only these brokers, parted by commas."),
)
_ABOUT: Final = "This tool helps to query log directory usage on the specified brokers."


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = parse(_FLAGS, arguments)
        maybe_print_help_or_version(face, _FLAGS, parsed, arguments, _ABOUT)
        check_required(face, _FLAGS, parsed, "bootstrap-server", "describe")
        server, config = parsed.value("bootstrap-server"), parsed.value("command-config")
        client = client_config(face, server, config, **{"client.id": "log-dirs-tool"})
        reached(face, client, "listNodes", _describe, parsed, face)
    except TerseError as error:
        face.complain(str(error))
        return 1
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1
    return 0


async def _describe(client: Client, parsed: Parsed, face: Face) -> None:
    topics = {each for each in parsed.value("topic-list").split(",") if each}
    await client.metadata(())
    there = by_number_hash(client.nodes)
    wanted = by_number_hash(_brokers(parsed.value("broker-list")))
    missing = [each for each in wanted if each not in there]
    if missing:
        raise TerseError(
            f"ERROR: The given brokers do not exist from --broker-list: {_joined(missing)}. Current existent brokers: "
            f"{_joined(there)}"
        )
    asked = wanted or there
    face.print("Querying brokers for log directories information")
    found = await describe_log_dirs(client, asked)
    dirs = {}
    for broker_id, each in found.items():
        if isinstance(each, KafkaError):
            raise as_execution(each, "describeLogDirs")
        dirs[broker_id] = each
    face.print(f"Received log directory information from brokers {_joined(asked)}")
    face.print(json_values.encode(_document(dirs, topics)))


def _brokers(text: str) -> set[int]:
    try:
        return {INTEGER.convert(each) for each in text.split(",") if each}
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _document(dirs: Mapping[int, Sequence[LogDir]], topics: set[str]) -> dict[str, Any]:
    """Return the JSON document, with keys and lists in the order of HashMaps."""
    brokers = []
    for broker_id in by_number_hash(dirs, len(dirs)):
        by_path = {each.path: each for each in dirs[broker_id]}
        paths = by_string_hash(by_path, len(by_path))
        brokers.append({"broker": broker_id, "logDirs": [_log_dir(by_path[path], topics) for path in paths]})
    return {"brokers": brokers, "version": 1}


def _log_dir(directory: LogDir, topics: set[str]) -> dict[str, Any]:
    replicas = {each.partition: each for each in directory.replicas}
    return {
        "partitions": [
            {
                "partition": str(each.partition),
                "size": each.size,
                "offsetLag": each.offset_lag,
                "isFuture": each.is_future,
            }
            for each in map(replicas.__getitem__, by_partition_hash(replicas))
            if not topics or each.partition.topic in topics
        ],
        "error": None if directory.error is None else as_java(directory.error).java_class,
        "logDir": directory.path,
    }
