"""Reassignments of partitions to other replicas.

Owns the phases of a reassignment: written (the topic's znode has the adding and removing replicas), under way (the
adding ones follow the leader), complete (all target replicas are in sync; the removing ones are stopped and deleted).
Must not know who starts one. Counterpart in Kafka: KafkaController.onPartitionReassignment.

Each step can be repeated safely: the next controller finds the progress in the znodes.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby

import trio

from ottla.broker.controller import reassignment_rules, topic_deletion
from ottla.broker.controller.actions import Steps
from ottla.broker.controller.client_requests import PendingRequest
from ottla.broker.controller.context import ControllerContext, Replica, ReplicaPhase
from ottla.broker.controller.leader_choice import for_reassignment
from ottla.broker.controller.request_batch import RequestBatch
from ottla.broker.controller.state_machines import (
    StateWrite,
    deletion_started,
    replicas_new,
    replicas_offline,
    replicas_online,
)
from ottla.broker.loop.deferred import Deferred
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from ottla.zk.store import BadVersionError, StoreError, StoreFailedError
from ottla.zk.znodes import PartitionState, ReplicaAssignment

logger = logging.getLogger("kafka.controller.KafkaController")

# The target replicas of each partition; None stands for those before the reassignment.
Wanted = Mapping[TopicPartition, Sequence[int] | None]
Outcomes = dict[TopicPartition, KafkaError | None]
Assignments = Mapping[TopicPartition, ReplicaAssignment]
ReassignReply = Deferred[Mapping[TopicPartition, KafkaError | None] | KafkaError]


def not_controller() -> KafkaError:
    """Return the error of a broker that is not the controller."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")


