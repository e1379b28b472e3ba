"""The join of a member: for the first time, again, or as a static member after a restart.

Owns which members may join and their ids: ids given out first (KIP-394), static members (KIP-345), the largest size of
a group. Must not know how the rebalance goes on: `rebalance` decides. Counterpart in Kafka: the joins of the classic
GroupCoordinator.

Deviations: an instance id together with an id of `pending_members` gets UNKNOWN_MEMBER_ID (in Kafka an exception). If
the return of a static member cannot be committed, the member has its old id and its old protocols again.
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.coordinator.effects import Caller, Decision, Send
from ottla.coordinator.group import Group, Member, Protocols, State, member_timer, restart_session
from ottla.coordinator.rebalance import (
    STORE_ERRORS,
    answer_parked,
    join_error,
    joined,
    maybe_complete_join,
    maybe_prepare_rebalance,
    prepare_rebalance,
)
from ottla.coordinator.records import group_key
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest

logger = logging.getLogger("kafka.coordinator.group.GroupCoordinator")

# The session timeout of a new member while its first join is parked, because it sends no heartbeats then.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
# From this version on a new member is given its id before it becomes a member (KIP-394).
_MEMBER_ID_REQUIRED_FROM: Final = 4
# From this version on a response can tell the leader to skip the assignment (KIP-814).
_SKIP_ASSIGNMENT_FROM: Final = 9


class Joining:
    """A join being decided."""

    __slots__ = ("caller", "protocols", "reason", "rebalance_timeout_ms", "request", "send")

    def __init__(self, caller: Caller, request: JoinGroupRequest, send: Send) -> None:
        self.caller = caller
        self.request = request
        self.send = send
        # Of a protocol that is named twice the first metadata counts.
        protocols: dict[str, bytes] = {}
        for each in request.protocols:
            protocols.setdefault(each.name, each.metadata)
        self.protocols: Protocols = protocols
        # The first version of the request has one timeout for both.
        first_version = caller.api_version == 0
        self.rebalance_timeout_ms = request.session_timeout_ms if first_version else request.rebalance_timeout_ms
        self.reason = f"client reason: {request.reason or 'not provided'}"


def join(decision: Decision, group: Group, joining: Joining, new_member_id: Callable[[str], str]) -> None:
    """Decide a join."""
    member_id = joining.request.member_id
    if not group.has_room_for(member_id):
        group.remove(member_id)
        decision.cancel_timer(member_timer(group, member_id))
        decision.reply(joining.send, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif not group.supports(joining.request.protocol_type, joining.protocols):
        decision.reply(joining.send, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif not member_id:
        _join_as_new(decision, group, joining, new_member_id)
    elif member_id in group.pending_members and joining.request.group_instance_id is None:
        _add_member(decision, group, joining, member_id)
    else:
        _join_again(decision, group, joining)
    maybe_complete_join(decision, group)


def _join_as_new(decision: Decision, group: Group, joining: Joining, new_member_id: Callable[[str], str]) -> None:
    instance_id = joining.request.group_instance_id
    member_id = new_member_id(joining.caller.client_id if instance_id is None else instance_id)
    if instance_id is not None and instance_id in group.static_members:
        _return_static_member(decision, group, joining, group.members[group.static_members[instance_id]], member_id)
    elif instance_id is None and joining.caller.api_version >= _MEMBER_ID_REQUIRED_FROM:
        group.pending_members.add(member_id)
        decision.set_timer(member_timer(group, member_id), joining.request.session_timeout_ms)
        decision.reply(joining.send, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    else:
        _add_member(decision, group, joining, member_id)


def _add_member(decision: Decision, group: Group, joining: Joining, member_id: str) -> None:
    request = joining.request
    member = Member(
        member_id,
        request.group_instance_id,
        joining.caller.client_id,
        joining.caller.client_host,
        joining.rebalance_timeout_ms,
        request.session_timeout_ms,
        joining.protocols,
    )
    member.is_new = True
    if group.state is State.PREPARING_REBALANCE and group.generation_id == 0:
        group.new_member_added = True
    group.add(member, request.protocol_type)
    group.park_join(member, joining.send)
    decision.set_timer(member_timer(group, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    instance = "" if member.instance_id is None else f" with group instance id {member.instance_id}"
    maybe_prepare_rebalance(decision, group, f"Adding new member {member_id}{instance}; {joining.reason}")


def _join_again(decision: Decision, group: Group, joining: Joining) -> None:
    member_id = joining.request.member_id
    error = group.check_member(member_id, joining.request.group_instance_id)
    if error:
        decision.reply(joining.send, join_error(error, member_id))
        return
    member = group.members[member_id]
    changed = not member.has_protocols(joining.protocols)
    leads = group.leader_id == member_id
    if group.state is State.PREPARING_REBALANCE or changed or (leads and group.state is State.STABLE):
        # A leader joins again because of a change that only it knows, such as new partitions of a topic.
        _change_member(decision, group, joining, member)
        why = "Updating metadata for" if changed else "Leader re-joining:" if leads else "Re-joining:"
        maybe_prepare_rebalance(decision, group, f"{why} member {member_id} in {group.state.value}; {joining.reason}")
    else:
        # The response to its last join may have been lost.
        decision.reply(joining.send, joined(group, member))


def _change_member(decision: Decision, group: Group, joining: Joining, member: Member) -> None:
    group.change_member(member, joining.protocols, joining.rebalance_timeout_ms, joining.request.session_timeout_ms)
    replaced = group.park_join(member, joining.send)
    if replaced is not None:
        decision.reply(replaced, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))


def _return_static_member(
    decision: Decision, group: Group, joining: Joining, member: Member, new_member_id: str
) -> None:
    """Give a restarted static member its old place, without a rebalance if the group is stable."""
    old_member_id, old_leader_id = member.member_id, group.leader_id
    if member.stored is None or member.stored.generation_id != group.generation_id:
        member.stored = group.identity_of(member)
    decision.cancel_timer(member_timer(group, old_member_id))
    answer_parked(decision, group, member, ErrorCode.FENCED_INSTANCE_ID, old_member_id)
    group.rename_static_member(member, new_member_id)
    _change_member(decision, group, joining, member)
    restart_session(decision, group, member)
    reason = f"static member {new_member_id} with instance id {member.instance_id} came back; {joining.reason}"
    if group.state is State.COMPLETING_REBALANCE:
        # The leader may have assigned to the old id.
        prepare_rebalance(decision, group, reason)
        return
    if group.state is State.PREPARING_REBALANCE:
        return
    if group.select_protocol() != group.protocol_name:
        prepare_rebalance(decision, group, f"The protocol changes because {reason}")
        return
    identity = group.identity_of(member)

    def stored(decision: Decision, error: ErrorCode) -> None:
        # Otherwise a rebalance has begun, which answers the join, or the member has left.
        if group.state is not State.STABLE or group.generation_id != identity.generation_id:
            return
        if not error:
            member.stored = identity
        if member.awaiting_join is not joining.send:
            # The member has come back once more.
            return
        group.take_join(member)
        if error:
            logger.warning("Failed to persist metadata for group %s: %s", group.group_id, error.name)
            decision.cancel_timer(member_timer(group, new_member_id))
            group.restore_member(member)
        response = joined(group, member)
        if error:
            response.error_code, response.member_id, response.members = STORE_ERRORS.get(error, error), "", []
        elif joining.caller.api_version >= _SKIP_ASSIGNMENT_FROM:
            response.skip_assignment = group.leader_id == new_member_id
        else:
            # With its old id as the leader's, the member takes itself for a follower and assigns nothing.
            response.leader, response.members = old_leader_id or "", []
        group.update_subscriptions()
        decision.reply(joining.send, response)
        restart_session(decision, group, member)

    assignment = {each.member_id: each.assignment for each in group.members.values()}
    decision.append([(group_key(group.group_id), group.record(assignment))], stored)
