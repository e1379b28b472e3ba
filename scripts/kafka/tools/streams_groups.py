"""kafka-streams-groups: list, describe and delete streams groups, and reset or delete their offsets.

Counterpart: org.apache.kafka.tools.streams.StreamsGroupCommand, which Kafka 3.9 does not have yet.
"""

from collections.abc import Sequence
from typing import Final

from ottla.client.admin.groups.streams import STREAMS, StreamsGroup
from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import first_error, opened
from ottla.scripts.kafka.face import Face, JavaError
from ottla.scripts.kafka.flags import Parsed, help_lines, print_usage_and_exit
from ottla.scripts.kafka.groups.calls import call
from ottla.scripts.kafka.groups.commands import DEAD, EMPTY, chosen, complain, print_error, print_listings
from ottla.scripts.kafka.groups.offset_resets import in_hash_order, runtime
from ottla.scripts.kafka.groups.streams_changes import (
    committed_offsets,
    delete,
    delete_offsets,
    described,
    reset,
)
from ottla.scripts.kafka.groups.streams_flags import ACTIONS, FLAGS, check, read
from ottla.wire.errors import KafkaError
from ottla.wire.messages.streams_group_describe import Assignment, TaskIds
from ottla.wire.types import TopicPartition

_STATES: Final = ("Stable", "Dead", "Empty", "Assigning", "Reconciling", "NotReady")
_WIDTH: Final = 15


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = read(arguments)
    except JavaError as error:
        face.complain(str(error.message))
        return 1
    try:
        check(parsed, arguments, face)
        actions = [each for each in ACTIONS if parsed.has(each)]
        if len(actions) != 1:
            names = "--list, --describe, --delete, --reset-offsets, or --delete-offsets."
            raise print_usage_and_exit(face, FLAGS, f"Command must include exactly one action: {names}")
        opened(face, parsed, _WORK[actions[0]], parsed, face)
    except JavaError as error:
        if error.java_class == "java.lang.IllegalArgumentException":
            face.complain(str(error.message))
            for line in help_lines(FLAGS):
                face.complain(line)
        else:
            complain(face, "streams", runtime(error) if error.java_class.startswith("java.nio.") else error)
        return 1
    return 0


async def _list(client: Client, parsed: Parsed, face: Face) -> None:
    await print_listings(client, parsed, face, STREAMS, _STATES)


# Describe


async def _describe(client: Client, parsed: Parsed, face: Face) -> None:
    for name in await chosen(client, parsed, STREAMS):
        group = await described(client, name)
        if parsed.has("members"):
            _print_members(face, group, parsed.has("verbose"))
        elif parsed.has("state"):
            _print_state(face, group, parsed.has("verbose"))
        else:
            await _print_offsets(client, face, group, parsed.has("verbose"))


def _print_empty(face: Face, group: StreamsGroup) -> None:
    if group.state == DEAD:
        print_error(face, f"Streams group '{group.group_id}' does not exist.")
    elif group.state == EMPTY:
        print_error(face, f"Streams group '{group.group_id}' has no active members.")


def _is_shown(group: StreamsGroup) -> bool:
    return group.state != DEAD and bool(group.members)


def _print_row(face: Face, texts: Sequence[object], widths: Sequence[int]) -> None:
    face.print(" ".join(f"{text!s:<{width}}" for text, width in zip(texts, [*widths, 0], strict=True)))


