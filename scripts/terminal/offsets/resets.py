"""The steps of each change of committed offsets: show it, ask, write an undo file, commit.

Owns the order of these steps, and the undo. Must not know how the new offsets were chosen.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from ottla.client.admin.groups.committed_offsets import Committed, Offsets, committed_offsets
from ottla.client.admin.groups.descriptions import GroupDescription, describe_groups
from ottla.client.admin.groups.offset_changes import Change, Changes, change_offsets, undo_of
from ottla.client.cluster import Client
from ottla.client.errors import ClientError
from ottla.scripts.terminal.offsets import undo_files
from ottla.scripts.terminal.output import ERROR, TABLE, Output
from ottla.scripts.terminal.partitions import place
from ottla.scripts.terminal.session import Session, describe
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_COLUMNS: Final = ("group", "topic", "partition", "current_offset", "new_offset")
_MOST_MEMBERS: Final = 5


class Plan:
    """Changes of groups, unchanged partitions, and refusals of a partition or a whole group."""

    def __init__(self) -> None:
        self.changes: dict[str, dict[TopicPartition, Change]] = {}
        self.unchanged: dict[str, dict[TopicPartition, Committed]] = {}
        self.refused: list[tuple[str, TopicPartition | None, KafkaError]] = []

    def refuse(self, group: str, partition: TopicPartition | None, error: KafkaError) -> None:
        """Note the error for which a partition, or the whole group (None), is left unchanged."""
        self.refused.append((group, partition, error))

    def set(self, group: str, partition: TopicPartition, change: Change) -> None:
        """Note a change, unless it changes nothing."""
        if change.before != change.after:
            self.changes.setdefault(group, {})[partition] = change
        elif change.before is not None:
            self.unchanged.setdefault(group, {})[partition] = change.before


class GroupState(NamedTuple):
    """A group without members, and its committed offsets."""

    group: str
    offsets: Offsets


async def resettable(client: Client, groups: Sequence[str], plan: Plan) -> list[GroupState]:
    """Return the groups without members; refuse the others in the plan, with the names of their members."""
    described = await describe_groups(client, groups)
    offsets = await committed_offsets(client, groups)
    found = []
    for group, description in described.items():
        committed = offsets[group]
        if isinstance(description, KafkaError) and description.code != ErrorCode.GROUP_ID_NOT_FOUND:
            plan.refuse(group, None, description)
        elif isinstance(committed, KafkaError):
            plan.refuse(group, None, committed)
        elif not isinstance(description, KafkaError) and description.members:
            plan.refuse(group, None, KafkaError(ErrorCode.NON_EMPTY_GROUP, _who_is_in(description)))
        else:
            found.append(GroupState(group, committed))
    return found


def _who_is_in(group: GroupDescription) -> str:
    members = [f"{each.member_id} (client {each.client_id}, host {each.host})" for each in group.members]
    shown = ", ".join(members[:_MOST_MEMBERS])
    more = f" and {len(members) - _MOST_MEMBERS} more" if len(members) > _MOST_MEMBERS else ""
    count = "1 member" if len(members) == 1 else f"{len(members)} members"
    return f"the group has {count}: {shown}{more}; stop them, then run this again"


async def carry_out(
    client: Client, session: Session, plan: Plan, question: str, *, is_dry_run: bool, yes: bool
) -> bool:
    """Show a plan, ask, change the offsets and print a row for each; return whether all changes succeeded."""
    for group, partition, error in plan.refused:
        if partition is None:
            session.say(f"group {group} is not changed: {describe(error)[1]}")
    name = None
    if not session.dry_run(is_dry_run) and plan.changes:
        _preview(plan)
        session.confirm(question, yes=yes)
        name = await _keep(client, session, plan.changes)
    session.out.begin(*_COLUMNS, "changed", "undo", *ERROR)
    works = not plan.refused
    for group, partition, error in plan.refused:
        session.out.item(error, changed=False, **_place(group, partition))
    for group, kept in plan.unchanged.items():
        for partition, committed in sorted(kept.items()):
            offsets = {"current_offset": committed.offset, "new_offset": committed.offset}
            session.out.row(changed=False, **_place(group, partition), **offsets)
    for group, changes in plan.changes.items():
        ordered = {each: changes[each] for each in sorted(changes)}
        results = {} if is_dry_run else await change_offsets(client, group, ordered)
        for partition, change in ordered.items():
            failure = results.get(partition)
            done = failure is None and not is_dry_run
            session.out.item(failure, changed=done, undo=name, **_row(group, partition, change))
            works = works and failure is None
    return works


def _place(group: str, partition: TopicPartition | None) -> dict[str, Any]:
    return {"group": group} if partition is None else {"group": group, **place(partition)}


def _row(group: str, partition: TopicPartition, change: Change) -> dict[str, Any]:
    offsets = [None if each is None else each.offset for each in change]
    return {**_place(group, partition), "current_offset": offsets[0], "new_offset": offsets[1]}


def _preview(plan: Plan) -> None:
    """Print the changes on stderr."""
    table = Output("preview", TABLE, sys.stderr)
    table.begin(*_COLUMNS)
    for group, changes in plan.changes.items():
        table.rows(_row(group, each, changes[each]) for each in sorted(changes))
    table.end()


async def _keep(client: Client, session: Session, changes: Mapping[str, Changes]) -> str:
    """Write the old offsets to an undo file, print the command that restores them, and return the file's name."""
    if client.cluster_id is None:
        await client.metadata(())
    command = " ".join(["ottla", *sys.argv[1:]])
    now = datetime.now().astimezone()
    name = undo_files.save(os.environ, command, client.cluster_id, changes, now)
    session.say(f"the old offsets are saved; to restore them: ottla groups undo {name}")
    return name


async def undo(client: Client, session: Session, name: str, *, force: bool, is_dry_run: bool, yes: bool) -> None:
    """Restore the offsets that a change overwrote, unless there is a later commit and no `force`."""
    overwritten = undo_files.load(os.environ, name)
    await client.metadata(())
    if overwritten.cluster_id != client.cluster_id:
        raise ClientError(
            f"{name} is of cluster {overwritten.cluster_id}, but this is cluster {client.cluster_id}",
            "Name the other cluster with --bootstrap-server or --profile.",
        )
    plan = Plan()
    conflicts = 0
    for group, offsets in await resettable(client, list(overwritten.groups), plan):
        way_back = undo_of(overwritten.groups[group], offsets.get)
        conflicts += len(way_back.conflicts)
        for partition, change in way_back.changes.items():
            plan.set(group, partition, change)
        for partition, change in way_back.conflicts.items():
            if force:
                plan.changes.setdefault(group, {})[partition] = change
            else:
                plan.refuse(group, partition, _conflict(change, overwritten.groups[group][partition]))
    if conflicts and not force:
        plan.changes.clear()
        session.say("nothing is changed, because there are later commits; --force restores the offsets anyway")
    question = f"Restore the offsets that `{overwritten.command}` overwrote?"
    works = await carry_out(client, session, plan, question, is_dry_run=is_dry_run, yes=yes)
    if works and not is_dry_run:
        undo_files.remove(os.environ, name)


def _conflict(change: Change, original: Change) -> KafkaError:
    now, then = (_shown(each) for each in (change.before, original.after))
    return KafkaError(ErrorCode.INVALID_REQUEST, f"{now} is committed now, but the change had committed {then}")


def _shown(committed: Committed | None) -> str:
    return "nothing" if committed is None else f"offset {committed.offset}"
