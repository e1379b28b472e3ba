"""The group coordinator of a broker, with its log and its loader.

Owns how these three are connected. Must not know what they do. Counterpart in Kafka: GroupCoordinator.apply.
"""

from collections.abc import Mapping
from typing import Any

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_names import GROUP_METADATA_TOPIC
from ottla.broker.internal_topics.loader import PartitionLoader
from ottla.broker.internal_topics.topic_log import InternalTopicLog
from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.parts import ReplicaParts
from ottla.coordinator.config import read_group_config
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.records.compression import Compression


def group_coordinator(
    values: Mapping[str, Any], replicas: ReplicaManager, parts: ReplicaParts, metadata: MetadataCache
) -> GroupCoordinator:
    """Return the coordinator of the groups in all partitions that this broker will lead."""
    log = InternalTopicLog(
        replicas,
        parts,
        GROUP_METADATA_TOPIC,
        commit_timeout_ms=values["offsets.commit.timeout.ms"],
        compression=Compression(values["offsets.topic.compression.codec"]),
    )
    return GroupCoordinator(
        log,
        read_group_config(values),
        now_ms=parts.clock.now_ms,
        call_later=parts.clock.call_later,
        partition_count=lambda: len(metadata.partitions(GROUP_METADATA_TOPIC)) or None,
    )


def group_loader(values: Mapping[str, Any], parts: ReplicaParts, groups: GroupCoordinator) -> PartitionLoader:
    """Return the loader of these groups. `assembly` subscribes it to changes of roles."""
    size = values["offsets.load.buffer.size"]
    return PartitionLoader(parts, GROUP_METADATA_TOPIC, groups.runtime, load_buffer_size=size)
