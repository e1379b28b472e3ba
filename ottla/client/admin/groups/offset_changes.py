"""Changes of committed offsets, and how to undo them.

Must not know who requests a change. Counterpart in Kafka: none; its tool forgets the offsets that a reset overwrites.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.client.admin.groups.committed_offsets import Committed, commit_offsets, delete_offsets
from ottla.client.cluster import Client
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition


class Change(NamedTuple):
    """The commit of a partition before and after; None: no commit."""

    before: Committed | None
    after: Committed | None


Changes = Mapping[TopicPartition, Change]


async def change_offsets(client: Client, group: str, changes: Changes) -> dict[TopicPartition, KafkaError | None]:
    """Commit or delete offsets; return None for each changed partition, and an error for each other one."""
    commits = {partition: change.after for partition, change in changes.items() if change.after is not None}
    deletions = [partition for partition, change in changes.items() if change.after is None]
    results: dict[TopicPartition, KafkaError | None] = {}
    try:
        results |= await commit_offsets(client, group, commits) if commits else {}
        results |= await delete_offsets(client, group, deletions) if deletions else {}
    except KafkaError as error:
        results = {partition: results.get(partition, error) for partition in changes}
    return {partition: results[partition] for partition in changes}


class Undo(NamedTuple):
    """The changes that undo earlier ones, and conflicts: partitions with another commit since."""

    changes: Changes
    conflicts: Changes


def undo_of(changes: Changes, current: Callable[[TopicPartition], Committed | None]) -> Undo:
    """Return the undo of changes; a partition that already has its earlier commit is left out."""
    found: dict[TopicPartition, Change] = {}
    conflicts: dict[TopicPartition, Change] = {}
    for partition, change in changes.items():
        now = current(partition)
        if now == change.before:
            continue
        (found if now == change.after else conflicts)[partition] = Change(now, change.before)
    return Undo(found, conflicts)
