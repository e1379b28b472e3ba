"""kafka-delete-records: delete the records before an offset of each partition.

Counterpart: org.apache.kafka.tools.DeleteRecordsCommand.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.admin.records import delete_records
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import as_execution, client_config, reached
from ottla.scripts.kafka.face import Face, JavaError
from ottla.scripts.kafka.failures import command_failed, operation_failed
from ottla.scripts.kafka.flags import HELP, VERSION, Flag, check_required, flag, maybe_print_help_or_version, parse
from ottla.scripts.kafka.java import json_values
from ottla.scripts.kafka.java.hashes import by_partition_hash
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="server(s) to use for bootstrapping", help="The brokers to ask (required)."),
    flag("offset-json-file", argument="Offset json file path", help="The partitions and their offsets (required)."),
    flag("command-config", argument="command config property file path", help="A file of client properties."),
)
_CALL: Final = "deleteRecords"


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = parse(_FLAGS, arguments)
        about = "This tool helps to delete records of the given partitions down to the specified offset."
        maybe_print_help_or_version(face, _FLAGS, parsed, arguments, about)
        check_required(face, _FLAGS, parsed, "bootstrap-server", "offset-json-file")
        text = json_values.read_file(parsed.value("offset-json-file"))
        offsets = _offsets(text, face)
        server, config = parsed.value("bootstrap-server"), parsed.value("command-config")
        results = reached(face, client_config(face, server, config), _CALL, _delete, offsets, face)
        _print_results(results, list(offsets), face)
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1
    return 0


def _offsets(text: str, face: Face) -> dict[TopicPartition, int]:
    """Return the offsets in the file, in the order of a HashMap."""
    try:
        document = json_values.parse(text)
    except JavaError:
        raise operation_failed(face.release, "The input string is not a valid JSON") from None
    found: dict[TopicPartition, list[int]] = {}
    for partition, offset in _entries(json_values.as_object(document), face):
        found.setdefault(partition, []).append(offset)
    ordered = by_partition_hash(found)
    twice = [each for each in ordered if len(found[each]) > 1]
    if twice:
        message = f"Offset json file contains duplicate topic partitions: {','.join(map(str, twice))}"
        raise command_failed(face.release, message)
    return {each: found[each][0] for each in ordered}


def _entries(document: dict[str, Any], face: Face) -> list[tuple[TopicPartition, int]]:
    version = json_values.as_int(document.get("version", 1))
    if version != 1:
        raise operation_failed(face.release, f"Not supported version field value {version}")
    if "partitions" not in document:
        raise operation_failed(face.release, "Missing partitions field")
    found = []
    for each in map(json_values.as_object, json_values.as_array(document["partitions"])):
        topic = json_values.as_text(json_values.field(each, "topic"))
        partition = json_values.as_int(json_values.field(each, "partition"))
        found.append((TopicPartition(topic, partition), json_values.as_long(json_values.field(each, "offset"))))
    return found


def _print_results(
    results: Mapping[TopicPartition, int | KafkaError], partitions: Sequence[TopicPartition], face: Face
) -> None:
    face.print("Records delete operation completed:")
    for each in partitions:
        result = results[each]
        if isinstance(result, KafkaError):
            if result.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # Kafka's client waits for such a partition until its timeout.
                result = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "")
            face.print(f"partition: {each}\terror: {as_execution(result, _CALL).message}")
        else:
            face.print(f"partition: {each}\tlow_watermark: {result}")


async def _delete(
    client: Client, offsets: Mapping[TopicPartition, int], face: Face
) -> dict[TopicPartition, int | KafkaError]:
    face.print("Executing records delete operation")
    return await delete_records(client, offsets)
