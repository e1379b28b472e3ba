"""How partitions come to other replicas.

Owns the phases of a reassignment: taken (the topic's znode says who joins and who leaves), under way (those who join
follow the leader), complete (all are in sync that are to stay; the others are stopped and deleted). Must not know what
sets one off. Counterpart in Kafka: KafkaController.onPartitionReassignment.

Each step is safe to take again: whoever is the controller next finds in the znodes how far it went.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby

import trio

from ottla.broker.controller import reassignment_rules, topic_deletion
from ottla.broker.controller.actions import Steps
from ottla.broker.controller.client_requests import Asked
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

# The replicas that each partition is to have; None: those that it had before they began to change.
Wanted = Mapping[TopicPartition, Sequence[int] | None]
Outcomes = dict[TopicPartition, KafkaError | None]
Assignments = Mapping[TopicPartition, ReplicaAssignment]
ReassignReply = Deferred[Mapping[TopicPartition, KafkaError | None] | KafkaError]


def not_controller() -> KafkaError:
    """Return the error of a broker that is not the controller."""
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")


class Reassign(Asked[Mapping[TopicPartition, KafkaError | None] | KafkaError]):
    """Somebody wants partitions to have other replicas."""

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
    """Begin those reassignments that may be; what keeps others from it goes into `outcomes`.

    Those that old tools write, into a znode, may wait for brokers; others take the place of these.
    """
    planned = {}
    for partition, replicas in wanted.items():
        try:
            planned[partition] = reassignment_rules.plan(steps.context, partition, replicas, may_wait=by_znode)
        except KafkaError as error:
            outcomes[partition] = error
    try:
        if not by_znode:
            await _strike(steps, lambda partition, _: partition in planned)
        await go_on(steps, planned)
    except StoreFailedError:
        raise
    except StoreError as error:
        logger.exception("Partitions cannot be reassigned")
        outcomes |= dict.fromkeys(planned, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
    else:
        outcomes |= dict.fromkeys(planned)


async def begin_written(steps: Steps) -> Collection[TopicPartition]:
    """Begin what old tools have written and is not under way; return the partitions that it is of."""
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
        await _strike(steps, lambda partition, _: partition in failed)
    return outcomes.keys() - failed.keys()


async def go_on(steps: Steps, assignments: Assignments) -> None:
    """Take partitions as far on the way to these assignments as they can come now.

    Deletions of topics that waited for it may go on afterwards.
    """
    if not assignments:
        return
    context = steps.context
    batch = steps.batch()
    await _take(steps, batch, assignments)
    states = await steps.store.partition_states(assignments)
    complete: dict[TopicPartition, ReplicaAssignment] = {}
    under_way: dict[TopicPartition, ReplicaAssignment] = {}
    for partition, assignment in assignments.items():
        is_complete = reassignment_rules.is_complete(context, partition, assignment, states.get(partition))
        (complete if is_complete else under_way)[partition] = assignment
    # There may be thousands of them; others are to have the loop in between.
    await trio.lowlevel.checkpoint()
    await _start_replicas(steps, batch, under_way)
    final = await _finish(steps, batch, complete)
    await trio.lowlevel.checkpoint()
    steps.send(batch)
    if final:
        # After all is told: the next controller tells it again if this one ends before.
        await _write(steps, final)
        await _strike(steps, lambda partition, replicas: partition in final and final[partition].replicas == replicas)


async def go_on_where_in_sync(steps: Steps, partitions: Iterable[TopicPartition]) -> bool:
    """Finish the reassignments of those partitions of which all replicas are in sync by now; whether there were any."""
    context = steps.context
    moving = {each: context.assignment(each) for each in partitions if each in context.reassigning}
    in_sync = {
        each: found
        for each, found in moving.items()
        if reassignment_rules.is_complete(context, each, found, context.leadership.get(each))
    }
    await go_on(steps, in_sync)
    return bool(in_sync)


async def _take(steps: Steps, batch: RequestBatch, assignments: Assignments) -> None:
    """Have assignments written; replicas that were to join, and now are not, are stopped."""
    context = steps.context
    changed = {each: found for each, found in assignments.items() if found != context.assignment(each)}
    for partition, assignment in changed.items():
        logger.info("Partition %s goes from %s to %s", partition, context.assignment(partition), assignment)
    await _write(steps, changed)
    unneeded = []
    for partition, assignment in changed.items():
        before = context.assignment(partition).replicas
        context.set_assignment(partition, assignment)
        unneeded += [Replica(partition, each) for each in before if each not in assignment.replicas]
    await _stop(steps, batch, unneeded)


async def _start_replicas(steps: Steps, batch: RequestBatch, assignments: Assignments) -> None:
    """Have replicas that join follow the leader, and the leader expect them."""
    context = steps.context
    for partition in await _renew_epochs(steps, list(assignments)):
        batch.add_leader_and_isr(context, assignments[partition].origin, partition, is_new=False)
        # Where a directory is offline, a replica that nobody misses may be made in another one.
        batch.add_leader_and_isr(context, assignments[partition].adding, partition, is_new=True)
    joining = [Replica(partition, each) for partition, found in assignments.items() for each in found.adding]
    none = ReplicaPhase.NON_EXISTENT
    replicas_new(context, batch, [each for each in joining if context.replica_phases.get(each, none) is none])


async def _finish(steps: Steps, batch: RequestBatch, assignments: Assignments) -> Assignments:
    """Leave partitions with the replicas that they were to have, one of them leading; return what is to be written."""
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
        logger.info("Partition %s has the replicas %s now", partition, list(assignment.replicas))
    return final


async def _strike(steps: Steps, is_settled: Callable[[TopicPartition, Sequence[int]], bool]) -> None:
    """Take out of the znode of old tools what is done, or is not to be done."""
    wanted = await steps.store.wanted_reassignments()
    left = {partition: replicas for partition, replicas in wanted.items() if not is_settled(partition, replicas)}
    if len(left) < len(wanted):
        await steps.store.set_wanted_reassignments(left)


async def _settle_leaders(steps: Steps, batch: RequestBatch, final: Assignments) -> None:
    """Have a replica lead that stays, and the replicas know which they are."""
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
    """Have replicas out of the ISR, and deleted by their brokers, as far as these are there."""
    context = steps.context
    await steps.shrink_isr(batch, replicas_offline(context, batch, replicas))
    deletion_started(context, batch, replicas)
    # Whether they did it nobody asks, as in Kafka.
    for replica in replicas:
        context.replica_phases.pop(replica, None)


async def _renew_epochs(steps: Steps, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Give partitions new leader epochs, and nothing else; return those that have one."""
    context = steps.context
    renewed = []
    while partitions:
        found = await steps.store.partition_states(partitions)
        written, conflicts = await steps.store.write_states(_renewals(context, partitions, found))
        for write in written:
            context.leadership[write.partition] = write.state
            renewed.append(write.partition)
        # A leader changed its ISR meanwhile: look again.
        partitions = [write.partition for write in conflicts]
    return renewed


