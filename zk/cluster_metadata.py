"""A cluster's metadata as one document: id, topics, configs, and the next producer id.

PURE. Owns the document, and its conflicts with the metadata that a store has. Must not know stores, files or znodes'
paths. Counterpart in Kafka: MetadataImage.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

from ottla.wire.types import MAX_INT64, NO_EPOCH
from ottla.wire.uuids import uuid_text
from ottla.zk.strict_json import ZnodeError, broker_ids, decode_object, member, number, shown
from ottla.zk.znodes import DEFAULT_ENTITY, ReplicaAssignment, decode_uuid

FORMAT: Final = "ottla-metadata"
VERSION: Final = 1
_LEGAL_NAME: Final = re.compile("[a-zA-Z0-9._-]{1,249}")


class MetadataError(ValueError):
    """A document is no cluster's metadata, or conflicts with the store's."""


class PartitionMetadata(NamedTuple):
    """A partition's replicas, its last leader epoch (NO_EPOCH: it never had a leader), and the ISR of that epoch."""

    assignment: ReplicaAssignment
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()


class TopicMetadata(NamedTuple):
    """A topic. An old topic may have no id; `configs` is None where they are unknown."""

    topic_id: bytes | None
    partitions: Mapping[int, PartitionMetadata]
    configs: Mapping[str, str] | None

    @property
    def assignments(self) -> dict[int, ReplicaAssignment]:
        """The replicas of each partition."""
        return {index: partition.assignment for index, partition in self.partitions.items()}


class ClusterMetadata(NamedTuple):
    """A cluster's metadata. Broker configs are by broker id, or DEFAULT_ENTITY."""

    cluster_id: str
    topics: Mapping[str, TopicMetadata]
    broker_configs: Mapping[str, Mapping[str, str]]
    next_producer_id: int = 0

    def encode(self) -> bytes:
        """Return the JSON document."""
        topics = {name: _topic_to_json(topic) for name, topic in sorted(self.topics.items())}
        document = {
            "format": FORMAT,
            "version": VERSION,
            "cluster_id": self.cluster_id,
            "next_producer_id": self.next_producer_id,
            "brokers": {name: {"configs": dict(configs)} for name, configs in sorted(self.broker_configs.items())},
            "topics": topics,
        }
        return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the metadata in a document. MetadataError: it is no such document."""
        try:
            document = decode_object(data)
            if document.get("format") != FORMAT:
                raise ZnodeError(f"its format is not {FORMAT!r}")
            if document.get("version") != VERSION:
                raise ZnodeError(f"its version is {shown(document.get('version'))}, known here is {VERSION}")
            next_producer_id = document.get("next_producer_id")
            if type(next_producer_id) is not int or not 0 <= next_producer_id <= MAX_INT64:
                raise ZnodeError(f"next_producer_id is no number that can be given: {shown(next_producer_id)}")
            topics = {_name(name): _topic(each) for name, each in member(document, "topics", dict).items()}
            brokers = {_broker(name): _configs(each) for name, each in member(document, "brokers", dict).items()}
            return cls(member(document, "cluster_id", str), topics, brokers, next_producer_id)
        except ZnodeError as error:
            raise MetadataError(str(error)) from error


def _name(topic: str) -> str:
    if not _LEGAL_NAME.fullmatch(topic) or topic in (".", ".."):
        raise ZnodeError(f"not a legal topic name: {shown(topic)}")
    return topic


def _broker(name: str) -> str:
    return name if name == DEFAULT_ENTITY else str(number(name))


def _topic_to_json(topic: TopicMetadata) -> dict[str, Any]:
    return {
        "id": None if topic.topic_id is None else uuid_text(topic.topic_id),
        "configs": None if topic.configs is None else dict(topic.configs),
        "partitions": {str(index): _partition_to_json(each) for index, each in sorted(topic.partitions.items())},
    }


def _partition_to_json(partition: PartitionMetadata) -> dict[str, Any]:
    replicas, adding, removing = partition.assignment
    moving = {key: value for key, value in (("adding", adding), ("removing", removing)) if value}
    return {"replicas": replicas, **moving, "leader_epoch": partition.leader_epoch, "isr": partition.isr}


def _topic(found: object) -> TopicMetadata:
    if not isinstance(found, dict):
        raise ZnodeError(f"not a topic: {shown(found)}")
    topic_id = None if found.get("id") is None else decode_uuid(member(found, "id", str))
    partitions = {number(index): _partition(each) for index, each in member(found, "partitions", dict).items()}
    if sorted(partitions) != list(range(len(partitions))) or not partitions:
        raise ZnodeError(f"its partitions are not numbered from 0 on: {shown(sorted(partitions))}")
    is_told = found.get("configs", "") is not None
    return TopicMetadata(topic_id, partitions, _configs(found) if is_told else None)


def _partition(found: object) -> PartitionMetadata:
    if not isinstance(found, dict):
        raise ZnodeError(f"not a partition: {shown(found)}")
    replicas, adding, removing = (broker_ids(found.get(key, [])) for key in ("replicas", "adding", "removing"))
    if not replicas:
        raise ZnodeError(f"a partition without replicas: {shown(found)}")
    leader_epoch = member(found, "leader_epoch", int)
    return PartitionMetadata(ReplicaAssignment(replicas, adding, removing), leader_epoch, broker_ids(found.get("isr")))


def _configs(found: object) -> dict[str, str]:
    configs = member(found, "configs", dict) if isinstance(found, dict) else None
    if configs is None or not all(isinstance(value, str) for value in configs.values()):
        raise ZnodeError(f"not configs: {shown(found)}")
    return configs


def conflicts(existing: ClusterMetadata, wanted: ClusterMetadata, *, overwrite: bool) -> Iterator[str]:
    """Return the conflicts of writing `wanted` into a store that has `existing`.

    Topic ids and existing partitions are never overwritten; with `overwrite` everything else is.
    """
    for name, topic in wanted.topics.items():
        known = existing.topics.get(name)
        if known is None:
            continue
        if known.topic_id != topic.topic_id:
            ids = [None if each is None else uuid_text(each) for each in (known.topic_id, topic.topic_id)]
            yield f"topic {name} exists with the id {ids[0]}, not {ids[1]}"
        elif len(known.partitions) > len(topic.partitions):
            yield f"topic {name} exists with {len(known.partitions)} partitions, not {len(topic.partitions)}"
        elif known.assignments != topic.assignments and not overwrite:
            yield f"topic {name} exists with other replicas"
        elif topic.configs not in (None, known.configs) and not overwrite:
            yield f"topic {name} exists with other configs: {_difference(known.configs, topic.configs)}"
    for name, configs in wanted.broker_configs.items():
        known_configs = existing.broker_configs.get(name, configs)
        if known_configs != configs and not overwrite:
            yield f"broker {name} exists with other configs: {_difference(known_configs, configs)}"


def _difference(known: Mapping[str, str] | None, wanted: Mapping[str, str] | None) -> str:
    known, wanted = known or {}, wanted or {}
    # Names without values, because some values are secrets.
    return ", ".join(sorted(key for key in {*known, *wanted} if known.get(key) != wanted.get(key)))
