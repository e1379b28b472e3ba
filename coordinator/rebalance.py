"""Members come, stay and go: the rules by which a group rebalances.

Owns how a generation comes to an end and the next one begins, and what a sync, a heartbeat, a leave and the end of a
timer do to a group. It must not know offsets, nor where a group is kept. Counterpart in Kafka: the classic
GroupCoordinator.

Deviations: every parked request is answered. Kafka forgets a join or a sync that another one of the same member
replaces (here: REBALANCE_IN_PROGRESS) and the sync of a member that is dropped (here: UNKNOWN_MEMBER_ID). A leader that
brings an assignment while its first one is being written does not have both written.
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
    """A join that failed."""
    return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id=member_id, members=())


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A sync that failed."""
    return SyncGroupResponse(error_code=error, assignment=b"")


def joined(
    group: Group, member: Member, *, tell_members: bool = False, leader_id: str | None = None
) -> JoinGroupResponse:
    """A join that succeeded; only the leader is told the members."""
    members = [
        JoinGroupResponseMember(
            member_id=each.member_id, group_instance_id=each.instance_id, metadata=group.said_by(each)
        )
        for each in (group.members.values() if tell_members else ())
    ]
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        # Kafka sends no name rather than an empty one.
        protocol_name=group.protocol_name or None,
        leader=leader_id or group.leader_id or "",
        member_id=member.member_id,
        members=members,
    )


# ------------------------------------------------------------------------------------------------------ rebalance


def maybe_prepare_rebalance(decision: Decision, group: Group, reason: str) -> None:
    """Begin a rebalance, if none has begun."""
    if group.can_rebalance:
        prepare_rebalance(decision, group, reason)


def prepare_rebalance(decision: Decision, group: Group, reason: str) -> None:
    """Begin a rebalance: whoever wants to stay must join again."""
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
    """Go on to the next generation, if everybody has joined and a group's first rebalance need not wait for others."""
    if group.state is State.PREPARING_REBALANCE and group.initial_delay is None and group.all_joined:
        _complete_join(decision, group)


def join_timed_out(decision: Decision, group: Group) -> None:
    """Go on with those who have joined, unless a group's first rebalance has reason to wait for more."""
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
        _drop(decision, group, member)
        logger.info("Group %s removed member %s, which did not join", group.group_id, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # Static members alone, and none has joined: their sessions decide.
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
            tell_members = group.leader_id == member.member_id
            decision.reply(send, joined(group, member, tell_members=tell_members))
        member.is_new = False
        group.pending_sync.add(member.member_id)
        restart_session(decision, group, member)
    decision.set_timer(sync_timer(group), group.rebalance_timeout_ms)


def _log_failure(group: Group) -> Callable[[Decision, ErrorCode], None]:
    """Should this broker fail now, the group would come back with members that are gone, and lose them in time."""

    def stored(_: Decision, error: ErrorCode) -> None:
        if error:
            logger.warning("Failed to write empty metadata for group %s: %s", group.group_id, error.name)

    return stored


# ----------------------------------------------------------------------------------------------------------- sync


def sync(decision: Decision, group: Group, request: SyncGroupRequest, send: Send) -> None:
    """Hand in the assignment, or wait for it."""
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
    # A leader that asks once more waits for what it has brought already.
    if group.leader_id == request.member_id and group.assigned_generation_id != group.generation_id:
        _store_assignment(decision, group, {each.member_id: each.assignment for each in request.assignments})


def _check_sync(group: Group, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
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
        # Otherwise another rebalance has begun meanwhile.
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
    """Drop the members that have not synced."""
    late = sorted(group.pending_sync)
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not late:
        return
    for member_id in late:
        _drop(decision, group, group.members[member_id])
    prepare_rebalance(decision, group, f"Removing {late} on pending sync request expiration")


# ------------------------------------------------------------------------------------- heartbeats, leaving, expiry


def heartbeat(decision: Decision, group: Group, request: HeartbeatRequest) -> ErrorCode:
    """A member is alive."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    restart_session(decision, group, group.members[request.member_id])
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE


def leave(decision: Decision, group: Group, leaving: Iterable[MemberIdentity]) -> list[MemberResponse]:
    """Let members go. An operator names static ones by their instance ids alone."""
    return [
        MemberResponse(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=_leave(decision, group, each),
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
    _drop(decision, group, member)
    if group.state is State.PREPARING_REBALANCE:
        maybe_complete_join(decision, group)
    else:
        maybe_prepare_rebalance(decision, group, reason)


def _drop(decision: Decision, group: Group, member: Member) -> None:
    """A member is none any more. Should its connection still be there, it learns that it must begin anew."""
    answer_parked(decision, group, member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    group.remove(member.member_id)
    decision.cancel_timer(member_timer(group, member.member_id))


def answer_parked(decision: Decision, group: Group, member: Member, error: ErrorCode, member_id: str) -> None:
    """Answer the requests that a member has parked with an error."""
    send = group.take_join(member)
    if send is not None:
        decision.reply(send, join_error(error, member_id))
    send, member.awaiting_sync = member.awaiting_sync, None
    if send is not None:
        decision.reply(send, sync_error(error))


def member_timed_out(decision: Decision, group: Group, member_id: str) -> None:
    """Nothing was heard of a member for its session timeout, or nobody has joined with the id that was given out."""
    if member_id in group.pending_members:
        logger.info("Pending member %s in group %s has been removed after its timeout", member_id, group.group_id)
        _remove_pending(decision, group, member_id)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    # Who waits for an answer is not expected to be heard of, but a new member does not wait for ever.
    if member.is_new or (member.awaiting_join is None and member.awaiting_sync is None):
        logger.info("Member %s in group %s has failed, removing it from the group", member_id, group.group_id)
        _remove_member(decision, group, member, f"removing member {member_id} on heartbeat expiration")


# ----------------------------------------------------------------------------------------------- loading, unloading


def start(decision: Decision, group: Group) -> None:
    """The group has been loaded: watch its members."""
    if len(group.members) > group.config.max_size:
        prepare_rebalance(decision, group, f"Freshly-loaded group is over capacity ({group.config.max_size})")
    for member in group.members.values():
        restart_session(decision, group, member)


def stop(decision: Decision, group: Group) -> None:
    """The group is coordinated elsewhere from now on."""
    group.transition_to(State.DEAD, decision.now_ms)
    for member in group.members.values():
        answer_parked(decision, group, member, ErrorCode.NOT_COORDINATOR, member.member_id)
