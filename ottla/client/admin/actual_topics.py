"""The topics of a cluster as `desired_topics.Topic`, and the requests that carry out a plan.

Must not know a file. Counterpart in Kafka: none.
"""

from collections.abc import Mapping, Sequence

from ottla.client.admin.configs import (
    Change as ConfigChange,
)
from ottla.client.admin.configs import (
    ConfigSource,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from ottla.client.admin.desired_topics import Action, Change, Topic
from ottla.client.admin.topics import DEFAULT, NewTopic, create_partitions, create_topics, delete_topics
from ottla.client.cluster import Client
from ottla.wire.errors import ErrorCode, KafkaError


async def actual_topics(client: Client) -> dict[str, Topic]:
    """Return the topics of a cluster with their own configs. KafkaError if a topic cannot be described."""
    described = {topic.name or "": topic for topic in (await client.metadata(None)).topics if not topic.is_internal}
    resources = [Resource(ResourceType.TOPIC, name) for name in described]
    configs = await describe_configs(client, resources) if resources else {}
    found = {}
    for name, topic in sorted(described.items()):
        entries = configs[Resource(ResourceType.TOPIC, name)]
        if isinstance(entries, KafkaError):
            raise KafkaError(entries.code, f"topic {name}: {entries.detail}")
        own = {
            each.name: each.value
            for each in entries
            if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG and each.value is not None
        }
        replicas = len(topic.partitions[0].replica_nodes) if topic.partitions else None
        found[name] = Topic(len(topic.partitions), replicas, own)
    return found


async def carry_out(
    client: Client, changes: Sequence[Change], wanted: Mapping[str, Topic], *, validate_only: bool = False
) -> dict[Change, KafkaError | None]:
    """Carry out the changes of a plan, one kind after the other; return a result for each change.

    With `validate_only` the cluster only checks the changes, as far as it can.
    """
    results: dict[Change, KafkaError | None] = {}
    by_action: dict[Action, list[Change]] = {}
    for change in changes:
        by_action.setdefault(change.action, []).append(change)
    created = by_action.get(Action.CREATE, [])
    if created:
        topics = [_new_topic(change.topic, wanted[change.topic]) for change in created]
        found = await create_topics(client, topics, validate_only=validate_only)
        for change in created:
            result = found[change.topic]
            results[change] = result if isinstance(result, KafkaError) else None
    grown = {change.topic: change for change in by_action.get(Action.ADD_PARTITIONS, ())}
    if grown:
        counts = {name: int(change.after or 0) for name, change in grown.items()}
        errors = await create_partitions(client, counts, validate_only=validate_only)
        results.update({change: errors[name] for name, change in grown.items()})
    configs = [*by_action.get(Action.SET_CONFIG, ()), *by_action.get(Action.UNSET_CONFIG, ())]
    results.update(await _change_configs(client, configs, validate_only))
    deleted = by_action.get(Action.DELETE, [])
    if deleted:
        gone = {} if validate_only else await delete_topics(client, [change.topic for change in deleted])
        results.update({change: gone.get(change.topic) for change in deleted})
    for change in by_action.get(Action.CHANGE_REPLICAS, ()):
        hint = f"use `ottla reassign` to give topic {change.topic} {change.after} replicas"
        results[change] = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, hint)
    return {change: results[change] for change in changes}


def _new_topic(name: str, topic: Topic) -> NewTopic:
    return NewTopic(name, topic.partitions or DEFAULT, topic.replication_factor or DEFAULT, (), topic.configs)


async def _change_configs(
    client: Client, changes: Sequence[Change], validate_only: bool
) -> dict[Change, KafkaError | None]:
    by_topic: dict[str, list[Change]] = {}
    for change in changes:
        by_topic.setdefault(change.topic, []).append(change)
    if not by_topic:
        return {}
    wanted = {
        Resource(ResourceType.TOPIC, name): [_config_change(each) for each in mine] for name, mine in by_topic.items()
    }
    errors = await alter_configs(client, wanted, validate_only=validate_only)
    return {change: errors[Resource(ResourceType.TOPIC, change.topic)] for change in changes}


def _config_change(change: Change) -> ConfigChange:
    assert change.key is not None
    if change.action is Action.UNSET_CONFIG:
        return ConfigChange(change.key, Operation.DELETE)
    return ConfigChange(change.key, Operation.SET, str(change.after))
