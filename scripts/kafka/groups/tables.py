"""The tables in which kafka-consumer-groups describes groups.

PURE. Counterpart: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand's print methods.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.admin.groups.committed_offsets import Committed
from ottla.client.admin.groups.descriptions import DEAD, EMPTY, GroupDescription, GroupMember
from ottla.scripts.kafka.face import Face
from ottla.scripts.kafka.groups.offset_resets import in_hash_order
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.wire.types import TopicPartition

_MISSING: Final = "-"
_LEAST_WIDTH: Final = 15
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
_OFFSET_TITLES: Final = (
    *("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
_LEADER_EPOCH: Final = _OFFSET_TITLES.index("LEADER-EPOCH")


class OffsetRow(NamedTuple):
    """A partition of a group, and its member."""

    partition: TopicPartition
    committed: Committed | None
    log_end: int | None
    member: GroupMember | None


def is_shown(face: Face, group: str, state: str, rows: int) -> bool:
    """Print a line for a state other than Stable; return whether there is a table to print."""
    if state == DEAD:
        face.print(f"\nError: Consumer group '{group}' does not exist.")
    elif state == EMPTY:
        face.complain(f"\nConsumer group '{group}' has no active members.")
    elif state in _REBALANCING:
        face.complain(f"\nWarning: Consumer group '{group}' is rebalancing.")
    return state != DEAD and rows > 0


def _line(texts: Sequence[object], widths: Sequence[int]) -> str:
    """Return texts padded to widths; the last text may have none."""
    return " ".join(str(text).ljust(width) for text, width in zip(texts, [*widths, 0], strict=False))


# Offsets


def offset_rows(
    face: Face,
    group: GroupDescription,
    committed: Mapping[TopicPartition, Committed],
    ends: Mapping[TopicPartition, int],
) -> list[OffsetRow]:
    """Return the partitions of each member, most partitions first, and then those without a member."""
    rows: list[OffsetRow] = []
    taken: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda each: -len(each.assignment)):
        taken.update(member.assignment)
        rows += _rows(face, member.assignment, committed, ends, member)
    return rows + _rows(face, [each for each in committed if each not in taken], committed, ends, None)


def _rows(
    face: Face,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    ends: Mapping[TopicPartition, int],
    member: GroupMember | None,
) -> list[OffsetRow]:
    ordered = sorted(partitions)
    if face.is_3_9:
        ordered = in_hash_order(sorted(in_hash_order(ordered), key=lambda each: each.partition))
    return [OffsetRow(each, committed.get(each), ends.get(each), member) for each in ordered]


def print_offsets(face: Face, group: GroupDescription, rows: Sequence[OffsetRow], *, is_verbose: bool) -> None:
    """Print the offsets of a group in its partitions."""
    if not is_shown(face, group.group_id, group.state, len(rows)):
        return
    lines = [_OFFSET_TITLES, *(_offset_cells(group.group_id, row) for row in rows)]
    widest = [max(_LEAST_WIDTH, *(len(line[at]) for line in lines[1:])) for at in range(len(_OFFSET_TITLES))]
    widths = [widest[0], widest[1], 10, 15, 15, 15, 15, widest[7], widest[8]]
    hides_epoch = face.is_3_9 or not is_verbose
    for line in lines:
        shown, padded = list(line), list(widths)
        if hides_epoch:
            del shown[_LEADER_EPOCH], padded[_LEADER_EPOCH]
        face.print("\n" + _line(shown, padded), end="")
    if not face.is_3_9:
        face.print()


def _offset_cells(group: str, row: OffsetRow) -> Sequence[str]:
    committed, end, member = row.committed, row.log_end, row.member
    lag = None if committed is None or end is None else end - committed.offset
    epoch = None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch
    numbers = (row.partition.partition, epoch, None if committed is None else committed.offset, end, lag)
    who = (_MISSING,) * 3 if member is None else (member.member_id, member.host, member.client_id)
    return (group, row.partition.topic, *(_MISSING if each is None else str(each) for each in numbers), *who)


# Members


def print_members(face: Face, group: GroupDescription, *, is_verbose: bool) -> None:
    """Print the members of a group, and with `is_verbose` their partitions."""
    has_rows = is_shown(face, group.group_id, group.state, len(group.members))
    has_instances = any(each.instance_id for each in group.members)
    titles = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    lines = [titles, *([*_member_cells(group.group_id, each)] for each in group.members)]
    widths = [15, 15, 17, 15, 15, 15]
    if has_rows:
        widths = [max(width, *(len(line[at]) for line in lines[1:])) for at, width in enumerate(widths)]
        widths[-1] = _LEAST_WIDTH
    details = _details(face, group, is_verbose)
    for number, line in enumerate(lines):
        shown, padded = list(line), list(widths)
        if not has_instances:
            del shown[2], padded[2]
        face.print(("\n" if number == 0 else "") + _line(shown, padded) + " " + details[number])


def _member_cells(group: str, member: GroupMember) -> Sequence[str]:
    count = str(len(member.assignment))
    return (group, member.member_id, member.instance_id or "", member.host, member.client_id, count)


def _details(face: Face, group: GroupDescription, is_verbose: bool) -> list[str]:
    """Return the columns that `--verbose` adds, for the title and for each member."""
    if not is_verbose:
        return [""] * (len(group.members) + 1)
    if face.is_3_9:
        return ["ASSIGNMENT", *(_older_assignment(each.assignment) for each in group.members)]
    titles = ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"]
    lines = [titles, *(_detail_cells(group, each) for each in group.members)]
    widths = [15, *(max(20, *(len(line[at]) for line in lines)) if at % 2 else 15 for at in (1, 2, 3))]
    protocols = {each.uses_consumer_protocol for each in group.members}
    count = 5 if {True, False} <= protocols else 4
    return [_line(line[:count], widths) for line in lines]


def _detail_cells(group: GroupDescription, member: GroupMember) -> list[str]:
    target_epoch = group.assignment_epoch
    return [
        _MISSING if member.epoch is None else str(member.epoch),
        _assignment(member.assignment),
        _MISSING if target_epoch is None else str(target_epoch),
        _assignment(member.target or ()),
        _MISSING if member.uses_consumer_protocol is None else str(member.uses_consumer_protocol).lower(),
    ]


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    by_topic = _by_topic(partitions)
    texts = [f"{topic}:{','.join(map(str, sorted(found)))}" for topic, found in by_topic.items()]
    return ";".join(sorted(texts)) or _MISSING


def _older_assignment(partitions: Sequence[TopicPartition]) -> str:
    return (
        ", ".join(sorted(f"({','.join(sorted(map(str, found)))})" for found in _by_topic(partitions).values())) or "-"
    )


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return {topic: found[topic] for topic in by_string_hash(found)}


# States


def print_state(face: Face, group: GroupDescription, *, is_verbose: bool) -> None:
    """Print the state of a group."""
    if not is_shown(face, group.group_id, group.state, 1):
        return
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    width = max(25, len(coordinator))
    epochs = [_MISSING if each is None else str(each) for each in (group.epoch, group.assignment_epoch)]
    titles = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    cells = [group.group_id, coordinator, group.assignor or _MISSING, group.state, str(len(group.members))]
    widths = [max(15, len(group.group_id)), width, 20, 20]
    if face.is_3_9:
        cells[2] = group.assignor
        widths = [width, 25, 20, 15]
    elif is_verbose:
        titles[4:4] = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells[4:4] = epochs
        widths += [15, 25]
    for line in (titles, cells):
        face.print("\n" + _line(line, widths), end="")
    face.print()