def _print_members(face: Face, group: StreamsGroup, is_verbose: bool) -> None:
    if not _is_shown(group):
        return
    _print_empty(face, group)
    members = group.members
    columns = (
        [each.member_id for each in members],
        [each.process_id for each in members],
        [each.client_id for each in members],
    )
    name = max(_WIDTH, len(group.group_id))
    member, process, client_id = (max([_WIDTH, *map(len, column)]) for column in columns)
    if not is_verbose:
        widths = [name, member, process, client_id]
        _print_row(face, ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"], widths)
        for each in members:
            tasks = _tasks(each.assignment, "")
            _print_row(face, [group.group_id, each.member_id, each.process_id, each.client_id, tasks], widths)
        return
    titles = ("TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER", "MEMBER-PROTOCOL", "MEMBER-EPOCH")
    rows: list[Sequence[object]] = [("GROUP", *titles, "PROCESS", "CLIENT-ID", "ASSIGNMENTS")]
    for each in members:
        tasks = _tasks(each.assignment, "") + _tasks(each.target_assignment, "TARGET-")
        protocol = "classic" if each.is_classic else "streams"
        epochs = (group.assignment_epoch, group.topology_epoch)
        about = (each.member_id, protocol, each.member_epoch, each.process_id, each.client_id)
        rows.append((group.group_id, *epochs, *about, tasks))
    for row in rows:
        # There is no space between the epoch of the topology and the member.
        merged = f"{row[2]!s:<{_WIDTH}}{row[3]!s:<{member}}"
        texts = [*row[:2], merged, *row[4:]]
        _print_row(face, texts, [name, 25, 0, _WIDTH, _WIDTH, process, client_id])


def _tasks(assignment: Assignment, prefix: str) -> str:
    kinds = (
        ("ACTIVE", assignment.active_tasks),
        ("STANDBY", assignment.standby_tasks),
        ("WARMUP", assignment.warmup_tasks),
    )
    return "".join(f"{prefix}{name}: {_task_ids(tasks)}" for name, tasks in kinds if tasks)


def _task_ids(tasks: Sequence[TaskIds]) -> str:
    return "".join(f"{each.subtopology_id}:[{','.join(map(str, each.partitions))}]; " for each in tasks)


def _print_state(face: Face, group: StreamsGroup, is_verbose: bool) -> None:
    _print_empty(face, group)
    where = f"{group.coordinator} ({group.coordinator.id})"
    widths = [max(_WIDTH, len(group.group_id)), max(25, len(where)), 25]
    titles = ["GROUP", "COORDINATOR (ID)", "STATE"]
    cells: list[object] = [group.group_id, where, group.state]
    if is_verbose:
        widths += [15, 25]
        titles += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells += [group.epoch, group.assignment_epoch]
    _print_row(face, [*titles, "#MEMBERS"], widths)
    _print_row(face, [*cells, len(group.members)], widths)


async def _print_offsets(client: Client, face: Face, group: StreamsGroup, is_verbose: bool) -> None:
    partitions = {each for member in group.members for each in group.partitions_of(member.assignment.active_tasks)}
    starts = await _ends_of_logs(client, partitions, EARLIEST)
    ends = await _ends_of_logs(client, partitions, LATEST)
    committed = await committed_offsets(client, group.group_id, with_repartition=True)
    if not _is_shown(group):
        return
    _print_empty(face, group)
    widths = [max(_WIDTH, len(group.group_id)), max([_WIDTH, *(len(each.topic) for each in partitions)]), 10]
    rows: list[Sequence[object]] = [
        ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET", "OFFSET-LAG")
    ]
    for each in in_hash_order(partitions):
        found = committed.get(each)
        lag = ends[each] - (starts[each] if found is None else found.offset)
        current = "-" if found is None else found.offset
        epoch = "-" if found is None or found.leader_epoch < 0 else found.leader_epoch
        rows.append((group.group_id, each.topic, each.partition, current, epoch, ends[each], lag))
    for row in rows:
        if is_verbose:
            _print_row(face, [*row[:6], f"{row[6]!s:<{_WIDTH}}"], [*widths, _WIDTH, _WIDTH, _WIDTH])
        else:
            _print_row(face, [*row[:3], row[6]], widths)


async def _ends_of_logs(client: Client, partitions: set[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found = await call(client, "listOffsets", list_offsets(client, dict.fromkeys(partitions, timestamp)))
    first_error(found)
    return {each: result.offset for each, result in found.items() if not isinstance(result, KafkaError)}


_WORK: Final = {
    "list": _list,
    "describe": _describe,
    "delete": delete,
    "reset-offsets": reset,
    "delete-offsets": delete_offsets,
}
