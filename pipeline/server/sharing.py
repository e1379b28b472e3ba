"""Which server gets which slots: as evenly as can be, and with as few jobs on the move as can be.

Pure but for the class that tells it to the client: whoever leads the group calls `share`. Must not know how members
come and go. Counterpart in Kafka: IncrementalCooperativeAssignor.
"""

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_GENERATION: Final = struct.Struct(">i")


@dataclass(frozen=True)
class Claim:
    """What a member had, and since which generation of the group."""

    slots: frozenset[int]
    generation: int


def share(claims: Mapping[str, Claim], jobs: Sequence[int]) -> dict[str, set[int]]:
    """Give each member its slots; `jobs` says how many jobs are in each slot.

    What goes from one member to another is given to nobody yet: the one stops its jobs, then all join again.
    """
    owners = _owners(claims, len(jobs))
    shares: dict[str, set[int]] = {member: set() for member in sorted(claims)}
    for slot, owner in owners.items():
        shares[owner].add(slot)
    free = [slot for slot in range(len(jobs)) if slot not in owners]
    for slot in sorted(free, key=lambda slot: -jobs[slot]):
        (_least(shares, jobs) if jobs[slot] else min(shares.values(), key=len)).add(slot)
    while _even_out_jobs(shares, jobs):
        pass
    while _even_out_slots(shares, jobs):
        pass
    return {member: {slot for slot in slots if owners.get(slot, member) == member} for member, slots in shares.items()}


def _owners(claims: Mapping[str, Claim], slots: int) -> dict[int, str]:
    """Who has each slot. Who was thrown out may still think so; the claim of a later generation is right."""
    owners = {}
    for member in sorted(claims, key=lambda member: (claims[member].generation, member)):
        owners.update(dict.fromkeys(claims[member].slots & set(range(slots)), member))
    return owners


def _load(slots: Collection[int], jobs: Sequence[int]) -> int:
    return sum(jobs[slot] for slot in slots)


def _least(shares: Mapping[str, set[int]], jobs: Sequence[int]) -> set[int]:
    return min(shares.values(), key=lambda slots: (_load(slots, jobs), len(slots)))


def _even_out_jobs(shares: Mapping[str, set[int]], jobs: Sequence[int]) -> bool:
    """Move the slot that makes those with most and fewest jobs more alike; False where none does."""
    most, least = max(shares.values(), key=lambda slots: _load(slots, jobs)), _least(shares, jobs)
    gap = _load(most, jobs) - _load(least, jobs)
    slots = [slot for slot in sorted(most) if 0 < jobs[slot] < gap]
    if slots:
        _move(min(slots, key=lambda slot: abs(gap - 2 * jobs[slot])), most, least)
    return bool(slots)


def _even_out_slots(shares: Mapping[str, set[int]], jobs: Sequence[int]) -> bool:
    """Move an empty slot to who has fewest, for the jobs to come; False where that would change nothing."""
    empty = [(slots, slot) for slots in shares.values() for slot in sorted(slots) if jobs[slot] == 0]
    if not empty:
        return False
    (most, slot), least = max(empty, key=lambda pair: len(pair[0])), min(shares.values(), key=len)
    if len(most) - len(least) < 2:
        return False
    _move(slot, most, least)
    return True


def _move(slot: int, giver: set[int], taker: set[int]) -> None:
    giver.remove(slot)
    taker.add(slot)


class Sharing(AbstractPartitionAssignor):  # type: ignore[misc]
    """Tells kafka-python's client what this server has, and what each is to have if this one leads the group."""

    name = "ottla-pipeline"
    # That of the messages: the first that says what a member has.
    version = 1

    def __init__(self, topic: str, owned: Callable[[], Collection[int]], jobs: Callable[[], Sequence[int]]) -> None:
        self._topic = topic
        self._owned = owned
        self._jobs = jobs
        self._generation = -1

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Jobs that stay where they are go on while others move."""
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Collection[str]) -> ConsumerProtocolSubscription:
        """Say what this server has. When it was thrown out that is nothing, or was so in an old generation."""
        owned = ConsumerProtocolSubscription.TopicPartition(topic=self._topic, partitions=sorted(self._owned()))
        return ConsumerProtocolSubscription(
            version=self.version,
            topics=sorted(topics),
            user_data=_GENERATION.pack(self._generation),
            owned_partitions=[owned],
        )

    def assign(self, cluster: Any, members: Collection[Any]) -> dict[str, ConsumerProtocolAssignment]:
        """Share the slots among the members."""
        shares = share({member.member_id: _claim(member.metadata) for member in members}, self._jobs())
        return {
            member: ConsumerProtocolAssignment(self.version, [(self._topic, sorted(slots))] if slots else [], b"")
            for member, slots in shares.items()
        }

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        """Note how new is what this server has."""
        self._generation = generation


def _claim(metadata: Any) -> Claim:
    slots = frozenset(slot for owned in metadata.owned_partitions for slot in owned.partitions)
    return Claim(slots, *_GENERATION.unpack(metadata.user_data))
