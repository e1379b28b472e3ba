"""kafka-share-groups: list, describe and delete share groups, and reset or delete their offsets.

Kafka 3.9 lacks this tool. Counterparts: org.apache.kafka.tools.consumer.group.ShareGroupCommand,
ShareGroupCommandOptions.
"""

from collections.abc import Sequence
from typing import Final

from ottla.client.admin.groups.share import (
    SHARE,
    ShareGroup,
    ShareOffsets,
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_groups,
    share_group_offsets,
)
from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import opened
from ottla.scripts.kafka.face import Face, JavaError, ToolExit, as_java, execution
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
from ottla.scripts.kafka.groups.calls import call, waited
from ottla.scripts.kafka.groups.commands import (
    DEAD,
    EMPTY,
    FLAGS,
    check_available,
    chosen,
    complain,
    deleted,
    listings,
    options,
    print_empty,
    print_error,
    print_listings,
)
from ottla.scripts.kafka.groups.offset_resets import (
    check_partitions,
    in_hash_order,
    offsets_at,
    offsets_at_or_latest,
    partitions_to_reset,
    print_offsets,
    runtime,
)
from ottla.scripts.kafka.java.errors import exception_of
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.scripts.kafka.java.times import date_time_ms
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    *FLAGS,
    flag("group", argument="share group", help="The share group."),
    flag("topic", argument="topic", help="A topic, or topic:partition,partition; may be repeated."),
    flag("all-topics", help="Take all topics of the group."),
)
_STATES: Final = ("Stable", "Dead", "Empty")
_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_LEVELS: Final = ("list", "describe", "delete", "reset-offsets")
_SCENARIOS: Final = ("to-datetime", "to-earliest", "to-latest")
_WIDTH: Final = 15
_OF_GROUP: Final = frozenset(
    exception_of(code)[0]
    for code in (
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NON_EMPTY_GROUP,
    )
)
_OF_TOPIC: Final = frozenset(
    exception_of(code)[0] for code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
)


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    parsed = parse(_FLAGS, arguments)
    check_available(parsed)
    _check(parsed, arguments, face)
    actions = [each for each in _ACTIONS if parsed.has(each)]
    if len(actions) != 1:
        names = ", ".join(f"--{each}" for each in _ACTIONS)
        raise print_usage_and_exit(face, _FLAGS, f"Command must include exactly one action: {names}.")
    try:
        opened(face, parsed, _WORK[actions[0]], parsed, face)
    except JavaError as error:
        if error.java_class == "java.lang.IllegalArgumentException":
            raise print_usage_and_exit(face, _FLAGS, str(error.message)) from None
        complain(face, "share", runtime(error) if error.java_class.startswith("java.nio.") else error)
    return 0


def _check(parsed: Parsed, arguments: Sequence[str], face: Face) -> None:
    maybe_print_help_or_version(
        face, _FLAGS, parsed, arguments, "This tool helps to list, describe, reset and delete share groups."
    )
    check_required(face, _FLAGS, parsed, "bootstrap-server")
    for check in (_describe_error, _delete_error, _reset_error):
        message = check(parsed)
        if message is not None:
            raise print_usage_and_exit(face, _FLAGS, message)
    if parsed.has("reset-offsets"):
        for name in _SCENARIOS:
            check_invalid(face, _FLAGS, parsed, name, [each for each in _SCENARIOS if each != name])
    check_invalid(face, _FLAGS, parsed, "group", ["all-groups"])
    check_invalid(face, _FLAGS, parsed, "group", ["list"])
    check_invalid(face, _FLAGS, parsed, "topic", ["describe", "list"])


def _has_groups(parsed: Parsed) -> bool:
    return parsed.has("group") or parsed.has("all-groups")


def _describe_error(parsed: Parsed) -> str | None:
    if not parsed.has("describe"):
        return None
    if not _has_groups(parsed):
        return f"Option [describe] takes one of these options: {options(('group', 'all-groups'))}"
    if sum(map(parsed.has, ("members", "offsets", "state"))) > 1:
        return "Option [describe] takes at most one of these options: [members], [offsets], [state]"
    if parsed.has("state") and parsed.value("state") is not None:
        return "Option [describe] does not take a value for [state]"
    return None


def _delete_error(parsed: Parsed) -> str | None:
    if parsed.has("delete"):
        if not _has_groups(parsed):
            return "Option [delete] takes the options [group] or [all-groups]"
        if parsed.has("all-groups") and parsed.has("group"):
            return "Option [delete] takes either [group] or [all-groups], not both."
        if parsed.has("topic"):
            return "Option [delete] does not take the option: [topic]"
    if parsed.has("delete-offsets") and not (parsed.has("group") and parsed.has("topic")):
        return f"Option [delete-offsets] takes the following options: {options(('group', 'topic'))}"
    return None


