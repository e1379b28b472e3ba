"""kafka-configs: describe and alter the configs of topics, brokers, loggers, users, clients, addresses and groups.

Owns the resources that have configs; `quota_configs` has users, clients and addresses.
Counterpart: kafka.admin.ConfigCommand.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.admin.cluster import describe_cluster
from ottla.client.admin.configs import (
    Change,
    ConfigEntry,
    ConfigSource,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
    list_config_resources,
    replace_configs,
)
from ottla.client.admin.groups.descriptions import list_groups
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import asked, asks_controllers, first_error, opened
from ottla.scripts.kafka.clusters import quota_configs
from ottla.scripts.kafka.clusters.config_flags import (
    BROKERS,
    CLIENT_METRICS,
    GROUPS,
    LOGGERS,
    TOPICS,
    added,
    entity_names,
    entity_types,
    is_broker_id,
    parsed_flags,
)
from ottla.scripts.kafka.clusters.quota_configs import Entity, invalid_configuration
from ottla.scripts.kafka.face import Face, JavaError, as_java, execution, illegal_argument
from ottla.scripts.kafka.flags import Parsed
from ottla.scripts.kafka.java.hashes import by_scala_set, by_string_hash, hash_order
from ottla.scripts.kafka.tools.client_metrics import subscriptions
from ottla.wire.errors import KafkaError

_RESOURCES: Final = {
    TOPICS: (ResourceType.TOPIC, ConfigSource.DYNAMIC_TOPIC_CONFIG),
    BROKERS: (ResourceType.BROKER, ConfigSource.DYNAMIC_BROKER_CONFIG),
    LOGGERS: (ResourceType.BROKER_LOGGER, None),
    CLIENT_METRICS: (ResourceType.CLIENT_METRICS, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG),
    GROUPS: (ResourceType.GROUP, ConfigSource.DYNAMIC_GROUP_CONFIG),
}
"""The type of each resource, and the source of its own values (None: any source)."""
_MOST_LETTERS: Final = 249


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = parsed_flags(arguments, face)
        if parsed.knows("zookeeper") and parsed.has("zookeeper"):
            return _refuse_zookeeper(face)
        types, names = entity_types(parsed), entity_names(parsed)
        if parsed.has("alter") and len(types) != len(names):
            raise illegal_argument("An entity name must be specified for every entity type")
        opened(face, parsed, _alter if parsed.has("alter") else _describe, Entity(types, names), parsed, face)
    except JavaError as error:
        is_plain = error.java_class.startswith("joptsimple.") or error.java_class.rpartition(".")[2] in (
            "IllegalArgumentException",
            "NumberFormatException",
            "InvalidConfigurationException",
            *(() if face.is_3_9 else ("InvalidTopicException", "UnsupportedVersionException")),
        )
        if is_plain:
            face.complain(str(error.message))
            return 1
        face.complain(f"Error while executing config command with args '{' '.join(arguments)}'")
        for line in error.trace():
            face.complain(line)
        return 1
    return 0


def _refuse_zookeeper(face: Face) -> int:
    face.print("Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.")
    face.print("Use --bootstrap-server instead to specify a broker to connect to.")
    face.complain("--zookeeper is not supported here: this tool asks brokers only. Nothing was changed.")
    return 1


# Alter


async def _alter(client: Client, entity: Entity, parsed: Parsed, face: Face) -> None:
    kind, name = entity.types[0], entity.names[0]
    add = added(parsed, face)
    delete = [each.strip() for each in parsed.values("delete-config")]
    if kind in _RESOURCES:
        await _alter_resource(client, kind, name, add, delete, face)
    else:
        await quota_configs.alter(client, entity, add, delete)
    if name:
        face.print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        face.print(f"Completed updating default config for {kind} in the cluster.")


async def _alter_resource(
    client: Client, kind: str, name: str, add: Mapping[str, str], delete: Sequence[str], face: Face
) -> None:
    resource = Resource(_RESOURCES[kind][0], name)
    if kind == LOGGERS:
        known = {each.name for each in await _described(client, kind, name, face, is_all=False)}
        wrong = [each for each in (*delete, *add) if each not in known]
        if wrong:
            raise invalid_configuration(f"Invalid broker logger(s): {','.join(wrong)}")
    elif face.is_3_9:
        old = {each.name: each for each in await _described(client, kind, name, face, is_all=False)}
        missing = [each for each in delete if each not in old]
        if missing:
            raise invalid_configuration(f"Invalid config(s): {','.join(missing)}")
        if kind == BROKERS:
            await _replace(client, resource, old, add, delete)
            return
    elif kind == BROKERS and name and not is_broker_id(name):
        raise illegal_argument(f"The entity name for {kind} must be a valid integer broker id, found: {name}")
    sets = [Change(key, Operation.SET, value) for key, value in add.items()]
    unsets = [Change(key, Operation.DELETE, "") for key in delete]
    changes = {resource: sets + unsets if face.is_3_9 else unsets + sets}
    first_error(await asked(client, "incrementalAlterConfigs", lambda: alter_configs(client, changes)))


async def _replace(
    client: Client, resource: Resource, old: Mapping[str, ConfigEntry], add: Mapping[str, str], delete: Sequence[str]
) -> None:
    """Set all earlier values and the changes, because old brokers have no incremental request."""
    new = {**{key: entry.value for key, entry in old.items()}, **add}
    kept = {key: value for key, value in new.items() if key not in delete}
    secret = [key for key, value in kept.items() if value is None]
    if secret:
        raise invalid_configuration(
            f"All sensitive broker config entries must be specified for --alter, missing entries: "
            f"Set({', '.join(by_scala_set(secret))})"
        )
    first_error(await asked(client, "alterConfigs", lambda: replace_configs(client, {resource: kept})))


# Describe


async def _describe(client: Client, entity: Entity, parsed: Parsed, face: Face) -> None:
    kind = entity.types[0]
    if kind not in _RESOURCES:
        await quota_configs.describe(client, entity, face)
        return
    is_all = parsed.has("all")
    name = entity.names[0] if entity.names else None
    if name is not None and not is_all and not face.is_3_9 and not await _exists(client, kind, name, face):
        face.print(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    for each in await _names(client, kind, face) if name is None else [name]:
        if not each:
            face.print(f"Default configs for {kind} in the cluster are:")
        else:
            face.print(f"{'All' if is_all else 'Dynamic'} configs for {kind[:-1]} {each} are:")
        for entry in await _described(client, kind, each, face, is_all=is_all):
            synonyms = ", ".join(f"{it.source.name}:{it.name}={_null(it.value)}" for it in entry.synonyms)
            sensitive = str(entry.is_sensitive).lower()
            face.print(f"  {entry.name}={_null(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _null(value: str | None) -> str:
    return "null" if value is None else value


async def _exists(client: Client, kind: str, name: str, face: Face) -> bool:
    if kind == TOPICS:
        validate_topic(name)
    if kind in (BROKERS, LOGGERS) and not name:
        return True
    if kind != GROUPS:
        return name in await _names(client, kind, face)
    groups = await asked(client, "findAllBrokers", lambda: list_groups(client), seconds=None)
    if any(each.group_id == name for each in groups):
        return True
    configured = await _configured_groups(client)
    return configured is None or name in configured


async def _names(client: Client, kind: str, face: Face) -> list[str]:
    """Return the names of all resources of a type, in the tool's order."""
    if kind == TOPICS:
        metadata = await asked(client, "listTopics", lambda: client.metadata(None), seconds=None)
        return by_string_hash(each.name or "" for each in metadata.topics)
    if kind in (BROKERS, LOGGERS):
        of_controllers = asks_controllers(client)
        call = "listNodes"
        cluster = await asked(client, call, lambda: describe_cluster(client, controllers=of_controllers), seconds=None)
        ids = [each.id for each in cluster.brokers]
        return [*(str(ids[at]) for at in hash_order(ids)), ""]
    if kind == CLIENT_METRICS:
        return await subscriptions(client, face, seconds=None)
    groups = await asked(client, "findAllBrokers", lambda: list_groups(client), seconds=None)
    return by_scala_set([*(each.group_id for each in groups), *(await _configured_groups(client) or ())])


