"""`ottla topics`: list, describe, create, alter, export and delete topics.

Counterpart in Kafka: kafka-topics.sh.
"""

from collections.abc import Sequence
from typing import Any

import click

from ottla.client.admin.actual_topics import actual_topics
from ottla.client.admin.configs import Resource, ResourceType, describe_configs, min_insync_replicas
from ottla.client.admin.desired_topics import write_topics
from ottla.client.admin.topics import (
    DEFAULT,
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topics,
)
from ottla.client.cluster import Client
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster, pairs
from ottla.scripts.terminal.output import ERROR, TABLE, TSV
from ottla.scripts.terminal.patterns import chosen, is_pattern
from ottla.scripts.terminal.session import Session
from ottla.scripts.terminal.session import describe as describe_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from ottla.wire.uuids import uuid_text

_REGEX = click.option("--regex", is_flag=True, help="TOPIC is a regular expression, not a shell pattern.")
_HEALTH = (
    click.option("--under-replicated", is_flag=True, help="Only partitions with a replica that is not in sync."),
    click.option("--unavailable", is_flag=True, help="Only partitions without a leader."),
    click.option("--under-min-isr", is_flag=True, help="Only partitions that refuse acks=all."),
    click.option(
        "--at-min-isr", is_flag=True, help="Only partitions that would refuse acks=all after one more failure."
    ),
)


@click.group()
def topics() -> None:
    """List, describe, create, alter, export and delete topics."""


@topics.command("list")
@click.argument("patterns", nargs=-1, metavar="[TOPIC]...", type=TOPIC_NAME)
@_REGEX
@click.option("--internal/--no-internal", default=True, help="Include Kafka's internal topics, which is the default.")
@asks_cluster
def list_command(session: Session, patterns: Sequence[str], regex: bool, internal: bool) -> None:
    """List topics: all, or those that match a pattern such as 'orders-*'."""
    session.run(_list, patterns, regex, internal)


async def _list(client: Client, session: Session, patterns: Sequence[str], regex: bool, internal: bool) -> None:
    found = {topic.name or "": topic for topic in (await client.metadata(None)).topics}
    session.out.begin("topic", "partitions", "replication_factor", "internal", "topic_id")
    for name in chosen(found, patterns, regex=regex):
        topic = found[name]
        if internal or not topic.is_internal:
            session.out.row(
                topic=name,
                partitions=len(topic.partitions),
                replication_factor=len(topic.partitions[0].replica_nodes) if topic.partitions else None,
                internal=topic.is_internal,
                topic_id=uuid_text(topic.topic_id),
            )


@topics.command()
@click.argument("patterns", nargs=-1, metavar="[TOPIC]...", type=TOPIC_NAME)
@_REGEX
@_HEALTH[0]
@_HEALTH[1]
@_HEALTH[2]
@_HEALTH[3]
@asks_cluster
def describe(session: Session, patterns: Sequence[str], regex: bool, **health: bool) -> None:
    """Describe the partitions of topics: leader, replicas, and in-sync replicas."""
    session.run(_describe, patterns, regex, health)


async def _describe(
    client: Client, session: Session, patterns: Sequence[str], regex: bool, health: dict[str, bool]
) -> None:
    found = await _matching(client, patterns, regex)
    names = [name for name, topic in found.items() if not isinstance(topic, KafkaError)]
    least = await min_insync_replicas(client, names) if health["under_min_isr"] or health["at_min_isr"] else {}
    columns = ("topic", "partition", "leader", "leader_epoch", "replicas", "isr", "offline")
    session.out.begin(*columns, *ERROR)
    for name, topic in found.items():
        if isinstance(topic, KafkaError):
            session.out.item(topic, topic=name)
            continue
        for each in sorted(topic.partitions, key=lambda it: it.partition_index):
            if _is_shown(each, health, least.get(name, 1)):
                session.out.row(
                    topic=name,
                    partition=each.partition_index,
                    leader=None if each.leader_id < 0 else each.leader_id,
                    leader_epoch=None if each.leader_epoch < 0 else each.leader_epoch,
                    replicas=list(each.replica_nodes),
                    isr=list(each.isr_nodes),
                    offline=list(each.offline_replicas),
                )


