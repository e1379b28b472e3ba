"""`ottla reassign`: move partitions between brokers, and replicas between log directories.

Counterpart in Kafka: kafka-reassign-partitions.sh.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import trio

from ottla.client.admin.configs import Change, Resource, alter_configs
from ottla.client.admin.copying import find_copying, partition_sizes
from ottla.client.admin.log_dirs import Replica, alter_replica_log_dirs, find_replicas
from ottla.client.admin.reassignments import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIR_RATE,
    Reassignment,
    alter_reassignments,
    by_topic,
    find_throttles,
    list_reassignments,
    moves_of,
    rate_limits,
    replica_throttles,
)
from ottla.client.cluster import Client
from ottla.scripts.reassignment_plans import Plan, read_plan, with_log_dirs, write_way_back
from ottla.scripts.terminal.files import read_text
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.partitions import (
    Chosen,
    Found,
    find_partitions,
    place,
    read_brokers,
    read_partitions,
)
from ottla.scripts.terminal.progress import Progress, sized
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataResponsePartition
from ottla.wire.types import TopicPartition

_PAUSE_SECONDS: Final = 1.0
_SHOWN: Final = 20
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMG]?)B?(?:/s)?")
_FACTORS: Final = {"": 1, "k": 1000, "K": 1000, "M": 1000**2, "G": 1000**3}
_KEEP_THROTTLE = click.option("--keep-throttle", is_flag=True, help="Leave the rate limits as they are.")


@click.group()
def reassign() -> None:
    """Move partitions between brokers, and replicas between log directories.

    `plan` proposes a reassignment, `start` starts it, `watch` shows its progress and ends its throttle.
    """


@reassign.command("list")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:P]]...", type=TOPIC_NAME)
@asks_cluster
def list_command(session: Session, partitions: Sequence[str]) -> None:
    """List the reassignments under way."""
    session.run(_list, read_partitions(partitions))


async def _list(client: Client, session: Session, wanted: Sequence[Chosen]) -> None:
    found = await _under_way(client, wanted)
    session.out.begin("topic", "partition", "replicas", "adding", "removing")
    for partition in sorted(found):
        each = found[partition]
        values = {"replicas": list(each.replicas), "adding": list(each.adding), "removing": list(each.removing)}
        session.out.row(**place(partition), **values)


async def _under_way(client: Client, wanted: Sequence[Chosen]) -> dict[TopicPartition, Reassignment]:
    found = await list_reassignments(client)
    known = await find_partitions(client, wanted) if wanted else found
    return {partition: each for partition, each in found.items() if partition in known}


# Plan


@reassign.command()
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC[:P]...", type=TOPIC_NAME)
@click.option("--brokers", metavar="1,2,3", help="Place replicas on these brokers only. The default is all brokers.")
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    metavar="COUNT",
    help="The number of replicas of each partition. The default is the current number.",
)
@asks_cluster
def plan(session: Session, partitions: Sequence[str], brokers: str | None, replication_factor: int | None) -> None:
    """Propose a reassignment.

    It spreads replicas and leaders over brokers and racks, with few moves. Rows are the partitions that change. `ottla
    reassign start` reads the output of `--output json`.
    """
    session.run(
        _plan, read_partitions(partitions), None if brokers is None else read_brokers(brokers), replication_factor
    )


async def _plan(
    client: Client, session: Session, wanted: Sequence[Chosen], brokers: Sequence[int] | None, factor: int | None
) -> None:
    from ottla.client.admin.placement import place as place_replicas

    known = await find_partitions(client, wanted)
    _check_brokers(client, brokers or ())
    current = _replicas(known)
    racks = {each: client.nodes[each].rack for each in brokers or client.nodes}
    try:
        placed = place_replicas(current, racks, factor)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    sizes = await partition_sizes(client, current)
    columns = ("topic", "partition", "current", "replicas", "adding", "removing", "bytes_to_copy")
    session.out.begin(*columns, *ERROR)
    for each, found in known.items():
        if isinstance(found, KafkaError):
            session.out.item(found, **place(each))
        elif placed[each] != current[each]:
            adding = [broker for broker in placed[each] if broker not in current[each]]
            session.out.row(
                **place(each),
                current=current[each],
                replicas=placed[each],
                adding=adding,
                removing=[broker for broker in current[each] if broker not in placed[each]],
                bytes_to_copy=len(adding) * sizes[each] if each in sizes else None,
            )
    if placed == current:
        session.say("nothing is to be moved")


def _replicas(known: Found) -> dict[TopicPartition, list[int]]:
    return {
        each: list(found.replica_nodes) for each, found in known.items() if isinstance(found, MetadataResponsePartition)
    }


def _check_brokers(client: Client, brokers: Sequence[int]) -> None:
    missing = sorted(set(brokers) - set(client.nodes))
    if missing:
        there = ", ".join(map(str, sorted(client.nodes)))
        raise click.UsageError(f"broker {missing[0]} is not in the cluster, which has {there}")


# Start


def _bytes_per_second(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    match = _RATE.fullmatch(text)
    if match is None:
        raise click.BadParameter("a rate is a number of bytes a second, such as 50000000 or 50MB", context, parameter)
    return round(float(match[1]) * _FACTORS[match[2]])


@reassign.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--throttle",
    callback=_bytes_per_second,
    metavar="BYTES",
    help="Copy at most this many bytes a second, such as 50MB. `watch` ends the limit.",
)
@click.option(
    "--log-dir",
    "log_dirs",
    multiple=True,
    metavar="BROKER:PATH",
    help="Place the replicas of this broker in this log directory. May be given several times.",
)
@DRY_RUN
@YES
@asks_cluster
def start(
    session: Session, file: Path, throttle: int | None, log_dirs: Sequence[str], is_dry_run: bool, yes: bool
) -> None:
    """Start the reassignment in FILE.

    FILE is the output of `ottla reassign plan --output json`, or a file of Kafka's tool; - stands for stdin. The old
    assignment is written to $XDG_STATE_HOME/ottla/undo, by default ~/.local/state/ottla/undo, for an undo.
    """
    wanted = with_log_dirs(read_plan(read_text(file), str(file)), log_dirs)
    session.run(_start, wanted, throttle, is_dry_run, yes)


async def _start(
    client: Client, session: Session, wanted: Plan, throttle: int | None, is_dry_run: bool, yes: bool
) -> None:
    known = await find_partitions(client, _chosen(wanted.replicas))
    _check_brokers(client, [broker for brokers in wanted.replicas.values() for broker in brokers])
    current = _replicas(known)
    under_way = await list_reassignments(client, current)
    current |= {each: [it for it in found.replicas if it not in found.adding] for each, found in under_way.items()}
    before = await _stored(client, {replica: path for replica, path in wanted.log_dirs.items() if replica[:2] in known})
    changes = Plan(
        {
            each: wanted.replicas[each]
            for each in current
            if wanted.replicas[each] != current[each] or each in under_way
        },
        {replica: path for replica, path in wanted.log_dirs.items() if before.get(replica) != path},
    )
    moved = {*changes.replicas, *changes.dirs_by_partition()}
    back = Plan(
        {each: current[each] for each in current if each in moved},
        {replica: path for replica, path in before.items() if replica in changes.log_dirs},
    )
    results: dict[TopicPartition, KafkaError | None] = {}
    if not back.replicas:
        session.say("nothing is to be moved")
    elif not session.dry_run(is_dry_run):
        await _ask(client, session, changes, back, throttle, yes)
        path = write_way_back(back, client.cluster_id)
        session.say(f"the way back: ottla reassign start {path}")
        results = await _begin(client, changes, current, throttle)
    _print_started(session, known, wanted, back, results)


def _chosen(partitions: Iterable[TopicPartition]) -> list[Chosen]:
    return [Chosen(topic, frozenset(numbers)) for topic, numbers in by_topic(partitions).items()]


def _print_started(
    session: Session, known: Found, wanted: Plan, back: Plan, results: Mapping[TopicPartition, KafkaError | None]
) -> None:
    dirs = wanted.dirs_by_partition()
    session.out.begin("topic", "partition", "current", "replicas", "log_dirs", "started", *ERROR)
    for each, found in known.items():
        values: dict[str, Any] = {
            **place(each),
            "replicas": wanted.replicas.get(each),
            "log_dirs": {str(broker): path for broker, path in dirs.get(each, {}).items()},
        }
        if isinstance(found, KafkaError):
            session.out.item(found, **values, started=False)
        elif each in back.replicas:
            started = each in results and results[each] is None
            session.out.item(results.get(each), **values, current=back.replicas[each], started=started)


async def _stored(client: Client, replicas: Mapping[Replica, str]) -> dict[Replica, str]:
    """Return the directory of each of these replicas, or the one that it is moving to."""
    if not replicas:
        return {}
    found = await find_replicas(client, replicas)
    return {replica: path for replica, each in found.items() if (path := each.future or each.current) is not None}


async def _ask(client: Client, session: Session, changes: Plan, back: Plan, throttle: int | None, yes: bool) -> None:
    """Show the changes, and ask for a confirmation."""
    sizes = await partition_sizes(client, back.replicas)
    new_dirs, old_dirs = changes.dirs_by_partition(), back.dirs_by_partition()
    total = 0
    for number, (partition, old) in enumerate(back.replicas.items()):
        new = changes.replicas.get(partition, old)
        copies = len(set(new) - set(old)) + len(old_dirs.get(partition, ()))
        total += copies * sizes.get(partition, 0)
        if number < _SHOWN:
            dirs = "".join(f" {broker}:{path}" for broker, path in new_dirs.get(partition, {}).items())
            session.say(f"{partition}: {','.join(map(str, old))} → {','.join(map(str, new))}{dirs}")
    count = len(back.replicas)
    if count > _SHOWN:
        session.say(f"... and {count - _SHOWN} more")
    limit = f", at most {sized(throttle)} a second" if throttle is not None else ""
    noun = "a partition" if count == 1 else f"{count} partitions"
    session.confirm(f"Move {noun}, copying {sized(total)}{limit}?", yes=yes)


async def _begin(
    client: Client, changes: Plan, current: Mapping[TopicPartition, Sequence[int]], throttle: int | None
) -> dict[TopicPartition, KafkaError | None]:
    """Set the throttle and the directories of new replicas, and start; return the result of each partition."""
    if throttle is not None:
        moves = moves_of(await list_reassignments(client), changes.replicas, current)
        await _alter(client, replica_throttles(moves))
        brokers = sorted({broker for each in moves.values() for broker in each.brokers})
        await _alter(client, rate_limits(brokers, (LEADER_RATE, FOLLOWER_RATE), throttle))
        movers = sorted({replica.broker_id for replica in changes.log_dirs})
        await _alter(client, rate_limits(movers, (LOG_DIR_RATE,), throttle))
    results: dict[TopicPartition, KafkaError | None] = {}
    # A broker remembers the directory for a replica that it does not have yet.
    for replica, error in (await alter_replica_log_dirs(client, changes.log_dirs)).items():
        is_known = error is not None and error.code == ErrorCode.REPLICA_NOT_AVAILABLE
        results[TopicPartition(*replica[:2])] = None if is_known else error
    failed = {each for each, error in results.items() if error is not None}
    targets = {each: replicas for each, replicas in changes.replicas.items() if each not in failed}
    if targets:
        results.update(await alter_reassignments(client, targets))
    return results


async def _alter(client: Client, changes: Mapping[Resource, Sequence[Change]]) -> None:
    for resource, error in (await alter_configs(client, changes)).items():
        if error is not None:
            raise KafkaError(error.code, f"the throttle of {resource.name}: {error.detail}".removesuffix(": "))


# Watch and cancel


@reassign.command()
@_KEEP_THROTTLE
@asks_cluster
def watch(session: Session, keep_throttle: bool) -> None:
    """Show the progress of reassignments.

    When all are complete, the throttle of brokers and topics is ended. Rows are the completed partitions. Ctrl-C ends
    only the watching.
    """
    session.run(_watch, keep_throttle)


async def _watch(client: Client, session: Session, keep_throttle: bool) -> None:
    session.out.begin("topic", "partition", "replicas", "bytes_copied")
    try:
        await _wait(client, session)
    except (KeyboardInterrupt, trio.Cancelled):
        session.say("the reassignment continues: `ottla reassign watch` shows it, `ottla reassign cancel` ends it")
        raise
    if not keep_throttle:
        await _end_throttle(client, session)


async def _wait(client: Client, session: Session) -> None:
    """Print each partition when its replicas are copied, until all are."""
    totals: dict[Replica, int] = {}
    found = await find_copying(client)
    left = found.partitions
    if not left:
        session.say("no reassignment is under way")
    with Progress("copying", counts_bytes=True) as progress:
        while True:
            totals.update({replica: copy.total for replica, copy in found.copies.items()})
            done = sum(found.copies[each].done if each in found.copies else total for each, total in totals.items())
            progress.update(done, sum(totals.values()))
            await _print_over(client, session, left - found.partitions, totals)
            left = found.partitions
            if not left:
                return
            await trio.sleep(_PAUSE_SECONDS)
            found = await find_copying(client, left)


async def _print_over(
    client: Client, session: Session, partitions: set[TopicPartition], totals: Mapping[Replica, int]
) -> None:
    if not partitions:
        return
    for partition, found in (await find_partitions(client, _chosen(partitions))).items():
        copied = sum(total for replica, total in totals.items() if replica[:2] == partition)
        replicas = None if isinstance(found, KafkaError) else list(found.replica_nodes)
        session.out.row(**place(partition), replicas=replicas, bytes_copied=copied)


async def _end_throttle(client: Client, session: Session) -> None:
    """End the throttle, unless replicas are still copied under it."""
    changes = await find_throttles(client)
    if changes and (await find_copying(client)).partitions:
        session.say("the throttle stays: other replicas are being copied")
    elif changes:
        await _alter(client, changes)
        session.say(f"the throttle was removed: {', '.join(map(_name, changes))}")


def _name(resource: Resource) -> str:
    return f"{resource.type.name.lower()} {resource.name}"


@reassign.command()
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:P]]...", type=TOPIC_NAME)
@_KEEP_THROTTLE
@DRY_RUN
@YES
@asks_cluster
def cancel(session: Session, partitions: Sequence[str], keep_throttle: bool, is_dry_run: bool, yes: bool) -> None:
    """Cancel reassignments under way.

    It cancels all reassignments, or those of TOPIC; their replicas are then as before. Moves between log directories
    continue.
    """
    session.run(_cancel, read_partitions(partitions), keep_throttle, is_dry_run, yes)


async def _cancel(
    client: Client, session: Session, wanted: Sequence[Chosen], keep_throttle: bool, is_dry_run: bool, yes: bool
) -> None:
    found = await _under_way(client, wanted)
    results: Mapping[TopicPartition, KafkaError | None] = {}
    if not found:
        session.say("no reassignment is under way")
    elif not session.dry_run(is_dry_run):
        noun = "a reassignment" if len(found) == 1 else f"{len(found)} reassignments"
        session.confirm(f"Cancel {noun}, and delete the copied records?", yes=yes)
        results = await alter_reassignments(client, dict.fromkeys(sorted(found)))
    session.out.begin("topic", "partition", "replicas", "cancelled", *ERROR)
    for partition in sorted(found):
        each = found[partition]
        before = [broker for broker in each.replicas if broker not in each.adding]
        cancelled = partition in results and results[partition] is None
        session.out.item(results.get(partition), **place(partition), replicas=before, cancelled=cancelled)
    if results and not keep_throttle:
        await _end_throttle(client, session)
