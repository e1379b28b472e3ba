"""What a topic may be called, and whether and how one that somebody asks for can be created.

PURE. Owns the rules and their errors. Must not know how topics are written. Counterparts in Kafka:
org.apache.kafka.common.internals.Topic, ZkAdminManager.createTopics, AdminZkClient.validateTopicCreate.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.controller.assignment import BrokerPlace, assign_replicas
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
_INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state"})

UNSET: Final = -1
# More in one request are refused, lest one request fill the disk with directories. Kafka has this limit since KRaft.
MAX_PARTITIONS_PER_REQUEST: Final = 10_000
_MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


class NewTopic(NamedTuple):
    """A topic that can be created."""

    name: str
    assignment: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str]


class Rules(NamedTuple):
    """What a new topic depends on: the brokers' configuration and chance."""

    num_partitions: int
    default_replication_factor: int
    check_configs: Callable[[Mapping[str, str]], None]
    random_below: Callable[[int], int]


class Existing(NamedTuple):
    """What a new topic must fit in with."""

    topics: Collection[str]
    to_delete: Collection[str]
    brokers: Sequence[BrokerPlace]


def is_internal(topic: str) -> bool:
    """Whether a topic is one of Kafka's own."""
    return topic in _INTERNAL_TOPICS


def name_fault(name: str) -> str | None:
    """Say what is wrong with a topic's name."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """Refuse a name that no topic may have."""
    fault = name_fault(name)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def plan_topic(topic: CreatableTopic, existing: Existing, rules: Rules) -> NewTopic:
    """Return the topic that a client asks for, or raise what is wrong with it."""
    name = topic.name
    if name in existing.topics and name not in existing.to_delete:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    configs: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            nulls = ",".join(each.name for each in topic.configs if each.value is None)
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {nulls}")
        configs[config.name] = config.value
    has_numbers = topic.num_partitions != UNSET or topic.replication_factor != UNSET
    if topic.assignments and has_numbers:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    check_name(name)
    if name in existing.to_delete:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    _check_collision(name, existing.topics)
    if topic.assignments:
        assignment = _manual_assignment(topic.assignments, {each.broker_id for each in existing.brokers})
    else:
        assignment = assign_replicas(
            existing.brokers,
            rules.num_partitions if topic.num_partitions == UNSET else topic.num_partitions,
            rules.default_replication_factor if topic.replication_factor == UNSET else topic.replication_factor,
            rules.random_below,
        )
    rules.check_configs(configs)
    return NewTopic(name, assignment, configs)


def count_partitions(topics: Sequence[CreatableTopic], default: int) -> int:
    """Return how many partitions a request wants created."""
    total = 0
    for topic in topics:
        wanted = default if topic.num_partitions == UNSET else max(0, topic.num_partitions)
        total += len(topic.assignments) or wanted
    return total


def _check_collision(name: str, topics: Collection[str]) -> None:
    """Names that differ only in '.' and '_' would share their metrics."""
    if "." not in name and "_" not in name:
        return
    unified = name.replace(".", "_")
    colliding = sorted(each for each in topics if each != name and each.replace(".", "_") == unified)
    if colliding:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {', '.join(colliding)}"
        )


def _manual_assignment(
    assignments: Sequence[CreatableReplicaAssignment], brokers: Collection[int]
) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for each in assignments:
        replicas = tuple(each.broker_ids)
        fault = None
        if each.partition_index in found:
            fault = f"Found multiple manual partition assignments for partition {each.partition_index}"
        elif not replicas:
            fault = "The manual partition assignment includes an empty replica list."
        elif len(set(replicas)) < len(replicas):
            fault = f"Duplicate replica assignment found: {list(replicas)}"
        elif unknown := [broker_id for broker_id in replicas if broker_id not in brokers]:
            fault = f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
        if fault is not None:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
        found[each.partition_index] = replicas
    if len({len(replicas) for replicas in found.values()}) != 1:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All partitions should have the same number of replicas")
    if sorted(found) != list(range(len(found))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return found