def _is_shown(partition: MetadataResponsePartition, health: dict[str, bool], min_isr: int) -> bool:
    in_sync = len(partition.isr_nodes)
    verdicts = {
        "under_replicated": in_sync < len(partition.replica_nodes),
        "unavailable": partition.leader_id < 0,
        "under_min_isr": in_sync < min_isr,
        "at_min_isr": in_sync == min_isr,
    }
    return not any(health.values()) or any(wanted and verdicts[name] for name, wanted in health.items())


async def _matching(
    client: Client, patterns: Sequence[str], regex: bool
) -> dict[str, MetadataResponseTopic | KafkaError]:
    """Return topics by name: those that match, and an error for each plain name that does not exist."""
    if patterns and not regex and not any(map(is_pattern, patterns)):
        return await describe_topics(client, patterns)
    found = {topic.name or "": topic for topic in (await client.metadata(None)).topics}
    matching = chosen(found, patterns, regex=regex)
    results: dict[str, MetadataResponseTopic | KafkaError] = {name: found[name] for name in matching}
    for pattern in patterns:
        if not regex and not is_pattern(pattern) and pattern not in found:
            results[pattern] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
    return results


@topics.command()
@click.argument("patterns", nargs=-1, metavar="[TOPIC]...", type=TOPIC_NAME)
@_REGEX
@asks_cluster
def export(session: Session, patterns: Sequence[str], regex: bool) -> None:
    """Write topics with their partitions, replicas and configs as TOML for `ottla apply`.

    --output json, ndjson, yaml and csv have a row for each topic instead.
    """
    session.run(_export, patterns, regex)


async def _export(client: Client, session: Session, patterns: Sequence[str], regex: bool) -> None:
    found = await actual_topics(client)
    missing = [] if regex else [each for each in patterns if not is_pattern(each) and each not in found]
    refused = await describe_topics(client, missing) if missing else {}
    errors = {name: each for name, each in refused.items() if isinstance(each, KafkaError)}
    wanted = {name: found[name] for name in chosen(found, patterns, regex=regex)}
    if session.out.form in (TABLE, TSV):
        for name, error in errors.items():
            session.say(f"{name}: {describe_error(error)[1]}")
        session.out.text(write_topics(wanted))
        session.out.has_failed = bool(errors)
        return
    session.out.begin("topic", "partitions", "replication_factor", "configs", *ERROR)
    for name, error in errors.items():
        session.out.item(error, topic=name)
    for name, (partitions, factor, configs) in wanted.items():
        session.out.row(topic=name, partitions=partitions, replication_factor=factor, configs=dict(configs))


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("-p", "--partitions", type=click.IntRange(min=1), metavar="COUNT", help="The default is the broker's.")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(min=1), metavar="COUNT", help="The default is the broker's."
)
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="May be given several times.")
@click.option(
    "--assignment",
    metavar="1:2,2:3",
    help="The brokers of each partition; ':' separates replicas, ',' partitions.",
)
@click.option("--like", metavar="TOPIC", type=TOPIC_NAME, help="Copy counts and configs from this topic.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists already is not an error.")
@DRY_RUN
@asks_cluster
def create(
    session: Session,
    names: Sequence[str],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    assignment: str | None,
    like: str | None,
    if_not_exists: bool,
    is_dry_run: bool,
) -> None:
    """Create topics."""
    if assignment and (partitions or replication_factor or like):
        raise click.UsageError("--assignment excludes --partitions and --replication-factor")
    wanted = NewTopic(
        "",
        partitions or DEFAULT,
        replication_factor or DEFAULT,
        _assignments(assignment) if assignment else (),
        pairs(configs, "--config"),
    )
    session.run(_create, names, wanted, like, if_not_exists, is_dry_run)


def _assignments(text: str) -> list[list[int]]:
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--assignment {text}: brokers are numbers, such as 1:2,2:3") from None


async def _create(
    client: Client,
    session: Session,
    names: Sequence[str],
    wanted: NewTopic,
    like: str | None,
    if_not_exists: bool,
    is_dry_run: bool,
) -> None:
    session.dry_run(is_dry_run)
    if like is not None:
        wanted = await _like(client, like, wanted)
    results = await create_topics(client, [wanted._replace(name=name) for name in names], validate_only=is_dry_run)
    session.out.begin("topic", "partitions", "replication_factor", "topic_id", "created", *ERROR)
    for name, result in results.items():
        if isinstance(result, KafkaError):
            exists = result.code == ErrorCode.TOPIC_ALREADY_EXISTS
            session.out.item(None if exists and if_not_exists else result, topic=name, created=False)
        else:
            row = _as_row(result)
            if is_dry_run:
                row["topic_id"] = None  # in a dry run a broker returns a random id
            session.out.row(**row, created=not is_dry_run)