def _reset_error(parsed: Parsed) -> str | None:
    if not parsed.has("reset-offsets"):
        return None
    if parsed.has("dry-run") and parsed.has("execute"):
        return "Option [reset-offsets] only accepts one of [execute] and [dry-run]"
    if not parsed.has("dry-run") and not parsed.has("execute"):
        return "Option [reset-offsets] takes the option: [execute] or [dry-run]"
    if not parsed.has("group"):
        return "Option [reset-offsets] takes the option: [group]"
    if not parsed.has("topic") and not parsed.has("all-topics"):
        return f"Option [reset-offsets] takes one of these options: {options(('topic', 'all-topics'))}"
    if not any(map(parsed.has, _SCENARIOS)):
        return f"Option [reset-offsets] takes one of these options: {options(_SCENARIOS)}"
    return None


# List, describe


async def _list(client: Client, parsed: Parsed, face: Face) -> None:
    await print_listings(client, parsed, face, SHARE, _STATES)


async def _described(client: Client, groups: Sequence[str]) -> dict[str, ShareGroup]:
    """Return groups in the order of their names. JavaError for the first one that cannot be described."""
    found = await call(client, "describeShareGroups", describe_share_groups(client, groups)) if groups else {}
    results = {}
    for name in by_string_hash(found):
        result = found[name]
        if isinstance(result, KafkaError):
            raise execution(as_java(result))
        results[name] = result
    return dict(sorted(results.items()))


async def _describe(client: Client, parsed: Parsed, face: Face) -> None:
    found = await _described(client, await chosen(client, parsed, SHARE))
    is_verbose = parsed.has("verbose")
    if parsed.has("members"):
        for group in found.values():
            _print_members(face, group, is_verbose)
    elif parsed.has("state"):
        for group in found.values():
            _print_state(face, group, is_verbose)
    else:
        offsets = {
            name: await waited(client, "listShareGroupOffsets", share_group_offsets(client, name))
            for name in by_string_hash(found)
        }
        for name in found:
            _print_offsets(face, name, offsets[name], is_verbose)


def _print_offsets(face: Face, group: str, offsets: ShareOffsets, is_verbose: bool) -> None:
    if not offsets:
        face.print(f"\nShare group '{group}' has no offset information.")
        return
    widths = [max(_WIDTH, len(group)), max([_WIDTH, *(len(each.topic) for each in offsets)]), 10]
    rows = [("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG")]
    for partition, offset in sorted(offsets.items()):
        start, epoch, lag = (None, None, None) if offset is None else offset
        cells = ("-" if each is None else str(each) for each in (epoch, start, lag))
        rows.append((group, partition.topic, str(partition.partition), *cells))  # type: ignore[arg-type]
    for row in rows:
        texts = row if is_verbose else (*row[:3], *row[4:])
        _print_row(face, texts, [*widths, 13, 13] if is_verbose else [*widths, 13])
    face.print()


def _print_row(face: Face, texts: Sequence[object], widths: Sequence[int]) -> None:
    *padded, last = (str(each) for each in texts)
    cells = [f"{text:<{width}}" for text, width in zip(padded, widths, strict=True)]
    face.print("\n" + " ".join([*cells, last]), end="")


def _print_state(face: Face, group: ShareGroup, is_verbose: bool) -> None:
    print_empty(face, SHARE, group.group_id, group.state)
    where = f"{group.coordinator}  ({group.coordinator.id})"
    widths = [max(_WIDTH, len(group.group_id)), max(25, len(where)), 15]
    titles = ["GROUP", "COORDINATOR (ID)", "STATE"]
    cells: list[object] = [group.group_id, where, group.state]
    if is_verbose:
        widths += [12, 17]
        titles += ["GROUP-EPOCH", "ASSIGNMENT-EPOCH"]
        cells += [group.epoch, group.assignment_epoch]
    _print_row(face, [*titles, "#MEMBERS"], widths)
    _print_row(face, [*cells, len(group.members)], widths)
    face.print()


def _print_members(face: Face, group: ShareGroup, is_verbose: bool) -> None:
    print_empty(face, SHARE, group.group_id, group.state)
    if group.state == DEAD or not group.members:
        return
    columns = [[each.member_id for each in group.members], [each.host for each in group.members]]
    columns.append([each.client_id for each in group.members])
    widths = [max(_WIDTH, len(group.group_id)), *(max([_WIDTH, *map(len, column)]) for column in columns), 12]
    titles = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    if is_verbose:
        widths.append(13)
        titles.append("MEMBER-EPOCH")
    _print_row(face, [*titles, "ASSIGNMENT"], widths)
    for each in sorted(group.members):
        cells: list[object] = [group.group_id, each.member_id, each.host, each.client_id, len(each.assignment)]
        cells += [each.epoch] if is_verbose else []
        _print_row(face, [*cells, _assignment(each.assignment)], widths)
    face.print()


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return ";".join(sorted(f"{topic}:{','.join(map(str, sorted(found)))}" for topic, found in topics.items()))


