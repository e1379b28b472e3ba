"""Changes of committed offsets: from one commit, or none, to another one, or none.

Must not know who wants a change. Counterpart in Kafka: none; its tool forgets what a reset overwrites.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.client.admin.groups.committed_offsets import Committed, commit_offsets, delete_offsets
from ottla.client.cluster import Client
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition


class Change(NamedTuple):
    """The commit of a partition before and after; None is no commit."""

    before: Committed | None
    after: Committed | None


Changes = Mapping[TopicPartition, Change]


async def change_offsets(client: Client, group: str, changes: Changes) -> dict[TopicPartition, KafkaError | None]:
    """Commit or delete offsets; return None for each partition that was changed, and an error for each other."""
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
    """The way back: changes to make, and conflicts, which are partitions with a commit since."""

    changes: Changes
    conflicts: Changes


def undo_of(changes: Changes, current: Callable[[TopicPartition], Committed | None]) -> Undo:
    """Return the way back from changes; a partition that is as it was before needs none."""
    found: dict[TopicPartition, Change] = {}
    conflicts: dict[TopicPartition, Change] = {}
    for partition, change in changes.items():
        now = current(partition)
        if now == change.before:
            continue
        (found if now == change.after else conflicts)[partition] = Change(now, change.before)
    return Undo(found, conflicts)
