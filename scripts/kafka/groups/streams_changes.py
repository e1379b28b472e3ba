"""kafka-streams-groups --delete, --reset-offsets and --delete-offsets.

Counterpart: StreamsGroupCommand's methods of these names.
"""

import re
from collections.abc import Mapping, Sequence

from ottla.client.admin.groups.committed_offsets import Committed, Offsets, commit_offsets
from ottla.client.admin.groups.committed_offsets import delete_offsets as delete_group_offsets
from ottla.client.admin.groups.streams import STREAMS, StreamsGroup, describe_streams_groups
from ottla.client.admin.offsets import partitions_of
from ottla.client.admin.topics import delete_topics
from ottla.client.cluster import Client
from ottla.scripts.kafka.face import Face, JavaError, as_java, execution
from ottla.scripts.kafka.flags import Parsed, print_usage_and_exit
from ottla.scripts.kafka.groups.calls import call, committed_of, waited
from ottla.scripts.kafka.groups.commands import DEAD, EMPTY, chosen, deleted, listings, print_error
from ottla.scripts.kafka.groups.consumer_resets import SCENARIOS
from ottla.scripts.kafka.groups.offset_resets import (
    NewOffsets,
    check_partitions,
    in_hash_order,
    parse_topic_with_partitions,
    partitions_to_reset,
    runtime,
)
from ottla.scripts.kafka.groups.reset_plans import exported
from ottla.scripts.kafka.groups.streams_flags import FLAGS
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_INTERNAL = re.compile(
    r".*-(?:changelog|repartition|subscription-registration-topic|subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d+-topic"
)
_OF_GROUP = frozenset(
    {
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NON_EMPTY_GROUP,
    }
)
_OF_PARTITION = frozenset(
    {
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_WIDTH = 15


async def described(client: Client, name: str) -> StreamsGroup:
    """Return a group. JavaError, as a future throws it, if it cannot be described."""
    found = (await call(client, "describeStreamsGroups", describe_streams_groups(client, [name])))[name]
    if isinstance(found, KafkaError):
        raise execution(as_java(found))
    if found.topology_epoch is None:
        raise execution(JavaError("java.lang.IllegalStateException", "Topology information is missing"))
    return found


async def committed_offsets(client: Client, name: str, *, with_repartition: bool) -> Offsets:
    """Return the committed offsets of a group in the topics that its tasks read."""
    group = await waited(client, "describeStreamsGroups", described(client, name))
    topics = group.source_topics(with_repartition=with_repartition)
    return {each: offset for each, offset in (await committed_of(client, name)).items() if each.topic in topics}


# Reset


async def reset(client: Client, parsed: Parsed, face: Face) -> None:
    """Reset the offsets of groups, or print the new ones only."""
    results: dict[str, NewOffsets] = {}
    for name in by_string_hash(await chosen(client, parsed, STREAMS)):
        try:
            state = (await described(client, name)).state
        except JavaError as error:
            if error.cause is None or not error.cause.java_class.endswith(".GroupIdNotFoundException"):
                raise runtime(error) from None
            state = DEAD
        if state not in (EMPTY, DEAD):
            print_error(
                face,
                f"Assignments can only be reset if the group '{name}' is inactive, but the current state is {state}.",
            )
            results[name] = {}
            continue
        results[name] = await _reset_group(client, parsed, face, name)
        if parsed.has("execute"):
            await _delete_internal_topics(client, parsed, face, name)
    ordered = {name: results[name] for name in by_string_hash(results)}
    if parsed.has("export"):
        face.print(exported(ordered, with_groups=len(parsed.values("group")) != 1))
        return
    rows: list[tuple[object, ...]] = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] if ordered else []
    rows += [(name, *each, found[each]) for name, found in ordered.items() for each in in_hash_order(found)]
    for group, topic, partition, offset in rows:
        face.print(f"\n{group!s:<30} {topic!s:<30} {partition!s:<10} {offset!s:<15}", end="")
    face.print()


async def _reset_group(client: Client, parsed: Parsed, face: Face, name: str) -> NewOffsets:
    try:
        partitions = await _scope(client, parsed, face, name)
    except JavaError as error:
        raise (error.cause or error) if error.java_class.endswith(".ExecutionException") else error from None
    scenario = next((work for flag, work in SCENARIOS.items() if parsed.has(flag)), None)
    if scenario is None:
        names = ", ".join(f"[{flag}]" for flag in SCENARIOS)
        message = f"Option '[reset-offsets]' requires one of the following scenarios: [{names}]"
        raise print_usage_and_exit(face, FLAGS, message)
    offsets = await scenario(client, parsed, face, name, partitions)
    if parsed.has("execute") and offsets:
        wanted = {each: Committed(offset) for each, offset in offsets.items()}
        results = await call(client, "commitOffsets", commit_offsets(client, name, wanted))
        failed = [each for each in in_hash_order(results) if results[each] is not None]
        first = results[failed[0]] if failed else None
        if first is not None:
            names = ", ".join(map(str, failed))
            text = f"Failed altering group offsets for the following partitions: [{names}]"
            raise as_java(KafkaError(first.code, text))
    return offsets


async def _scope(client: Client, parsed: Parsed, face: Face, name: str) -> list[TopicPartition]:
    if parsed.has("all-input-topics"):
        return in_hash_order(await committed_offsets(client, name, with_repartition=False))
    if parsed.has("input-topic"):
        partitions = await call(client, "describeTopics", partitions_to_reset(client, parsed.values("input-topic")))
        await check_partitions(client, partitions)
        committed = await committed_of(client, name)
        if all(each in committed for each in partitions):
            return partitions
        print_error(face, f"One or more topics are not part of the group '{name}'.")
        return []
    if not parsed.has("from-file"):
        message = "One of the reset scopes should be defined: --all-topics, --topic."
        raise print_usage_and_exit(face, FLAGS, message)
    return []


async def _delete_internal_topics(client: Client, parsed: Parsed, face: Face, name: str) -> None:
    topics: Sequence[str] = parsed.values("delete-internal-topic")
    if parsed.has("delete-all-internal-topics"):
        found = await _internal_topics(client, face, [name])
        if name not in found:
            text = 'Cannot invoke "java.util.List.isEmpty()" because "internalTopics" is null'
            raise JavaError("java.lang.NullPointerException", text)
        topics = found[name]
    results = await call(client, "deleteTopics", delete_topics(client, topics)) if topics else {}
    error = next((each for each in results.values() if each is not None), None)
    if error is None:
        return
    if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        reason = "failed because the topics do not exist."
        print_error(face, f"Deleting internal topics for group '{name}' {reason}")
        return
    failure = execution(as_java(error))
    print_error(face, f"Deleting internal topics for group '{name}' failed due to {failure.message}")
    for line in failure.trace():
        face.complain(line)


async def _internal_topics(client: Client, face: Face, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the internal topics of each group with any."""
    found: dict[str, list[str]] = {}
    try:
        groups = [await described(client, name) for name in names]
    except JavaError as error:
        print_error(face, f"Retrieving internal topics failed due to {error.message}")
        for line in error.trace():
            face.complain(line)
        return found
    for group in groups:
        for topic in group.internal_topics():
            if topic.startswith(f"{group.group_id}-") and _INTERNAL.fullmatch(topic):
                found.setdefault(group.group_id, []).append(topic)
                continue
            consequence = f"not be deleted with the group '{group.group_id}'"
            print_error(face, f"The internal topic '{topic}' is not inferred as internal and thus will {consequence}.")
    return found


# Delete


async def delete(client: Client, parsed: Parsed, face: Face) -> None:
    """Delete groups, and their internal topics."""
    names = await chosen(client, parsed, STREAMS)
    known = await waited(client, "listGroups", listings(client, STREAMS))
    empty = [each.group_id for each in known if each.group_id in names and each.state in (EMPTY, None)]
    wants_topics = parsed.has("delete-all-internal-topics") and bool(empty)
    topics = await _internal_topics(client, face, empty) if wants_topics else {}
    succeeded, failed = await deleted(client, names, known, STREAMS, "does not exist or is not a streams group.")
    failures = await _delete_topics_of(client, face, {name: topics[name] for name in succeeded if name in topics})
    shown = "', '".join(succeeded)
    if not failed:
        face.print(f"Deletion of requested streams groups ('{shown}') was successful.")
    else:
        print_error(face, "Deletion of some streams groups failed:")
        for name, error in failed.items():
            face.print(f"* Group '{name}' could not be deleted due to: {error}")
        if succeeded:
            face.print(f"\nThese streams groups were deleted successfully: '{shown}'.")
    if topics and succeeded:
        _print_topics(face, [name for name in succeeded if name in topics], failures)


async def _delete_topics_of(client: Client, face: Face, topics: Mapping[str, Sequence[str]]) -> dict[str, JavaError]:
    failures: dict[str, JavaError] = {}
    for name, mine in topics.items():
        results = await call(client, "deleteTopics", delete_topics(client, mine))
        for topic, error in results.items():
            if error is not None:
                face.print(f"Failed to delete internal topic: {topic}")
                failures.setdefault(name, as_java(error))
    return failures


def _print_topics(face: Face, names: Sequence[str], failures: Mapping[str, JavaError]) -> None:
    if not failures:
        shown = "', '".join(names)
        face.print(f"Deletion of associated internal topics of the streams groups ('{shown}') was successful.")
        return
    face.print("Deletion of some associated internal topics failed:")
    for name, error in failures.items():
        face.print(f"* Internal topics of the streams group '{name}' could not be deleted due to: {error}")


async def delete_offsets(client: Client, parsed: Parsed, face: Face) -> None:
    """Delete offsets of a group."""
    name = parsed.value("group")
    results: dict[TopicPartition, str | None] = {}
    if parsed.has("all-input-topics"):
        partitions = list(await committed_offsets(client, name, with_repartition=False))
    else:
        partitions = await _partitions(client, parsed.values("input-topic"), results)
    refusal: KafkaError | None = None
    try:
        found = await delete_group_offsets(client, name, partitions)
        refusal = next((error for error in found.values() if error is not None), None)
    except KafkaError as whole:
        refusal, found = whole, dict.fromkeys(partitions, whole)
    results |= {each: None if error is None else str(as_java(error)) for each, error in found.items()}
    _print_refusal(face, name, refusal)
    width = max([_WIDTH, *(len(each.topic) for each in results)])
    face.print(f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}", end="")
    for topic, partition in sorted(results, key=lambda each: f"{each.topic}{each.partition}"):
        error = results[TopicPartition(topic, partition)]
        status = "Successful" if error is None else f"Error: {error}"
        face.print(f"\n{topic:<{width}} {partition if partition >= 0 else '-':<10} {status:<15}", end="")
    face.print()


async def _partitions(
    client: Client, arguments: Sequence[str], errors: dict[TopicPartition, str | None]
) -> list[TopicPartition]:
    """Return the partitions of `arguments`; add errors for topics that cannot be described."""
    found = [each for text in arguments if ":" in text for each in parse_topic_with_partitions(text)]
    for topic, partitions in (await partitions_of(client, [text for text in arguments if ":" not in text])).items():
        if isinstance(partitions, KafkaError):
            errors[TopicPartition(topic, -1)] = str(as_java(partitions))
        else:
            found += partitions
    return found


def _print_refusal(face: Face, name: str, refusal: KafkaError | None) -> None:
    if refusal is None:
        face.print(f"Request succeeded for deleting offsets from group {name}.")
    elif refusal.code in _OF_GROUP:
        print_error(face, str(as_java(KafkaError(refusal.code)).message))
    elif refusal.code in _OF_PARTITION:
        print_error(face, "Encountered some partition-level error, see the follow-up details.")
    else:
        print_error(face, f"Encountered some unknown error: {refusal.code.name}")