def _renewals(
    context: ControllerContext, partitions: Iterable[TopicPartition], found: Mapping[TopicPartition, PartitionState]
) -> list[StateWrite]:
    writes = []
    for partition in partitions:
        state = found.get(partition)
        if state is None or state.controller_epoch > context.epoch:
            logger.error("[Controller epoch=%d] No state of %s, or a later one's", context.epoch, partition)
        else:
            writes.append(StateWrite(partition, reassignment_rules.with_next_epoch(context, state), False, ()))
    return writes


async def _write(steps: Steps, assignments: Assignments) -> None:
    """Write assignments of partitions into the znodes of their topics, whatever else may have come into these."""
    for topic, partitions in groupby(sorted(assignments), key=lambda each: each.topic):
        changed = {each.partition: assignments[each] for each in partitions}
        is_written = False
        while not is_written:
            found = (await steps.store.topics([topic])).get(topic)
            if found is None:
                logger.error("Topic %s has no znode any more", topic)
                break
            assignment, version = found
            wanted = assignment._replace(partitions={**assignment.partitions, **changed})
            try:
                if wanted != assignment:
                    await steps.store.set_assignment(topic, wanted, version)
                is_written = True
            except BadVersionError:
                # A tool gave the topic partitions meanwhile: look again.
                continue