async def _configured_groups(client: Client) -> list[str] | None:
    """Return the groups with configs of their own; None if the broker does not list them."""
    try:
        found = await asked(
            client, "listConfigResources", lambda: list_config_resources(client, ResourceType.GROUP), seconds=None
        )
    except JavaError as error:
        cause = error.cause or error
        if cause.java_class.endswith((".UnsupportedVersionException", ".ClusterAuthorizationException")):
            return None
        raise cause from None
    return [each.name for each in found]


async def _described(client: Client, kind: str, name: str, face: Face, *, is_all: bool) -> list[ConfigEntry]:
    type, source = _RESOURCES[kind]
    if kind == TOPICS and name:
        validate_topic(name)
    if kind in (BROKERS, LOGGERS) and name and not is_broker_id(name):
        raise illegal_argument(f"The entity name for {kind} must be a valid integer broker id, found: {name}")
    if kind == BROKERS and not name:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    resource = Resource(type, name)
    results = await asked(client, "describeConfigs", lambda: describe_configs(client, [resource], synonyms=True))
    entries = results[resource]
    if isinstance(entries, KafkaError):
        # Brokers send an empty text for a topic that does not exist, which Kafka's client uses as the message.
        error = as_java(entries)
        raise execution(JavaError(error.java_class, entries.detail) if kind == TOPICS else error)
    return sorted((each for each in entries if is_all or source in (None, each.source)), key=lambda each: each.name)


def validate_topic(name: str) -> None:
    """Raise the JavaError of `Topic.validate` for an invalid topic name."""
    if not name:
        wrong = "the empty string is not allowed"
    elif name in (".", ".."):
        wrong = f"'{name}' is not allowed"
    elif len(name) > _MOST_LETTERS:
        wrong = f"the length of '{name}' is longer than the max allowed length {_MOST_LETTERS}"
    elif not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        wrong = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise JavaError("org.apache.kafka.common.errors.InvalidTopicException", f"Topic name is invalid: {wrong}")