# Delete


async def _delete(client: Client, parsed: Parsed, face: Face) -> None:
    known = await waited(client, "listGroups", listings(client, SHARE))
    groups = [each.group_id for each in known] if parsed.has("all-groups") else parsed.values("group")
    succeeded, failed = await deleted(client, groups, known, SHARE, "is not a share group.")
    names = ", ".join(f"'{each}'" for each in succeeded)
    if not failed:
        face.print(f"Deletion of requested share groups ({names}) was successful.")
        return
    print_error(face, "Deletion of some share groups failed:")
    for name, error in failed.items():
        face.print(f"* Group '{name}' could not be deleted due to: {error}")
    if succeeded:
        face.print(f"\nThese share groups were deleted successfully: {names}")


async def _delete_offsets(client: Client, parsed: Parsed, face: Face) -> None:
    group, topics = parsed.value("group"), list(dict.fromkeys(parsed.values("topic")))
    results: dict[str, JavaError | None]
    try:
        found = await call(client, "deleteShareGroupOffsets", delete_share_group_offsets(client, group, topics))
        errors = {name: found[name] for name in topics}
        results = {name: None if error is None else as_java(error) for name, error in errors.items()}
    except JavaError as whole:
        results = dict.fromkeys(topics, whole.cause)
    refusal = next((error for error in results.values() if error is not None), None)
    if refusal is not None and refusal.java_class in _OF_GROUP:
        print_error(face, str(refusal.message))
    elif refusal is not None and refusal.java_class not in _OF_TOPIC:
        print_error(face, f"Encounter some unknown error: {refusal}")
    width = max([_WIDTH, *map(len, topics)])
    face.print(f"\n{'TOPIC':<{width}} STATUS", end="")
    for name, error in sorted(results.items()):
        face.print(f"\n{name:<{width}} {'Successful' if error is None else f'Error: {error.message}'}", end="")
    face.print()


# Reset


async def _reset(client: Client, parsed: Parsed, face: Face) -> None:
    group = parsed.value("group")
    try:
        described = (await call(client, "describeShareGroups", describe_share_groups(client, [group])))[group]
    except JavaError as error:
        face.complain(str((error.cause or error).message))
        raise ToolExit(1) from None
    if isinstance(described, KafkaError) and described.code != ErrorCode.GROUP_ID_NOT_FOUND:
        face.complain(str(as_java(described).message))
        raise ToolExit(1)
    if isinstance(described, ShareGroup) and described.state not in (EMPTY, DEAD):
        face.complain(f"Share group '{group}' is not empty.")
        raise ToolExit(1)
    try:
        await _reset_group(client, parsed, face, group)
    except JavaError as error:
        raise (error.cause or error) if error.java_class.endswith(".ExecutionException") else error from None


async def _reset_group(client: Client, parsed: Parsed, face: Face, group: str) -> None:
    if parsed.has("topic"):
        partitions = await call(client, "describeTopics", partitions_to_reset(client, parsed.values("topic")))
    else:
        found = await call(client, "listShareGroupOffsets", share_group_offsets(client, group))
        partitions = in_hash_order(found)
    await check_partitions(client, partitions)
    offsets = await _new_offsets(client, parsed, face, partitions)
    if parsed.has("execute"):
        results = await call(client, "alterShareGroupOffsets", alter_share_group_offsets(client, group, offsets))
        failed = [each for each in in_hash_order(results) if results[each] is not None]
        first = results[failed[0]] if failed else None
        if first is not None:
            names = ", ".join(map(str, failed))
            text = f"Failed altering group offsets for the following partitions: [{names}]"
            raise as_java(KafkaError(first.code, text))
    print_offsets(face, {group: offsets})


async def _new_offsets(
    client: Client, parsed: Parsed, face: Face, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    if not parsed.has("to-datetime"):
        return await offsets_at(client, face, partitions, EARLIEST if parsed.has("to-earliest") else LATEST)
    try:
        timestamp = date_time_ms(parsed.values("to-datetime")[0])
    except JavaError as error:
        raise runtime(error) from None
    return await offsets_at_or_latest(client, face, partitions, timestamp)


_WORK: Final = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