def _as_row(topic: CreatedTopic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": topic.partitions if topic.partitions >= 0 else None,
        "replication_factor": topic.replication_factor if topic.replication_factor >= 0 else None,
        "topic_id": uuid_text(topic.topic_id) if any(topic.topic_id) else None,
    }


async def _like(client: Client, model: str, wanted: NewTopic) -> NewTopic:
    """Return the wanted topic, with counts and configs that it lacks from an existing one."""
    described = (await describe_topics(client, [model]))[model]
    resource = Resource(ResourceType.TOPIC, model)
    configs = (await describe_configs(client, [resource]))[resource]
    for each in (described, configs):
        if isinstance(each, KafkaError):
            raise KafkaError(each.code, f"--like {model}: {each.detail}".removesuffix(": "))
    assert not isinstance(described, KafkaError)
    assert not isinstance(configs, KafkaError)
    own = {each.name: each.value for each in configs if each.source.name == "DYNAMIC_TOPIC_CONFIG"}
    kept = {name: value for name, value in own.items() if value is not None}
    replicas = len(described.partitions[0].replica_nodes) if described.partitions else DEFAULT
    return wanted._replace(
        partitions=len(described.partitions) if wanted.partitions == DEFAULT else wanted.partitions,
        replication_factor=replicas if wanted.replication_factor == DEFAULT else wanted.replication_factor,
        configs={**kept, **wanted.configs},
    )


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", type=TOPIC_NAME)
@click.option("-p", "--partitions", required=True, type=click.IntRange(min=1), metavar="COUNT", help="The new total.")
@click.option("--assignment", metavar="1:2,2:3", help="The brokers of each added partition.")
@DRY_RUN
@asks_cluster
def alter(session: Session, names: Sequence[str], partitions: int, assignment: str | None, is_dry_run: bool) -> None:
    """Add partitions to topics. Later records with a key may go to other partitions than earlier ones."""
    session.run(_alter, names, partitions, _assignments(assignment) if assignment else None, is_dry_run)


async def _alter(
    client: Client,
    session: Session,
    names: Sequence[str],
    partitions: int,
    assignments: list[list[int]] | None,
    is_dry_run: bool,
) -> None:
    session.dry_run(is_dry_run)
    brokers = dict.fromkeys(names, assignments) if assignments else None
    counts = dict.fromkeys(names, partitions)
    results = await create_partitions(client, counts, brokers, validate_only=is_dry_run)
    session.out.begin("topic", "partitions", *ERROR)
    for name, error in results.items():
        session.out.item(error, topic=name, partitions=None if error else partitions)


@topics.command()
@click.argument("patterns", nargs=-1, required=True, metavar="TOPIC...", type=TOPIC_NAME)
@_REGEX
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is not an error.")
@DRY_RUN
@YES
@asks_cluster
def delete(
    session: Session, patterns: Sequence[str], regex: bool, if_exists: bool, is_dry_run: bool, yes: bool
) -> None:
    """Delete topics with all their records."""
    session.run(_delete, patterns, regex, if_exists, is_dry_run, yes)


async def _delete(
    client: Client,
    session: Session,
    patterns: Sequence[str],
    regex: bool,
    if_exists: bool,
    is_dry_run: bool,
    yes: bool,
) -> None:
    found = await _matching(client, patterns, regex)
    missing = {name: topic for name, topic in found.items() if isinstance(topic, KafkaError)}
    there = [name for name in found if name not in missing]
    if there and not session.dry_run(is_dry_run):
        session.confirm(f"Delete {_counted(there)} with all records?", yes=yes)
    results = dict.fromkeys(there) if is_dry_run or not there else await delete_topics(client, there)
    session.out.begin("topic", "partitions", "deleted", *ERROR)
    for name, missed in missing.items():
        session.out.item(None if if_exists else missed, topic=name, deleted=False)
    for name, error in results.items():
        topic = found[name]
        assert not isinstance(topic, KafkaError)
        deleted = error is None and not is_dry_run
        session.out.item(error, topic=name, partitions=len(topic.partitions), deleted=deleted)


def _counted(names: Sequence[str]) -> str:
    """Return a few names, or the first of many with their count."""
    if len(names) <= 5:
        return ", ".join(names)
    return f"{len(names)} topics ({', '.join(names[:3])}, ...)"
