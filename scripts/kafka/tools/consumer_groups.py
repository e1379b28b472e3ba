"""kafka-consumer-groups: list, describe and delete consumer groups, and reset or delete their offsets.

Counterparts: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand, ConsumerGroupCommandOptions.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.admin.groups.committed_offsets import delete_offsets
from ottla.client.admin.groups.descriptions import (
    GroupDescription,
    delete_groups,
)
from ottla.client.admin.offsets import LATEST, partitions_of
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import command_config
from ottla.scripts.kafka.face import Face, JavaError, as_java, execution
from ottla.scripts.kafka.flags import Parsed, print_usage_and_exit
from ottla.scripts.kafka.groups import consumer_flags as options
from ottla.scripts.kafka.groups.calls import all_committed, call, described, group_ids, listings, waited
from ottla.scripts.kafka.groups.consumer_resets import reset
from ottla.scripts.kafka.groups.offset_resets import (
    as_runtime,
    in_hash_order,
    offsets_at,
    parse_topic_with_partitions,
    runtime,
)
from ottla.scripts.kafka.groups.tables import (
    OffsetRow,
    offset_rows,
    print_members,
    print_offsets,
    print_state,
)
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_CONVERSION: Final = "joptsimple.OptionArgumentConversionException"
_REFLECTION: Final = "joptsimple.internal.ReflectionException"
_OF_GROUP: Final = frozenset(
    {
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NON_EMPTY_GROUP,
    }
)
_OF_PARTITION: Final = frozenset(
    {
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_OLDER_REFUSALS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INVALID_GROUP_ID: "'{}' is not valid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "'{}' does not exist.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Access to '{}' is not authorized.",
    ErrorCode.NON_EMPTY_GROUP: "Deleting offsets of a consumer group '{}' is forbidden if the group is not empty.",
}


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    parsed = options.parsed(arguments, face)
    action = options.action(parsed, face)
    try:
        if action == "validate-regex":
            face.print(options.regex_verdict(parsed.value("validate-regex")))
        else:
            _execute(parsed, face, action)
    except JavaError as error:
        if error.java_class == "java.lang.IllegalArgumentException":
            raise print_usage_and_exit(face, options.flags_of(face), str(error.message)) from None
        _complain(face, error)
    return 0


def _complain(face: Face, error: JavaError) -> None:
    face.print(f"\nError: Executing consumer group command failed due to {error.message or 'null'}")
    if error.java_class == _CONVERSION and error.cause is None:
        text = re.sub(r".*?'(.*)'.*", r"\1", str(error.message), flags=re.DOTALL)
        reason = JavaError("java.lang.NumberFormatException", f'For input string: "{text}"')
        error = JavaError(error.java_class, error.message, JavaError(_REFLECTION, str(reason), reason))
    for line in error.trace():
        face.complain(line)


def _execute(parsed: Parsed, face: Face, action: str) -> None:
    options.check_values(parsed, face)
    try:
        file = command_config(parsed)
    except JavaError as error:
        raise runtime(error) from None
    timeout = {"default.api.timeout.ms": str(parsed.value("timeout"))}
    try:
        config = face.config(parsed.value("bootstrap-server"), file, **timeout)
    except (ConfigError, OSError) as error:
        raise JavaError("org.apache.kafka.common.KafkaException", str(error)) from None
    face.with_client(config, _WORK[action], parsed, face)


# List


async def _list(client: Client, parsed: Parsed, face: Face) -> None:
    shows_type, shows_state = parsed.has("type"), parsed.has("state")
    if not (shows_type or shows_state):
        for listing in await waited(client, "listGroups", listings(client)):
            face.print(listing.group_id)
        return
    types = options.types(parsed.value("type"), face)
    states = options.states(parsed.value("state"))
    found = await call(client, "listGroups", listings(client, states, types))
    width = max([15, *(len(each.group_id) for each in found)]) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [(each.group_id, (each.type or "Unknown").capitalize(), each.state or "Unknown") for each in found]
    for group, kind, state in rows:
        line = f"{group:<{width}}"
        line += f" {kind:<20}" if shows_type else ""
        line += f" {state:<20}" if shows_state else ""
        face.print(line)


# Describe


async def _describe(client: Client, parsed: Parsed, face: Face) -> None:
    groups = await group_ids(client, parsed)
    descriptions: dict[str, GroupDescription] = {}
    for group, result in (await described(client, groups)).items():
        if isinstance(result, JavaError):
            raise result
        descriptions[group] = result
    found = [descriptions[group] for group in sorted(descriptions)]
    is_verbose = parsed.has("verbose")
    if parsed.has("members"):
        for each in found:
            print_members(face, each, is_verbose=is_verbose)
    elif parsed.has("state"):
        for each in found:
            print_state(face, each, is_verbose=is_verbose)
    else:
        rows = await _offset_rows(client, face, descriptions)
        for each in found:
            print_offsets(face, each, rows[each.group_id], is_verbose=is_verbose)


async def _offset_rows(
    client: Client, face: Face, groups: Mapping[str, GroupDescription]
) -> dict[str, list[OffsetRow]]:
    committed = await all_committed(client, list(groups))
    assigned = {each for group in groups.values() for member in group.members for each in member.assignment}
    wanted = in_hash_order(assigned | {each for found in committed.values() for each in found})
    if not face.is_3_9:
        existing = await waited(client, "describeTopics", partitions_of(client, {each.topic for each in wanted}))
        for topic in existing.values():
            if isinstance(topic, KafkaError):
                raise as_runtime(topic)
        leaders = await client.leaders(wanted) if wanted else {}
        wanted = [each for each in wanted if not isinstance(leaders[each], KafkaError)]
    ends = await offsets_at(client, face, wanted, LATEST)
    return {group: offset_rows(face, each, committed[group], ends) for group, each in groups.items()}


# Delete


async def _delete(client: Client, parsed: Parsed, face: Face) -> None:
    groups = await group_ids(client, parsed)
    found = await call(client, "deleteConsumerGroups", delete_groups(client, groups))
    deleted = [group for group in by_string_hash(found) if found[group] is None]
    failed = {group: error for group in by_string_hash(found) if (error := found[group]) is not None}
    if not failed:
        names = "'" + ", ".join(deleted) + "'" if face.is_3_9 else ", ".join(f"'{each}'" for each in deleted)
        face.print(f"Deletion of requested consumer groups ({names}) was successful.")
        return
    face.print("\nError: Deletion of some consumer groups failed:")
    for group, error in failed.items():
        shown = execution(as_java(error)) if face.is_3_9 else as_java(error)
        face.print(f"* Group '{group}' could not be deleted due to: {shown}")
    if deleted:
        # In 3.9 the quotes are in the wrong places.
        names = "'" + "'".join(deleted) + "', '" if face.is_3_9 else ", ".join(f"'{each}'" for each in deleted)
        face.print(f"\nThese consumer groups were deleted successfully: {names}")


async def _delete_offsets(client: Client, parsed: Parsed, face: Face) -> None:
    group, topics = parsed.value("group"), parsed.values("topic")
    partitions = {each for text in topics if ":" in text for each in parse_topic_with_partitions(text)}
    results: dict[TopicPartition, KafkaError | None] = {}
    existing = await call(client, "describeTopics", partitions_of(client, [text for text in topics if ":" not in text]))
    for topic, found in existing.items():
        if isinstance(found, KafkaError):
            results[TopicPartition(topic, -1)] = found
        else:
            partitions.update(found)
    ordered = in_hash_order(partitions)
    refusal: KafkaError | None = None
    try:
        deleted = await delete_offsets(client, group, ordered)
        refusal = next((error for each in ordered if (error := deleted[each]) is not None), None)
        results |= deleted
    except KafkaError as error:
        refusal = error
        results |= dict.fromkeys(ordered, error)
    _print_deletion(face, group, topics, refusal)
    _print_deleted_offsets(face, results)


def _print_deletion(face: Face, group: str, topics: Sequence[str], refusal: KafkaError | None) -> None:
    if refusal is None:
        shown = f"deleting offsets with topic {', '.join(topics)} group {group}"
        newer = f"Request succeeded for deleting offsets from group {group}."
        face.print(f"Request succeed for {shown}" if face.is_3_9 else newer)
    elif refusal.code in _OF_GROUP:
        text = _OLDER_REFUSALS[refusal.code].format(group) if face.is_3_9 else as_java(KafkaError(refusal.code)).message
        face.print(f"\nError: {text}")
    elif refusal.code in _OF_PARTITION:
        older = "Encounter some partition level error, see the follow-up details:"
        newer = "Encountered some partition-level error, see the follow-up details."
        face.print(f"\nError: {older if face.is_3_9 else newer}")
    else:
        word = "Encounter" if face.is_3_9 else "Encountered"
        face.print(f"\nError: {word} some unknown error: {refusal.code.name}")


def _print_deleted_offsets(face: Face, results: Mapping[TopicPartition, KafkaError | None]) -> None:
    ordered = sorted(results, key=lambda each: f"{each.topic}{each.partition}")
    absent, prefix = ("Not Provided", "Error: :") if face.is_3_9 else ("-", "Error: ")
    rows = [("TOPIC", "PARTITION", "STATUS")]
    for each in ordered:
        error = results[each]
        status = "Successful" if error is None else f"{prefix}{as_java(error)}"
        rows.append((each.topic, absent if each.partition < 0 else str(each.partition), status))
    if face.is_3_9:
        face.print("\n" + "".join(f"{a:<30} {b:<15} {c:<15}" for a, b, c in rows), end="")
        return
    width = max([15, *(len(each.topic) for each in results)])
    for a, b, c in rows:
        face.print(f"\n{a:<{width}} {b:<10} {c:<15}", end="")
    face.print()


_WORK: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": reset,
    "delete-offsets": _delete_offsets,
}