class Reassign(PendingRequest[Mapping[TopicPartition, KafkaError | None] | KafkaError]):
    """A client's AlterPartitionReassignments."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__()
        self.wanted = wanted
        # None: this broker is not the controller.
        self.outcomes: Outcomes | None = None

    def end(self, failure: KafkaError) -> None:
        """Complete the reply."""
        if self.outcomes is None:
            self.reply.complete(not_controller())
        else:
            self.reply.complete({each: self.outcomes.get(each, failure) for each in self.wanted})


async def begin(steps: Steps, wanted: Wanted, outcomes: Outcomes, *, by_znode: bool = False) -> None:
    """Start reassignments; put the error of each, or None, into `outcomes`.

    Those of old tools, `by_znode`, may wait for brokers. A client's replace those of old tools.
    """
    planned = {}
    for partition, replicas in wanted.items():
        try:
            planned[partition] = reassignment_rules.plan(steps.context, partition, replicas, may_wait=by_znode)
        except KafkaError as error:
            outcomes[partition] = error
    try:
        if not by_znode:
            await _remove_wanted(steps, lambda partition, _: partition in planned)
        await go_on(steps, planned)
    except StoreFailedError:
        raise
    except StoreError as error:
        logger.exception("The reassignment of %d partitions failed", len(planned))
        outcomes |= dict.fromkeys(planned, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
    else:
        outcomes |= dict.fromkeys(planned)


async def begin_written(steps: Steps) -> Collection[TopicPartition]:
    """Start the reassignments that old tools wrote, unless they are under way; return their partitions."""
    wanted = {
        partition: replicas
        for partition, replicas in (await steps.store.wanted_reassignments()).items()
        if partition not in steps.context.reassigning or steps.context.assignment(partition).target != replicas
    }
    outcomes: Outcomes = {}
    await begin(steps, wanted, outcomes, by_znode=True)
    failed = {partition: error for partition, error in outcomes.items() if error is not None}
    if failed:
        logger.warning("Not reassigned, though a znode asks for it: %s", failed)
        await _remove_wanted(steps, lambda partition, _: partition in failed)
    return outcomes.keys() - failed.keys()


async def go_on(steps: Steps, assignments: Assignments) -> None:
    """Continue the reassignments to these assignments as far as possible now.

    Afterwards the caller may resume deletions of topics, which wait for reassignments.
    """
    if not assignments:
        return
    context = steps.context
    batch = steps.batch()
    await _write_changed(steps, batch, assignments)
    states = await steps.store.partition_states(assignments)
    complete: dict[TopicPartition, ReplicaAssignment] = {}
    under_way: dict[TopicPartition, ReplicaAssignment] = {}
    for partition, assignment in assignments.items():
        is_complete = reassignment_rules.is_complete(context, partition, assignment, states.get(partition))
        (complete if is_complete else under_way)[partition] = assignment
    # There may be thousands of partitions, so other tasks run in between.
    await trio.lowlevel.checkpoint()
    await _start_replicas(steps, batch, under_way)
    final = await _finish(steps, batch, complete)
    await trio.lowlevel.checkpoint()
    steps.send(batch)
    if final:
        # Written after the requests are queued: if this controller fails before, the next one sends them again.
        await _write(steps, final)
        await _remove_wanted(steps, lambda each, replicas: each in final and final[each].replicas == replicas)


async def go_on_where_in_sync(steps: Steps, partitions: Iterable[TopicPartition]) -> bool:
    """Finish the reassignments of these partitions whose target replicas are in sync; return whether there were any."""
    context = steps.context
    moving = {each: context.assignment(each) for each in partitions if each in context.reassigning}
    in_sync = {
        each: found
        for each, found in moving.items()
        if reassignment_rules.is_complete(context, each, found, context.leadership.get(each))
    }
    await go_on(steps, in_sync)
    return bool(in_sync)


async def _write_changed(steps: Steps, batch: RequestBatch, assignments: Assignments) -> None:
    """Write assignments; stop replicas that an earlier reassignment added and these do not have."""
    context = steps.context
    changed = {each: found for each, found in assignments.items() if found != context.assignment(each)}
    for partition, assignment in changed.items():
        logger.info("Reassigning partition %s from %s to %s", partition, context.assignment(partition), assignment)
    await _write(steps, changed)
    unneeded = []
    for partition, assignment in changed.items():
        before = context.assignment(partition).replicas
        context.set_assignment(partition, assignment)
        unneeded += [Replica(partition, each) for each in before if each not in assignment.replicas]
    await _stop(steps, batch, unneeded)


async def _start_replicas(steps: Steps, batch: RequestBatch, assignments: Assignments) -> None:
    """Start adding replicas as followers, and send the leader the new assignment."""
    context = steps.context
    for partition in await _renew_epochs(steps, list(assignments)):
        batch.add_leader_and_isr(context, assignments[partition].origin, partition, is_new=False)
        # As new replicas they may be created though a log directory of their broker is offline.
        batch.add_leader_and_isr(context, assignments[partition].adding, partition, is_new=True)
    joining = [Replica(partition, each) for partition, found in assignments.items() for each in found.adding]
    none = ReplicaPhase.NON_EXISTENT
    replicas_new(context, batch, [each for each in joining if context.replica_phases.get(each, none) is none])


async def _finish(steps: Steps, batch: RequestBatch, assignments: Assignments) -> Assignments:
    """Give partitions their target replicas, one of which leads; return the assignments to be written."""
    context = steps.context
    joined = [Replica(partition, each) for partition, found in assignments.items() for each in found.adding]
    replicas_online(context, batch, joined)
    final = {partition: ReplicaAssignment(found.target) for partition, found in assignments.items()}
    for partition, assignment in final.items():
        context.set_assignment(partition, assignment)
    await _settle_leaders(steps, batch, final)
    removed = [Replica(partition, each) for partition, found in assignments.items() for each in found.removing]
    await _stop(steps, batch, removed)
    if final:
        batch.add_update_metadata(context.brokers, final)
    topic_deletion.resume_topics(context, {each.topic for each in final})
    for partition, assignment in final.items():
        logger.info("Partition %s is reassigned, its replicas are %s", partition, list(assignment.replicas))
    return final


async def _remove_wanted(steps: Steps, is_settled: Callable[[TopicPartition, Sequence[int]], bool]) -> None:
    """Remove settled reassignments from the znode of old tools."""
    wanted = await steps.store.wanted_reassignments()
    left = {partition: replicas for partition, replicas in wanted.items() if not is_settled(partition, replicas)}
    if len(left) < len(wanted):
        await steps.store.set_wanted_reassignments(left)


async def _settle_leaders(steps: Steps, batch: RequestBatch, final: Assignments) -> None:
    """Elect leaders among the target replicas, and send these their final assignment."""
    context = steps.context
    staying, leaderless = [], []
    for partition, assignment in final.items():
        state = context.leadership.get(partition)
        if state is None:
            continue
        if state.leader in assignment.replicas and context.is_online(state.leader, partition):
            staying.append(partition)
        else:
            leaderless.append(partition)
    for partition in await _renew_epochs(steps, staying):
        batch.add_leader_and_isr(context, final[partition].replicas, partition, is_new=False)
    await steps.elect(batch, leaderless, for_reassignment)


async def _stop(steps: Steps, batch: RequestBatch, replicas: Collection[Replica]) -> None:
    """Remove replicas from the ISR, and send live brokers requests to delete them."""
    context = steps.context
    await steps.shrink_isr(batch, replicas_offline(context, batch, replicas))
    deletion_started(context, batch, replicas)
    # As in Kafka, the responses are ignored.
    for replica in replicas:
        context.replica_phases.pop(replica, None)


async def _renew_epochs(steps: Steps, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Write the next leader epoch of partitions; return those that have it."""
    context = steps.context
    renewed = []
    while partitions:
        found = await steps.store.partition_states(partitions)
        written, conflicts = await steps.store.write_states(_renewals(context, partitions, found))
        for write in written:
            context.leadership[write.partition] = write.state
            renewed.append(write.partition)
        # A leader changed its ISR meanwhile: try again.
        partitions = [write.partition for write in conflicts]
    return renewed


def _renewals(
    context: ControllerContext, partitions: Iterable[TopicPartition], found: Mapping[TopicPartition, PartitionState]
) -> list[StateWrite]:
    writes = []
    for partition in partitions:
        state = found.get(partition)
        if state is None or state.controller_epoch > context.epoch:
            logger.error(
                "[Controller epoch=%d] %s is left as it is: its state is missing, or from a later controller",
                context.epoch,
                partition,
            )
        else:
            writes.append(StateWrite(partition, reassignment_rules.with_next_epoch(context, state), False, ()))
    return writes


async def _write(steps: Steps, assignments: Assignments) -> None:
    """Write assignments of partitions into the znodes of their topics, and keep other changes of these."""
    for topic, partitions in groupby(sorted(assignments), key=lambda each: each.topic):
        changed = {each.partition: assignments[each] for each in partitions}
        while (found := (await steps.store.topics([topic])).get(topic)) is not None:
            assignment, version = found
            wanted = assignment._replace(partitions={**assignment.partitions, **changed})
            try:
                if wanted != assignment:
                    await steps.store.set_assignment(topic, wanted, version)
                break
            except BadVersionError:
                # A tool added partitions meanwhile: try again.
                continue
        else:
            logger.error("Topic %s has no znode any more; its reassignments are not written", topic)
