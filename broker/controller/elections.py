"""Elections on request: of clients, of old tools by a znode, and of the controller itself to rebalance leaders.

Owns which partitions get no election, and why. Must not know how a client gets its response.
Counterparts in Kafka: KafkaController's processReplicaLeaderElection and checkAndTriggerAutoLeaderRebalance.
"""

import logging
from collections.abc import Iterable
from functools import partial
from typing import Final

import trio

from ottla.broker.controller.actions import Steps
from ottla.broker.controller.leader_choice import after_failure, out_of_balance, preferred
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition
from ottla.zk.znodes import NO_LEADER, PREFERRED_REPLICA_ELECTION

logger = logging.getLogger("kafka.controller.KafkaController")

# One error each, because there may be thousands of partitions.
_BEING_DELETED: Final = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
_NOT_NEEDED: Final = KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
# The error of an election without a result, by `unclean`, and Kafka's name of the strategy.
_NOT_ELECTED: Final = {
    False: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "PreferredReplicaPartitionLeaderElectionStrategy"),
    True: (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "OfflinePartitionLeaderElectionStrategy(true)"),
}


async def elect_leaders(
    steps: Steps, partitions: Iterable[TopicPartition], *, unclean: bool
) -> dict[TopicPartition, int | KafkaError]:
    """Elect preferred replicas; or, `unclean`, any live replica where there is no leader.

    Return the elected leader or the error of each partition.
    """
    outcomes: dict[TopicPartition, int | KafkaError] = {}
    to_elect = []
    for partition in partitions:
        refused = _refusal(steps, partition, unclean)
        if refused is None:
            to_elect.append(partition)
        else:
            outcomes[partition] = refused
    # There may be thousands of partitions, so other tasks run in between.
    await trio.lowlevel.checkpoint()
    batch = steps.batch()
    choose = partial(after_failure, allow_unclean=True) if unclean else preferred
    elected = await steps.elect(batch, to_elect, choose)
    steps.send(batch)
    code, strategy = _NOT_ELECTED[unclean]
    for partition in to_elect:
        why = f"Failed to elect leader for partition {partition} under strategy {strategy}"
        outcomes[partition] = elected.get(partition, KafkaError(code, why))
    return outcomes


async def begin_written(steps: Steps) -> None:
    """Elect the preferred replicas that old tools ask for by a znode."""
    while (wanted := await steps.store.wanted_elections()) is not None:
        outcomes = await elect_leaders(steps, wanted, unclean=False)
        failed = {each: error for each, error in outcomes.items() if isinstance(error, KafkaError)}
        if failed:
            logger.warning("No preferred leader was elected, though a znode asks for it: %s", failed)
        await steps.store.delete([PREFERRED_REPLICA_ELECTION])


async def rebalance(steps: Steps, most_percent: int) -> None:
    """Elect preferred replicas of brokers that lead too few of their partitions."""
    partitions = out_of_balance(steps.context, most_percent)
    if partitions:
        logger.info("Electing the preferred leaders of %d partitions", len(partitions))
        batch = steps.batch()
        await steps.elect(batch, partitions, preferred)
        steps.send(batch)


def _refusal(steps: Steps, partition: TopicPartition, unclean: bool) -> KafkaError | None:
    context = steps.context
    replicas = context.assignment(partition).replicas
    if not replicas:
        is_known = partition.topic in context.topics
        missing = f"partition as {partition}" if is_known else f"topic as {partition.topic}"
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {missing}")
    if partition.topic in context.topics_to_delete:
        return _BEING_DELETED
    state = context.leadership.get(partition)
    leader = NO_LEADER if state is None else state.leader
    is_fine = context.is_live(leader) if unclean else leader == replicas[0]
    return _NOT_NEEDED if is_fine else None
