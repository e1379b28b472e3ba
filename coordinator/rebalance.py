"""The rules by which a group rebalances.

Owns how a generation ends and the next one begins, and the effects of a sync, a heartbeat, a leave and a timer. Must
not know offsets, or where a group is kept. Counterpart in Kafka: the classic GroupCoordinator.

Deviations: every parked request is answered. Kafka forgets a join or a sync that a later one of the same member
replaces (here: REBALANCE_IN_PROGRESS) and the sync of a removed member (here: UNKNOWN_MEMBER_ID). If a leader sends an
assignment while its first one is being appended, only the first is appended.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from ottla.coordinator.effects import COORDINATOR_ERRORS, Decision, Send
from ottla.coordinator.group import (
    Group,
    InitialDelay,
    Member,
    State,
    join_timer,
    member_timer,
    restart_session,
    sync_timer,
)
from ottla.coordinator.records import group_key
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.leave_group import MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger("kafka.coordinator.group.GroupCoordinator")

STORE_ERRORS: Final = COORDINATOR_ERRORS | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def join_error(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """The response to a join that failed."""
    return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id=member_id, members=())


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """The response to a sync that failed."""
    return SyncGroupResponse(error_code=error, assignment=b"")


def joined(group: Group, member: Member) -> JoinGroupResponse:
    """The response to a join that succeeded. Only the leader gets the members."""
    members = [
        JoinGroupResponseMember(
            member_id=each.member_id, group_instance_id=each.instance_id, metadata=group.metadata_of(each)
        )
        for each in (group.members.values() if group.leader_id == member.member_id else ())
    ]
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        # As in Kafka, null instead of an empty name.
        protocol_name=group.protocol_name or None,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members,
    )


# ------------------------------------------------------------------------------------------------------ rebalance


def maybe_prepare_rebalance(decision: Decision, group: Group, reason: str) -> None:
    """Begin a rebalance, unless one has begun."""
    if group.can_rebalance:
        prepare_rebalance(decision, group, reason)


def prepare_rebalance(decision: Decision, group: Group, reason: str) -> None:
    """Begin a rebalance: all members must join again."""
    if group.state is State.COMPLETING_REBALANCE:
        _propagate_error(decision, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    decision.cancel_timer(sync_timer(group))
    timeout_ms = group.rebalance_timeout_ms
    group.new_member_added = False
    group.initial_delay = None
    if group.state is State.EMPTY:
        delay_ms = group.config.initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay_ms, max(timeout_ms - delay_ms, 0))
        timeout_ms = delay_ms
    decision.set_timer(join_timer(group), timeout_ms)
    logger.info(
        "Preparing to rebalance group %s in state %s with old generation %d (reason: %s)",
        group.group_id, group.state.value, group.generation_id, reason,
    )  # fmt: skip
    group.transition_to(State.PREPARING_REBALANCE, decision.now_ms)
    maybe_complete_join(decision, group)


def maybe_complete_join(decision: Decision, group: Group) -> None:
    """Begin the next generation, if all have joined and the initial delay is over."""
    if group.state is State.PREPARING_REBALANCE and group.initial_delay is None and group.all_joined:
        _complete_join(decision, group)


def join_timed_out(decision: Decision, group: Group) -> None:
    """Begin the next generation with the joined members, or prolong the initial delay for new ones."""
    if group.state is not State.PREPARING_REBALANCE:
        return
    initial = group.initial_delay
    if initial is not None and group.new_member_added and initial.remaining_ms:
        group.new_member_added = False
        delay_ms = min(group.config.initial_rebalance_delay_ms, initial.remaining_ms)
        group.initial_delay = InitialDelay(delay_ms, max(initial.remaining_ms - initial.current_ms, 0))
        decision.set_timer(join_timer(group), delay_ms)
        return
    group.initial_delay = None
    _complete_join(decision, group)


def _complete_join(decision: Decision, group: Group) -> None:
    for member in [each for each in group.members.values() if each.awaiting_join is None and each.instance_id is None]:
        _remove_and_answer(decision, group, member)
        logger.info("Group %s removed member %s, which did not join", group.group_id, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # Only static members are left, and none has joined: wait until one joins or its session ends.
        decision.set_timer(join_timer(group), group.rebalance_timeout_ms)
        return
    decision.cancel_timer(join_timer(group))
    group.begin_generation(decision.now_ms)
    if group.state is State.EMPTY:
        logger.info("Group %s with generation %d is now empty", group.group_id, group.generation_id)
        decision.append([(group_key(group.group_id), group.record({}))], _log_failure(group))
        return
    logger.info(
        "Stabilized group %s generation %d with %d members", group.group_id, group.generation_id, len(group.members)
    )
    for member in group.members.values():
        send = group.take_join(member)
        if send is not None:
            decision.reply(send, joined(group, member))
        member.is_new = False
        group.pending_sync.add(member.member_id)
        restart_session(decision, group, member)
    decision.set_timer(sync_timer(group), group.rebalance_timeout_ms)


def _log_failure(group: Group) -> Callable[[Decision, ErrorCode], None]:
    """Log a failed append. After the next load the group has its old members, until their sessions end."""

    def stored(_: Decision, error: ErrorCode) -> None:
        if error:
            logger.warning("Failed to write empty metadata for group %s: %s", group.group_id, error.name)

    return stored


# ----------------------------------------------------------------------------------------------------------- sync


def sync(decision: Decision, group: Group, request: SyncGroupRequest, send: Send) -> None:
    """Take the assignment from the leader. Park the sync until the assignment is committed."""
    error = _check_sync(group, request)
    if error:
        decision.reply(send, sync_error(error))
        return
    member = group.members[request.member_id]
    group.pending_sync.discard(request.member_id)
    if not group.pending_sync:
        decision.cancel_timer(sync_timer(group))
    if group.state is State.STABLE:
        decision.reply(send, _assignment(group, member))
        restart_session(decision, group, member)
        return
    replaced, member.awaiting_sync = member.awaiting_sync, send
    if replaced is not None:
        decision.reply(replaced, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    # A repeated sync of the leader waits for its first assignment.
    if group.leader_id == request.member_id and group.assigned_generation_id != group.generation_id:
        _store_assignment(decision, group, {each.member_id: each.assignment for each in request.assignments})


def _check_sync(group: Group, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    is_type_known = request.protocol_type in (None, group.protocol_type)
    if not is_type_known or request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE


def _store_assignment(decision: Decision, group: Group, assigned: dict[str, bytes]) -> None:
    generation = group.assigned_generation_id = group.generation_id
    missing = group.members.keys() - assigned.keys()
    if missing:
        logger.warning(
            "Setting empty assignments for members %s of %s for generation %d", missing, group.group_id, generation
        )
    assignment = {member_id: assigned.get(member_id, b"") for member_id in group.members}

    def stored(decision: Decision, error: ErrorCode) -> None:
        # Otherwise another rebalance has begun.
        if group.state is not State.COMPLETING_REBALANCE or group.generation_id != generation:
            return
        if error:
            _propagate_error(decision, group, STORE_ERRORS.get(error, error))
            prepare_rebalance(decision, group, f"Error {error.name} when storing group assignment during SyncGroup")
            return
        for member in group.members.values():
            member.assignment = assignment[member.member_id]
            send, member.awaiting_sync = member.awaiting_sync, None
            if send is not None:
                decision.reply(send, _assignment(group, member))
                restart_session(decision, group, member)
        group.transition_to(State.STABLE, decision.now_ms)

    decision.append([(group_key(group.group_id), group.record(assignment))], stored)


def _assignment(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _propagate_error(decision: Decision, group: Group, error: ErrorCode) -> None:
    for member in group.members.values():
        member.assignment = b""
        send, member.awaiting_sync = member.awaiting_sync, None
        if send is not None:
            decision.reply(send, sync_error(error))
            restart_session(decision, group, member)


def sync_timed_out(decision: Decision, group: Group) -> None:
    """Remove the members that have not synced, and begin a rebalance."""
    late = sorted(group.pending_sync)
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not late:
        return
    for member_id in late:
        _remove_and_answer(decision, group, group.members[member_id])
    prepare_rebalance(decision, group, f"Removing {late} on pending sync request expiration")


# ------------------------------------------------------------------------------------- heartbeats, leaving, expiry


def heartbeat(decision: Decision, group: Group, request: HeartbeatRequest) -> ErrorCode:
    """Restart the session of a member."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    restart_session(decision, group, group.members[request.member_id])
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE


def leave(decision: Decision, group: Group | None, leaving: Iterable[MemberIdentity]) -> list[MemberResponse]:
    """Remove members; an unknown group has none. An operator names static members only by their instance ids."""
    return [
        MemberResponse(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave(decision, group, each),
        )
        for each in leaving
    ]


def _leave(decision: Decision, group: Group, leaving: MemberIdentity) -> ErrorCode:
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if not member_id:
        member_id = "" if instance_id is None else group.static_members.get(instance_id, "")
        error = ErrorCode.NONE if member_id else ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending_members:
        _remove_pending(decision, group, member_id)
        return ErrorCode.NONE
    else:
        error = group.check_member(member_id, instance_id)
    if not error:
        reason = f"Removing member {member_id} on LeaveGroup; client reason: {leaving.reason or 'not provided'}"
        _remove_member(decision, group, group.members[member_id], reason)
    return error


def _remove_pending(decision: Decision, group: Group, member_id: str) -> None:
    group.remove(member_id)
    decision.cancel_timer(member_timer(group, member_id))
    maybe_complete_join(decision, group)


def _remove_member(decision: Decision, group: Group, member: Member, reason: str) -> None:
    _remove_and_answer(decision, group, member)
    if group.state is State.PREPARING_REBALANCE:
        maybe_complete_join(decision, group)
    else:
        maybe_prepare_rebalance(decision, group, reason)


