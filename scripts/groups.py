"""`ottla groups`: list, describe and delete groups, watch their lag, and reset or delete their offsets.

Counterparts in Kafka: kafka-groups.sh, kafka-consumer-groups.sh.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.client.admin.groups.committed_offsets import Offsets, committed_offsets
from ottla.client.admin.groups.descriptions import (
    CLASSIC,
    CONSUMER,
    DEAD,
    EMPTY,
    GroupDescription,
    GroupMember,
    delete_groups,
    describe_groups,
    list_groups,
)
from ottla.client.admin.groups.lag import Position, group_positions
from ottla.client.cluster import Client
from ottla.client.lag import total
from ottla.scripts.terminal.names import GROUP_NAME, TOPIC_NAME
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR, Output
from ottla.scripts.terminal.patterns import chosen, is_pattern
from ottla.scripts.terminal.session import Session
from ottla.scripts.terminal.watching import INTERVAL, WATCH, show, time_column
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.scripts.terminal.offsets.targets import Mode
    from ottla.scripts.terminal.partitions import Chosen

_GROUPS = click.argument("groups", nargs=-1, required=True, metavar="GROUP...", type=GROUP_NAME)
_PATTERNS = click.argument("patterns", nargs=-1, metavar="[PATTERN]...", type=GROUP_NAME)
_CONSUMER_TYPES: Final = (CLASSIC.lower(), CONSUMER.lower())
_PROTOCOLS: Final = ("", "consumer")


@click.group()
def groups() -> None:
    """List, describe, watch, reset and delete groups of consumers."""


@groups.command("list")
@_PATTERNS
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only groups in this state, such as Stable.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only groups of this type, such as consumer.")
@asks_cluster
def list_command(session: Session, patterns: Sequence[str], states: Sequence[str], types: Sequence[str]) -> None:
    """List groups of all types: all, or those that match a pattern such as 'orders-*'."""
    session.run(_list, patterns, states, types)


async def _list(
    client: Client, session: Session, patterns: Sequence[str], states: Sequence[str], types: Sequence[str]
) -> None:
    found = {each.group_id: each for each in await list_groups(client, states=states, types=types)}
    session.out.begin("group", "state", "type", "protocol", "coordinator")
    for name in chosen(found, patterns):
        each = found[name]
        session.out.row(
            group=name,
            state=each.state,
            type=None if each.type is None else each.type.lower(),
            protocol=each.protocol_type,
            coordinator=each.coordinator,
        )


# Describe


@groups.command()
@_GROUPS
@click.option("--members", "view", flag_value="members", help="Show the members and their partitions.")
@click.option("--state", "view", flag_value="state", help="Show the state and the coordinator.")
@WATCH
@INTERVAL
@asks_cluster
def describe(session: Session, groups: Sequence[str], view: str | None, watch: bool, interval: float) -> None:
    """Describe the offsets, the lag and the member of each partition of groups."""
    session.run(_describe, groups, view, interval if watch else None)


async def _describe(
    client: Client, session: Session, patterns: Sequence[str], view: str | None, interval: float | None
) -> None:
    names = await _matching(client, patterns)
    shown = {"members": _show_members, "state": _show_state, None: _show_offsets}[view]
    await show(session, partial(shown, client, names), interval)


async def _matching(client: Client, patterns: Sequence[str]) -> list[str]:
    """Return the given names, and the groups that match the given patterns."""
    if not any(map(is_pattern, patterns)):
        return list(dict.fromkeys(patterns))
    known = [each.group_id for each in await list_groups(client)]
    plain = [each for each in patterns if not is_pattern(each)]
    return list(dict.fromkeys([*chosen(known, patterns), *plain]))


async def _described(
    client: Client, names: Sequence[str], out: Output, moment: Mapping[str, str]
) -> dict[str, GroupDescription]:
    """Return descriptions of groups; add a row for each group that cannot be described."""
    found: dict[str, GroupDescription] = {}
    for name, group in (await describe_groups(client, names)).items():
        if isinstance(group, KafkaError):
            out.item(group, group=name, **moment)
        elif group.state == DEAD:
            out.item(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} not found."), group=name, **moment)
        else:
            found[name] = group
    return found


async def _show_offsets(client: Client, names: Sequence[str], out: Output, moment: str | None) -> None:
    row, columns = time_column(moment)
    out.begin(
        *columns,
        *("group", "topic", "partition", "committed_offset", "leader_epoch", "metadata", "log_end_offset"),
        *("lag", "lag_seconds", "member_id", "host", "client_id"),
        *ERROR,
    )
    found = await _described(client, names, out, row)
    owners = {
        name: {each: member for member in group.members for each in member.assignment} for name, group in found.items()
    }
    offsets = await _offsets(client, list(found), out, row)
    positions = await group_positions(client, offsets, owners, _now_ms())
    for name, rows in positions.items():
        for each in rows:
            out.item(each.error, **row, group=name, **_position(each), **_owner(owners[name].get(each.partition)))


async def _offsets(client: Client, names: Sequence[str], out: Output, moment: Mapping[str, str]) -> dict[str, Offsets]:
    """Return the committed offsets of groups; add a row for each group whose offsets cannot be read."""
    found: dict[str, Offsets] = {}
    for name, offsets in (await committed_offsets(client, names) if names else {}).items():
        if isinstance(offsets, KafkaError):
            out.item(offsets, group=name, **moment)
        else:
            found[name] = offsets
    return found


def _position(position: Position) -> dict[str, Any]:
    committed = position.committed
    return {
        **position.partition._asdict(),
        "committed_offset": None if committed is None else committed.offset,
        "leader_epoch": None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
        "log_end_offset": position.log_end,
        "lag": position.lag.records,
        "lag_seconds": position.lag.seconds,
    }


def _owner(member: GroupMember | None) -> dict[str, Any]:
    if member is None:
        return {}
    return {"member_id": member.member_id, "host": member.host, "client_id": member.client_id}


async def _show_members(client: Client, names: Sequence[str], out: Output, moment: str | None) -> None:
    row, columns = time_column(moment)
    out.begin(
        *columns,
        *("group", "member_id", "instance_id", "client_id", "host", "partitions", "assignment"),
        *("target_assignment", "epoch"),
        *ERROR,
    )
    for name, group in (await _described(client, names, out, row)).items():
        for each in group.members:
            out.row(
                **row,
                group=name,
                member_id=each.member_id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                host=each.host,
                partitions=len(each.assignment),
                assignment=_assigned(each.assignment),
                target_assignment=None if each.target is None else _assigned(each.target),
                epoch=each.epoch,
            )


def _assigned(partitions: Iterable[TopicPartition]) -> list[str]:
    return [f"{each.topic}:{each.partition}" for each in sorted(partitions)]


async def _show_state(client: Client, names: Sequence[str], out: Output, moment: str | None) -> None:
    row, columns = time_column(moment)
    out.begin(
        *columns,
        *("group", "state", "type", "protocol", "assignor", "members", "epoch", "assignment_epoch", "coordinator"),
        "address",
        *ERROR,
    )
    for name, group in (await _described(client, names, out, row)).items():
        out.row(
            **row,
            group=name,
            state=group.state,
            type=group.type.lower(),
            protocol=group.protocol_type,
            assignor=group.assignor,
            members=len(group.members),
            epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            coordinator=group.coordinator.id,
            address=str(group.coordinator),
        )


# Lag


@groups.command()
@_PATTERNS
@WATCH
@INTERVAL
@asks_cluster
def lag(session: Session, patterns: Sequence[str], watch: bool, interval: float) -> None:
    """Show the lag of groups: all unread records, and the age of the oldest one."""
    session.run(_lag, patterns, interval if watch else None)


async def _lag(client: Client, session: Session, patterns: Sequence[str], interval: float | None) -> None:
    await show(session, partial(_show_lag, client, patterns), interval)


async def _show_lag(client: Client, patterns: Sequence[str], out: Output, moment: str | None) -> None:
    row, columns = time_column(moment)
    listed = {each.group_id: each for each in await list_groups(client) if _has_offsets(each.protocol_type, each.type)}
    names = chosen(listed, patterns)
    out.begin(*columns, "group", "state", "partitions", "lag", "lag_seconds", *ERROR)
    plain = [each for each in patterns if not is_pattern(each) and each not in listed]
    for name, error in (await _missing(client, plain)).items():
        out.item(error, **row, group=name)
    offsets = await _offsets(client, names, out, row)
    for name, positions in (await group_positions(client, offsets, {}, _now_ms())).items():
        behind = total(each.lag for each in positions)
        out.row(
            **row,
            group=name,
            state=listed[name].state,
            partitions=len(positions),
            lag=behind.records,
            lag_seconds=behind.seconds,
        )


def _has_offsets(protocol: str, kind: str | None) -> bool:
    return protocol in _PROTOCOLS and (kind or CLASSIC).lower() in _CONSUMER_TYPES


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# Delete


@groups.command()
@_GROUPS
@DRY_RUN
@YES
@asks_cluster
def delete(session: Session, groups: Sequence[str], is_dry_run: bool, yes: bool) -> None:
    """Delete groups without members, with their offsets."""
    session.run(_delete, groups, is_dry_run, yes)


async def _delete(client: Client, session: Session, patterns: Sequence[str], is_dry_run: bool, yes: bool) -> None:
    names = await _matching(client, patterns)
    if names and not session.dry_run(is_dry_run):
        session.confirm(f"Delete {', '.join(names)} with all offsets?", yes=yes)
    results = await _deletable(client, names) if is_dry_run else await delete_groups(client, names) if names else {}
    session.out.begin("group", "deleted", *ERROR)
    for name, error in results.items():
        session.out.item(error, group=name, deleted=error is None and not is_dry_run)


async def _deletable(client: Client, names: Sequence[str]) -> dict[str, KafkaError | None]:
    """Return an error for each group that cannot be deleted, and None for each other one."""
    states = {each.group_id: each.state for each in await list_groups(client)}
    results: dict[str, KafkaError | None] = {}
    for name in names:
        has_members = states.get(name) not in (None, EMPTY, DEAD)
        results[name] = KafkaError(ErrorCode.NON_EMPTY_GROUP, "it has members") if has_members else None
    return results | await _missing(client, [each for each in names if each not in states])


async def _missing(client: Client, names: Sequence[str]) -> dict[str, KafkaError]:
    """Return errors for groups that are not listed: not found, not a group of consumers, or not authorized."""
    results: dict[str, KafkaError] = {}
    for name, group in (await describe_groups(client, names) if names else {}).items():
        if isinstance(group, KafkaError):
            results[name] = group
        elif group.state == DEAD:
            results[name] = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} not found.")
        else:
            results[name] = KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "it is not a group of consumers")
    return results


@groups.command("delete-offsets")
@click.argument("group", metavar="GROUP", type=GROUP_NAME)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:0,3-5]",
    type=TOPIC_NAME,
    help="A topic, or some of its partitions. May be given several times.",
)
@DRY_RUN
@YES
@asks_cluster
def delete_offsets_command(session: Session, group: str, topics: Sequence[str], is_dry_run: bool, yes: bool) -> None:
    """Delete offsets of topics without a subscribed member. `ottla groups undo` restores them."""
    from ottla.scripts.terminal.partitions import read_partitions

    session.run(_delete_offsets, group, read_partitions(topics), is_dry_run, yes)


async def _delete_offsets(
    client: Client, session: Session, group: str, wanted: "Sequence[Chosen]", is_dry_run: bool, yes: bool
) -> None:
    from ottla.scripts.terminal.offsets.plans import deletion_plan
    from ottla.scripts.terminal.offsets.resets import carry_out

    plan = await deletion_plan(client, group, wanted)
    await carry_out(client, session, plan, f"Delete these offsets of {group}?", is_dry_run=is_dry_run, yes=yes)


# Reset


@groups.command()
@_GROUPS
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,3-5]",
    type=TOPIC_NAME,
    help="A topic, or some of its partitions. May be given several times. The default is all partitions of the group.",
)
@click.option("--to-earliest", is_flag=True, help="Reset to the starts of the logs.")
@click.option("--to-latest", is_flag=True, help="Reset to the ends of the logs.")
@click.option("--to-current", is_flag=True, help="Keep committed offsets; without one, reset to the end of the log.")
@click.option("--to-offset", type=int, metavar="OFFSET", help="Reset to this offset.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="Reset to the first record at or after this time, such as 2026-11-20T08:00:00Z.",
)
@click.option("--by-duration", metavar="DURATION", help="Reset to the first record of the last 1h30m, or PT1H30M.")
@click.option("--shift-by", type=int, metavar="COUNT", help="Shift by so many offsets, backwards if negative.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Reset to the offsets in a file of lines [group,]topic,partition,offset.",
)
@click.option(
    "--as", "as_group", type=GROUP_NAME, metavar="GROUP", help="Reset to the committed offsets of this group."
)
@click.option(
    "--to-record",
    metavar="key=PATTERN",
    help="Reset to the next record with a matching key, value=PATTERN or header=NAME:PATTERN. /.../ is a regular "
    "expression.",
)
@click.option(
    "--most-records",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    metavar="COUNT",
    help="With --to-record, the most records to read of a partition.",
)
@DRY_RUN
@YES
@asks_cluster
def reset(
    session: Session,
    groups: Sequence[str],
    topics: Sequence[str],
    most_records: int,
    to_record: str | None,
    is_dry_run: bool,
    yes: bool,
    **modes: Any,
) -> None:
    """Reset the offsets of groups without members. `ottla groups undo` restores the old ones."""
    from ottla.scripts.terminal.offsets.targets import mode_of
    from ottla.scripts.terminal.partitions import read_partitions

    mode = mode_of({**modes, "to_record": None if to_record is None else (to_record, most_records)})
    session.run(_reset, groups, read_partitions(topics), mode, is_dry_run, yes)


async def _reset(
    client: Client,
    session: Session,
    names: Sequence[str],
    wanted: "Sequence[Chosen]",
    mode: "Mode",
    is_dry_run: bool,
    yes: bool,
) -> None:
    from ottla.scripts.terminal.offsets.plans import reset_plan
    from ottla.scripts.terminal.offsets.resets import carry_out

    plan = await reset_plan(client, names, wanted, mode)
    question = f"Reset {', '.join(plan.changes)}?"
    await carry_out(client, session, plan, question, is_dry_run=is_dry_run, yes=yes)


# Undo


@groups.command()
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--force", is_flag=True, help="Restore the offsets also of partitions with a later commit.")
@DRY_RUN
@YES
@asks_cluster
def undo(session: Session, name: str | None, force: bool, is_dry_run: bool, yes: bool) -> None:
    """Restore the offsets that a reset overwrote; without NAME, list the resets."""
    if name is None:
        session.run_local(_list_undos)
    session.run(_undo, name, force, is_dry_run, yes)


def _list_undos(session: Session) -> None:
    from ottla.scripts.terminal.offsets.undo_files import load_all

    session.out.begin("undo", "time", "groups", "partitions", "command", "cluster_id")
    for each in load_all(os.environ):
        session.out.row(
            undo=each.name,
            time=each.time,
            groups=list(each.groups),
            partitions=sum(map(len, each.groups.values())),
            command=each.command,
            cluster_id=each.cluster_id,
        )


async def _undo(client: Client, session: Session, name: str, force: bool, is_dry_run: bool, yes: bool) -> None:
    from ottla.scripts.terminal.offsets import resets as offset_resets

    await offset_resets.undo(client, session, name, force=force, is_dry_run=is_dry_run, yes=yes)
