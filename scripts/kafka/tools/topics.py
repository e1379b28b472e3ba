"""kafka-topics: create, delete, describe, or change a topic.

Counterpart: org.apache.kafka.tools.TopicCommand.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.admin.configs import ConfigEntry, ConfigSource, Resource, ResourceType, describe_configs
from ottla.client.admin.reassignments import Reassignment, list_reassignments
from ottla.client.admin.topics import (
    DEFAULT,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    create_partitions,
    create_topics,
    delete_topics,
    describe_in_pages,
)
from ottla.client.cluster import Client
from ottla.client.errors import ClientError
from ottla.scripts.kafka.face import Face, JavaError, as_java, illegal_argument, timed_out
from ottla.scripts.kafka.filters import IncludeList
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_invalid,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java.hashes import by_string_hash, java_uuid
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from ottla.wire.uuids import uuid_text

_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="server to connect to", help="The brokers to ask (required)."),
    flag("command-config", argument="file", help="A file of client properties."),
    flag("list", help="List topics."),
    flag("create", help="Create a topic."),
    flag("delete", help="Delete topics."),
    flag("alter", help="Give topics more partitions."),
    flag("describe", help="Describe topics."),
    flag("topic", argument="topic", help="A topic; but for --create, a regular expression."),
    flag("topic-id", argument="topic-id", help="The id of a topic to describe."),
    flag("config", argument="name=value", help="A config of the new topic; may be repeated."),
    flag("delete-config", argument="name", help="No longer supported."),
    flag("partitions", argument="# of partitions", type=int, help="How many partitions there are to be."),
    flag("replication-factor", argument="replication factor", type=int, help="Replicas of each partition."),
    flag("replica-assignment", argument="1:2,2:3", help="The brokers of each partition."),
    flag("under-replicated-partitions", help="Describe only partitions with replicas that are not in sync."),
    flag("unavailable-partitions", help="Describe only partitions without a live leader."),
    flag("under-min-isr-partitions", help="Describe only partitions below min.insync.replicas."),
    flag("at-min-isr-partitions", help="Describe only partitions at min.insync.replicas."),
    flag("topics-with-overrides", help="Describe only topics with configs of their own."),
    flag("if-exists", help="Do nothing if the topic does not exist."),
    flag("if-not-exists", help="A topic that exists is no error."),
    flag("exclude-internal", help="Leave out internal topics."),
    flag("partition-size-limit-per-response", argument="count", type=int, help="Partitions in a response."),
)
_ACTIONS: Final = ("create", "list", "alter", "describe", "delete")
_REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
_COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To "
    "avoid issues it is best to use either, but not both."
)


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = _parsed(arguments, face)
        return _execute(parsed, face)
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1


def _parsed(arguments: Sequence[str], face: Face) -> Parsed:
    parsed = parse(_FLAGS, arguments)
    if not arguments:
        raise print_usage_and_exit(face, _FLAGS, "Create, delete, describe, or change a topic.")
    about = "This tool helps to create, delete, describe, or change a topic."
    maybe_print_help_or_version(face, _FLAGS, parsed, arguments, about)
    if sum(parsed.has(action) for action in _ACTIONS) != 1:
        actions = "--list, --describe, --create, --alter or --delete"
        raise print_usage_and_exit(face, _FLAGS, f"Command must include exactly one action: {actions}")
    if parsed.has("delete-config") and not face.is_3_9:
        face.complain(
            "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully "
            "removed in future releases."
        )
    _check_required(parsed, face)
    _check_invalid(parsed, face)
    return parsed


def _check_required(parsed: Parsed, face: Face) -> None:
    if not parsed.has("bootstrap-server"):
        raise illegal_argument("--bootstrap-server must be specified")
    if parsed.has("describe") and parsed.has("if-exists"):
        if not parsed.has("topic") and not parsed.has("topic-id"):
            raise print_usage_and_exit(face, _FLAGS, "--topic or --topic-id is required to describe a topic")
        if parsed.has("topic") and parsed.has("topic-id"):
            face.print(
                "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
                "Uuid.ZERO_UUID"
            )
    if not parsed.has("list") and not parsed.has("describe"):
        check_required(face, _FLAGS, parsed, "topic")
    if parsed.has("alter"):
        if parsed.has("config"):
            used = "[[bootstrap-server], [config]]"
            hint = " (To alter topic configurations, the kafka-configs tool can be used.)"
            if face.is_3_9:
                hint = " (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
            message = f'Option combination "{used}" can\'t be used with option "[alter]"{hint}'
            raise print_usage_and_exit(face, _FLAGS, message)
        check_required(face, _FLAGS, parsed, "partitions")


def _check_invalid(parsed: Parsed, face: Face) -> None:
    def allow_with(name: str, *actions: str, but_not: Sequence[str] = ()) -> None:
        wrong = [each for each in _ACTIONS if each not in actions]
        check_invalid(face, _FLAGS, parsed, name, [*wrong, *but_not])

    allow_with("config", "alter", "create")
    allow_with("partitions", "alter", "create")
    allow_with("replication-factor", "create")
    allow_with("replica-assignment", "alter", "create")
    if parsed.has("create"):
        check_invalid(face, _FLAGS, parsed, "replica-assignment", ("partitions", "replication-factor"))
    for report in _REPORTS:
        allow_with(report, "describe", but_not=["topics-with-overrides"])
    allow_with("topics-with-overrides", "describe", but_not=_REPORTS)
    allow_with("if-exists", "alter", "delete", "describe")
    allow_with("if-not-exists", "create")
    allow_with("exclude-internal", "list", "describe")


def _execute(parsed: Parsed, face: Face) -> int:
    action = next(each for each in _ACTIONS if parsed.has(each))
    command_config = parsed.value("command-config")
    try:
        config = face.config(parsed.value("bootstrap-server"), command_config)
    except (ConfigError, OSError) as error:
        raise JavaError("org.apache.kafka.common.KafkaException", str(error)) from error
    try:
        face.with_client(config, _WORK[action], parsed, face)
    except JavaError as error:
        return _failed(face, error)
    except KafkaError as error:
        return _failed(face, as_java(error))
    except ClientError as error:
        face.complain(f"{error}. {error.hint}".rstrip())
        return _failed(face, timed_out("createTopics" if action == "create" else "listTopics"))
    return 0


def _failed(face: Face, error: JavaError) -> int:
    face.print(f"Error while executing topic command : {error.message}")
    return 1


# Actions


async def _create(client: Client, parsed: Parsed, face: Face) -> None:
    name = parsed.value("topic")
    configs = _configs(parsed)
    if "." in name or "_" in name:
        face.print(_COLLISION)
    replicas, partitions = parsed.value("replication-factor"), parsed.value("partitions")
    if replicas is not None and not 1 <= replicas <= 32767:
        raise illegal_argument("The replication factor must be between 1 and 32767 inclusive")
    if partitions is not None and partitions < 1:
        raise illegal_argument("The partitions must be greater than 0")
    topic = NewTopic(
        name,
        DEFAULT if partitions is None else partitions,
        DEFAULT if replicas is None else replicas,
        _assignment(parsed),
        configs,
    )
    result = (await create_topics(client, [topic]))[name]
    if isinstance(result, KafkaError):
        if result.code == ErrorCode.TOPIC_ALREADY_EXISTS and parsed.has("if-not-exists"):
            return
        raise result
    face.print(f"Created topic {name}.")


def _configs(parsed: Parsed) -> dict[str, str]:
    found = {}
    for text in parsed.values("config"):
        key, equals, value = text.partition("=")
        if not equals or not value.strip() or "=" in value:
            raise illegal_argument(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        found[key.strip()] = value.strip()
    return found


def _assignment(parsed: Parsed) -> list[list[int]]:
    text = parsed.value("replica-assignment")
    found: list[list[int]] = []
    for partition in text.split(",") if text else ():
        try:
            brokers = [int(broker) for broker in partition.split(":")]
        except ValueError:
            wrong = next(each.strip() for each in partition.split(":") if not each.strip().isdigit())
            raise JavaError("java.lang.NumberFormatException", f'For input string: "{wrong}"') from None
        twice = [broker for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1]
        if twice:
            raise JavaError(
                "org.apache.kafka.tools.AdminCommandFailedException",
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}",
            )
        found.append(brokers)
        if len(brokers) != len(found[0]):
            raise JavaError(
                "org.apache.kafka.tools.AdminOperationException",
                f"Partition {len(found) - 1} has different replication factor: {brokers}",
            )
    return found


async def _list(client: Client, parsed: Parsed, face: Face) -> None:
    face.print("\n".join(await _matching(client, parsed)))


async def _alter(client: Client, parsed: Parsed, face: Face) -> None:
    names = await _existing(client, parsed, face)
    if not names:
        return
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None
    if _assignment(parsed):
        described = await describe_in_pages(client, names)
        assignments = {
            name: _assignment(parsed)[len(topic.partitions) :]
            for name, topic in described.items()
            if not isinstance(topic, KafkaError)
        }
    _raise_first(await create_partitions(client, dict.fromkeys(names, parsed.value("partitions")), assignments))


async def _delete(client: Client, parsed: Parsed, face: Face) -> None:
    names = await _existing(client, parsed, face)
    if names:
        _raise_first(await delete_topics(client, names))


def _raise_first(results: Mapping[str, KafkaError | None]) -> None:
    for error in results.values():
        if error is not None:
            raise error


async def _matching(client: Client, parsed: Parsed) -> list[str]:
    """Return the topics that match --topic, sorted."""
    hides_internal = parsed.has("exclude-internal")
    topics = (await client.metadata(None)).topics
    names = sorted(topic.name or "" for topic in topics if not (hides_internal and topic.is_internal))
    if not parsed.has("topic"):
        return names
    wanted = IncludeList(parsed.value("topic"))
    return [name for name in names if wanted.allows(name, exclude_internal=hides_internal)]


async def _existing(client: Client, parsed: Parsed, face: Face) -> list[str]:
    names = await _matching(client, parsed)
    if not names and parsed.value("topic") and not parsed.has("if-exists"):
        topic = parsed.value("topic")
        shown = f"Optional[{topic}]" if face.is_3_9 else topic
        raise illegal_argument(f"Topic '{shown}' does not exist as expected")
    return names


# Describe


async def _describe(client: Client, parsed: Parsed, face: Face) -> None:
    names = await _described_names(client, parsed, face)
    if not names:
        return
    limit = parsed.value("partition-size-limit-per-response") or 2000
    found = await describe_in_pages(client, names, limit)
    topics = {name: topic for name, topic in found.items() if not isinstance(topic, KafkaError)}
    for topic in found.values():
        if isinstance(topic, KafkaError):
            raise topic
    configs = await describe_configs(client, [Resource(ResourceType.TOPIC, name) for name in topics])
    partitions = [TopicPartition(name, each.partition) for name, topic in topics.items() for each in topic.partitions]
    try:
        moving = await list_reassignments(client, partitions)
    except (KafkaError, ClientError):
        moving = {}
    for name in by_string_hash(names, len(names)):
        entries = configs[Resource(ResourceType.TOPIC, name)]
        if isinstance(entries, KafkaError):
            raise entries
        _print_topic(topics[name], entries, moving, parsed, face, set(client.nodes))


async def _described_names(client: Client, parsed: Parsed, face: Face) -> list[str]:
    wanted = java_uuid(parsed.value("topic-id")) if parsed.has("topic-id") else bytes(16)
    if not any(wanted):
        return await _existing(client, parsed, face)
    topics = (await client.metadata(None)).topics
    names = [each.name or "" for each in topics if each.topic_id == wanted]
    if not names and not parsed.has("if-exists"):
        raise illegal_argument(f"TopicId '{parsed.value('topic-id')}' does not exist as expected")
    return names


def _print_topic(
    topic: TopicDescription,
    configs: Sequence[ConfigEntry],
    moving: Mapping[TopicPartition, Reassignment],
    parsed: Parsed,
    face: Face,
    live: set[int],
) -> None:
    by_name = {each.name: each for each in configs}
    ordered = [by_name[name] for name in by_string_hash(by_name)]
    own = [each for each in ordered if each.source is not ConfigSource.DEFAULT_CONFIG]
    with_overrides = parsed.has("topics-with-overrides")
    reports = [each for each in _REPORTS if parsed.has(each)]
    if not reports and (own or not with_overrides):
        first = topic.partitions[0]
        count = _replication_factor(first, moving.get(TopicPartition(topic.name, first.partition)))
        id_text = f"\tTopicId: {uuid_text(topic.topic_id)}" if any(topic.topic_id) else ""
        shown = ",".join(f"{each.name}={'null' if each.value is None else each.value}" for each in own)
        face.print(
            f"Topic: {topic.name}{id_text}\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {count}"
            f"\tConfigs: {shown}"
        )
    if with_overrides:
        return
    min_isr = int(next((each.value or "1" for each in configs if each.name == "min.insync.replicas"), "1"))
    for each in topic.partitions:
        reassignment = moving.get(TopicPartition(topic.name, each.partition))
        if not reports or any(_is_reported(report, each, reassignment, min_isr, live) for report in reports):
            _print_partition(topic.name, each, reassignment, face)


def _replication_factor(partition: PartitionDescription, reassignment: Reassignment | None) -> int:
    changing = {*reassignment.adding, *reassignment.removing} if reassignment else set()
    if reassignment is None or not changing & set(partition.replicas):
        return len(partition.replicas)
    return len(reassignment.replicas) - len(reassignment.adding)


def _is_reported(
    report: str, partition: PartitionDescription, reassignment: Reassignment | None, min_isr: int, live: set[int]
) -> bool:
    in_sync = len(partition.isr)
    match report:
        case "under-replicated-partitions":
            return _replication_factor(partition, reassignment) > in_sync
        case "unavailable-partitions":
            return partition.leader is None or partition.leader not in live
        case "under-min-isr-partitions":
            return partition.leader is None or in_sync < min_isr
        case _:
            return in_sync == min_isr


def _print_partition(
    topic: str, partition: PartitionDescription, reassignment: Reassignment | None, face: Face
) -> None:
    line = (
        f"\tTopic: {topic}\tPartition: {partition.partition}"
        f"\tLeader: {'none' if partition.leader is None else partition.leader}"
        f"\tReplicas: {_numbers(partition.replicas)}\tIsr: {_numbers(partition.isr)}"
    )
    if reassignment is not None:
        line += f"\tAdding Replicas: {_numbers(reassignment.adding)}"
        line += f"\tRemoving Replicas: {_numbers(reassignment.removing)}"
    line += f"\tElr: {_numbers(partition.eligible_leaders)}"
    line += f"\tLastKnownElr: {_numbers(partition.last_known_eligible_leaders)}"
    face.print(line)


def _numbers(brokers: Sequence[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))


_WORK: Final = {"create": _create, "list": _list, "alter": _alter, "describe": _describe, "delete": _delete}
