"""The rules of new topics and partitions.

PURE. Owns the rules and their errors. Must not know how topics are written. Counterparts in Kafka: createTopics and
createPartitions of ZkAdminManager, AdminZkClient.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.broker.cluster.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, check_name, is_internal
from ottla.broker.controller.assignment import BrokerPlace, assign_replicas
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from ottla.zk.znodes import ReplicaAssignment, TopicAssignment

UNSET: Final = -1
# The limit keeps one request from filling the disk with directories. Kafka has it in KRaft mode.
MAX_PARTITIONS_PER_REQUEST: Final = 10_000


class NewTopic(NamedTuple):
    """A topic that can be created."""

    name: str
    assignment: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str]


class Rules(NamedTuple):
    """The configuration of new topics, and the source of randomness."""

    num_partitions: int
    default_replication_factor: int
    random_below: Callable[[int], int]


class Existing(NamedTuple):
    """The topics and brokers of the cluster, which a new topic must fit."""

    topics: Collection[str]
    to_delete: Collection[str]
    brokers: Sequence[BrokerPlace]


def topic_by_name(name: str, values: Mapping[str, Any], brokers: int) -> CreatableTopic:
    """Return a topic to create of which only the name is given. `values` are those of the broker's keys.

    Creating an internal topic fails until there are brokers for all replicas. Without ZooKeeper the number of brokers
    never grows, so that each gets one replica.
    """
    is_growing = bool(values["zookeeper.connect"])
    if name == GROUP_METADATA_TOPIC:
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(values["offsets.topic.segment.bytes"]),
        }
        replicas = values["offsets.topic.replication.factor"]
        replicas = replicas if is_growing else min(replicas, brokers)
        return _internal(name, values["offsets.topic.num.partitions"], replicas, configs)
    if name == TRANSACTION_STATE_TOPIC:
        replicas, min_isr = values["transaction.state.log.replication.factor"], values["transaction.state.log.min.isr"]
        if not is_growing:
            replicas = min(replicas, brokers)
            min_isr = min(min_isr, replicas)
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min_isr),
            "segment.bytes": str(values["transaction.state.log.segment.bytes"]),
            "unclean.leader.election.enable": "false",
        }
        return _internal(name, values["transaction.state.log.num.partitions"], replicas, configs)
    if is_internal(name):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Ottla does not use {name}")
    return CreatableTopic(name=name, num_partitions=UNSET, replication_factor=UNSET, assignments=(), configs=())


def _internal(name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=(),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def plan_topic(topic: CreatableTopic, existing: Existing, rules: Rules) -> NewTopic:
    """Return the planned topic; KafkaError for its first fault, in Kafka's order."""
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
    spread = None
    if not topic.assignments:
        spread = assign_replicas(
            existing.brokers,
            rules.num_partitions if topic.num_partitions == UNSET else topic.num_partitions,
            rules.default_replication_factor if topic.replication_factor == UNSET else topic.replication_factor,
            rules.random_below,
        )
    check_name(name)
    if name in existing.to_delete:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    _check_collision(name, existing.topics)
    brokers = {each.broker_id for each in existing.brokers}
    assignment = _manual_assignment(topic.assignments, brokers) if spread is None else spread
    return NewTopic(name, assignment, configs)


def count_partitions(topics: Sequence[CreatableTopic], default: int) -> int:
    """Return the number of partitions that a request wants to create."""
    total = 0
    for topic in topics:
        wanted = default if topic.num_partitions == UNSET else max(0, topic.num_partitions)
        total += len(topic.assignments) or wanted
    return total


def _check_collision(name: str, topics: Collection[str]) -> None:
    """Raise KafkaError for names that differ only in '.' and '_', because their metrics would have the same name."""
    if "." not in name and "_" not in name:
        return
    unified = name.replace(".", "_")
    colliding = sorted(each for each in topics if each != name and each.replace(".", "_") == unified)
    if colliding:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding[0]}"
        )


def _manual_assignment(
    assignments: Sequence[CreatableReplicaAssignment], brokers: Collection[int]
) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for each in assignments:
        if each.partition_index in found:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {each.partition_index}",
            )
        replicas = tuple(each.broker_ids)
        _check_replicas(replicas, brokers, len(next(iter(found.values()), replicas)))
        found[each.partition_index] = replicas
    if sorted(found) != list(range(len(found))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return found


def plan_partitions(
    wanted: CreatePartitionsTopic, found: TopicAssignment | None, brokers: Sequence[BrokerPlace]
) -> TopicAssignment:
    """Return a topic's assignment with the added partitions; KafkaError if they cannot be added."""
    name = wanted.name
    if found is not None and any(each.adding or each.removing for each in found.partitions.values()):
        raise KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"A partition reassignment is in progress for the topic '{name}'."
        )
    if found is None or not found.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(found.partitions)
    added = wanted.count - count
    if added == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if added < 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {count} partition(s); {wanted.count} would not be an increase.",
        )
    if added > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    like = found.partitions[0].replicas
    if wanted.assignments is None:
        # As in Kafka, begin at the first broker of partition 0.
        places = sorted(brokers)
        start = next((place for place, each in enumerate(places) if each.broker_id >= like[0]), 0)
        replicas = assign_replicas(places, added, len(like), lambda _: start, count)
    else:
        manual = [tuple(each.broker_ids) for each in wanted.assignments]
        if len(manual) != added:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(manual)} assignment(s) "
                "were specified.",
            )
        for each in manual:
            _check_replicas(each, {place.broker_id for place in brokers}, len(like))
        replicas = dict(enumerate(manual, count))
    new = {index: ReplicaAssignment(each) for index, each in replicas.items()}
    return found._replace(partitions={**found.partitions, **new})


def _check_replicas(replicas: Sequence[int], brokers: Collection[int], replication_factor: int) -> None:
    """Raise KafkaError for chosen replicas that do not fit the cluster or the topic's other partitions."""
    wrong = "The manual partition assignment includes"
    fault = None if replicas else f"{wrong} an empty replica list."
    for broker_id in sorted(replicas):
        if broker_id not in brokers:
            fault = f"{wrong} broker {broker_id}, but no such broker is registered."
        elif replicas.count(broker_id) > 1:
            fault = f"{wrong} the broker {broker_id} more than once."
        if fault is not None:
            break
    if fault is None and len(replicas) != replication_factor:
        fault = (
            f"{wrong} a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s)."
        )
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
