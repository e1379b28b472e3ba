"""The assignors with which the leader of a classic group assigns partitions to members.

PURE. Counterparts in Kafka: RangeAssignor (without racks), RoundRobinAssignor.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from typing import Final, NamedTuple

from ottla.wire.types import TopicPartition


class Member(NamedTuple):
    """A member of a group, and its subscribed topics."""

    member_id: str
    topics: Sequence[str]
    instance_id: str | None = None

    def __lt__(self, other: object) -> bool:
        """Order members as Kafka does: static ones first, each kind by its own id."""
        assert isinstance(other, Member)
        return _rank(self) < _rank(other)


def _rank(member: Member) -> tuple[bool, str]:
    is_dynamic = member.instance_id is None
    return is_dynamic, member.member_id if member.instance_id is None else member.instance_id


Assignment = dict[str, list[TopicPartition]]
Assignor = Callable[[Iterable[Member], Mapping[str, int]], Assignment]


def assign_range(members: Iterable[Member], counts: Mapping[str, int]) -> Assignment:
    """Return the partitions of each member: one range of each topic; the first members get one more if uneven."""
    ordered = sorted(members)
    found: Assignment = {member.member_id: [] for member in ordered}
    for topic in dict.fromkeys(topic for member in ordered for topic in member.topics):
        takers = [member for member in ordered if topic in member.topics]
        each, extra = divmod(counts.get(topic, 0), len(takers))
        first = 0
        for number, member in enumerate(takers):
            behind = first + each + (number < extra)
            found[member.member_id] += [TopicPartition(topic, index) for index in range(first, behind)]
            first = behind
    return found


def assign_round_robin(members: Iterable[Member], counts: Mapping[str, int]) -> Assignment:
    """Return the partitions of each member: all topics in one list, one partition to each member in turn."""
    ordered = sorted(members)
    found: Assignment = {member.member_id: [] for member in ordered}
    turns = cycle(ordered)
    wanted = {topic for member in ordered for topic in member.topics}
    for topic in sorted(wanted):
        for index in range(counts.get(topic, 0)):
            member = next(each for each in turns if topic in each.topics)
            found[member.member_id].append(TopicPartition(topic, index))
    return found


ASSIGNORS: Final[Mapping[str, Assignor]] = {"range": assign_range, "roundrobin": assign_round_robin}
"""The assignors by their names in JoinGroup."""
_PACKAGE: Final = "org.apache.kafka.clients.consumer."
_CLASSES: Final[Mapping[str, str]] = {
    _PACKAGE + "RangeAssignor": "range",
    _PACKAGE + "RoundRobinAssignor": "roundrobin",
}


def chosen_assignors(names: Iterable[str]) -> list[str]:
    """Return the names of assignors, given by name or by Kafka's class. KeyError for an unknown one."""
    found = [_CLASSES.get(name, name) for name in names]
    for name in found:
        if name not in ASSIGNORS:
            raise KeyError(name)
    return found
