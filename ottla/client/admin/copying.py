"""The progress of copying replicas, for reassignments and for moves between log directories.

Must not know who shows it. Counterpart in Kafka: none; operators add up sizes from kafka-log-dirs.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.log_dirs import LogDir, Replica, StoredReplica, describe_log_dirs
from ottla.client.admin.reassignments import Reassignment, list_reassignments
from ottla.client.cluster import Client
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition


class Copy(NamedTuple):
    """A replica that is being copied: the bytes copied so far, and the bytes in all."""

    done: int
    total: int


class Copying(NamedTuple):
    """The reassignments under way, and the copies for them and for moves between log directories."""

    reassignments: Mapping[TopicPartition, Reassignment]
    copies: Mapping[Replica, Copy]

    @property
    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that are reassigned or copied."""
        return {*self.reassignments, *(TopicPartition(each.topic, each.partition) for each in self.copies)}


async def find_copying(client: Client, partitions: Iterable[TopicPartition] | None = None) -> Copying:
    """Return the copying of some partitions, or of all. An unreachable broker counts as one without copies."""
    wanted = None if partitions is None else list(partitions)
    reassignments = await list_reassignments(client, wanted)
    await client.metadata(())
    stored: dict[int, list[StoredReplica]] = {}
    for broker_id, dirs in (await describe_log_dirs(client, client.nodes, wanted)).items():
        stored[broker_id] = [] if isinstance(dirs, KafkaError) else _replicas(dirs)
    return Copying(reassignments, {**_added(reassignments, stored), **_moved(stored)})


def _replicas(dirs: Iterable[LogDir]) -> list[StoredReplica]:
    return [each for directory in dirs for each in directory.replicas]


def sizes(stored: Mapping[int, Iterable[StoredReplica]]) -> dict[TopicPartition, dict[int, int]]:
    """Return the size of each partition by broker."""
    found: dict[TopicPartition, dict[int, int]] = {}
    for broker_id, replicas in stored.items():
        for each in replicas:
            if not each.is_future:
                found.setdefault(each.partition, {})[broker_id] = each.size
    return found


def _added(
    reassignments: Mapping[TopicPartition, Reassignment], stored: Mapping[int, Iterable[StoredReplica]]
) -> dict[Replica, Copy]:
    by_partition = sizes(stored)
    found = {}
    for partition, each in reassignments.items():
        there = by_partition.get(partition, {})
        total = max((size for broker, size in there.items() if broker not in each.adding), default=0)
        for broker in each.adding:
            found[Replica(*partition, broker)] = Copy(min(there.get(broker, 0), total), total)
    return found


def _moved(stored: Mapping[int, Iterable[StoredReplica]]) -> dict[Replica, Copy]:
    by_partition = sizes(stored)
    found = {}
    for broker_id, replicas in stored.items():
        for each in replicas:
            if each.is_future:
                total = by_partition.get(each.partition, {}).get(broker_id, each.size)
                found[Replica(*each.partition, broker_id)] = Copy(min(each.size, total), total)
    return found


async def partition_sizes(client: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the size of each partition's largest replica on the live brokers."""
    await client.metadata(())
    found = await describe_log_dirs(client, client.nodes, partitions)
    stored = {broker: _replicas(dirs) for broker, dirs in found.items() if not isinstance(dirs, KafkaError)}
    return {partition: max(each.values()) for partition, each in sizes(stored).items()}