def _remove_and_answer(decision: Decision, group: Group, member: Member) -> None:
    """Remove a member and answer its parked requests with UNKNOWN_MEMBER_ID, so that it joins as a new one."""
    answer_parked(decision, group, member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    group.remove(member.member_id)
    decision.cancel_timer(member_timer(group, member.member_id))


def answer_parked(decision: Decision, group: Group, member: Member, error: ErrorCode, member_id: str) -> None:
    """Answer the parked requests of a member with an error."""
    send = group.take_join(member)
    if send is not None:
        decision.reply(send, join_error(error, member_id))
    send, member.awaiting_sync = member.awaiting_sync, None
    if send is not None:
        decision.reply(send, sync_error(error))


def member_timed_out(decision: Decision, group: Group, member_id: str) -> None:
    """Remove a member that was silent for its session timeout, or an id that has not joined."""
    if member_id in group.pending_members:
        logger.info("Pending member %s in group %s has been removed after its timeout", member_id, group.group_id)
        _remove_pending(decision, group, member_id)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    # A member with a parked request sends nothing, and stays. A new member has NEW_MEMBER_JOIN_TIMEOUT_MS to wait.
    if member.is_new or (member.awaiting_join is None and member.awaiting_sync is None):
        logger.info("Member %s in group %s has failed, removing it from the group", member_id, group.group_id)
        _remove_member(decision, group, member, f"removing member {member_id} on heartbeat expiration")


# ----------------------------------------------------------------------------------------------- loading, unloading


def start(decision: Decision, group: Group) -> None:
    """Start the sessions of the members of a loaded group."""
    if len(group.members) > group.config.max_size:
        prepare_rebalance(decision, group, f"Freshly-loaded group is over capacity ({group.config.max_size})")
    for member in group.members.values():
        restart_session(decision, group, member)


def stop(decision: Decision, group: Group) -> None:
    """Answer all parked requests, because another broker coordinates the group."""
    group.transition_to(State.DEAD, decision.now_ms)
    for member in group.members.values():
        answer_parked(decision, group, member, ErrorCode.NOT_COORDINATOR, member.member_id)
