"""The leaders of this broker propose other in-sync replicas to the controller (AlterPartition).

Owns the looks for lagging followers, and the requests: one at a time, with all proposals. `PartitionEvents` calls
`propose` for a follower that has caught up. The meaning of an answer is decided here, and `Partition` applies it. Must
not know how the controller is reached, nor who fetches.
Counterparts in Kafka: AlterPartitionManager, ReplicaManager.maybeShrinkIsr, Partition.handleAlterPartitionUpdate.

A proposal holds until the controller commits it or says that it did not, or a new leader epoch ends it. After any
other refusal the controller knows another state of the partition, and its LeaderAndIsr will follow.

A failed request is retried after _FIRST_PAUSE_SECONDS, then after twice as long each time, up to
_LONGEST_PAUSE_SECONDS. So is a proposal that the controller did not commit, because each Fetch of the follower would
repeat it. A reason is logged once.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import trio

from ottla.broker.loop.hindrance import Hindrance
from ottla.broker.replicas.in_sync import InSyncReplicas
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.broker.replicas.watchers import ISR_PROPOSED
from ottla.wire.errors import ErrorCode, error_name
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResult,
    TopicData,
)
from ottla.wire.schema import Response
from ottla.wire.types import ZERO_UUID, TopicPartition

logger = logging.getLogger("kafka.cluster.Partition")

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0
# Partitions until the next checkpoint: they take a millisecond.
_LOOKED_AT_AT_ONCE: Final = 200

# The controller did not commit the proposal, and knows the same state as this leader.
_NOT_DONE: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# The controller knows another state than this leader, and will send LeaderAndIsr.
_OUTDATED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
_SETTLED: Final = _NOT_DONE | _OUTDATED | {ErrorCode.NONE}

AskController = Callable[[AlterPartitionRequest], Awaitable[Response]]


class _Proposal(NamedTuple):
    """A partition and its proposal; void once the partition has another state."""

    partition: Partition
    in_sync: InSyncReplicas

    @property
    def is_void(self) -> bool:
        return self.partition.in_sync is not self.in_sync or not self.partition.is_leader


class _Refused:
    """A proposal that the controller did not commit, and the time until which it is not repeated."""

    __slots__ = ("partition_epoch", "pause", "proposed", "until")

    def __init__(self, proposal: _Proposal) -> None:
        self.proposed = proposal.in_sync.proposed
        self.partition_epoch = proposal.partition.partition_epoch
        self.pause = 0.0
        self.until = float("-inf")

    def is_of(self, proposal: _Proposal) -> bool:
        """Whether a proposal is the one that was refused."""
        return self.proposed == proposal.in_sync.proposed and self.partition_epoch == proposal.partition.partition_epoch

    def again(self, now: float) -> None:
        """Take in another refusal, and double the pause."""
        self.pause = _longer(self.pause)
        self.until = now + self.pause


class IsrChanges:
    """The proposals of one broker."""

    def __init__(
        self,
        parts: ReplicaParts,
        ask_controller: AskController,
        *,
        max_lag_ms: int,
    ) -> None:
        """`ask_controller` returns the response of the controller, or raises OSError."""
        self._clock = parts.clock
        self._signal = parts.signal
        self._partitions = parts.hosted.partitions
        self._broker_id = parts.broker_id
        self._ask_controller = ask_controller
        self._broker_epoch = parts.broker_epoch
        self._interval_seconds = max_lag_ms / 2000
        self._proposals: dict[TopicPartition, _Proposal] = {}
        self._refused: dict[TopicPartition, _Refused] = {}
        self._hindrances: dict[TopicPartition, Hindrance] = {}
        self._is_proposed = trio.Event()
        self._unasked = Hindrance(
            logger, "The controller", "changes no in-sync replicas", "changes in-sync replicas again"
        )

    async def run(self) -> None:
        """Look for lagging followers, and send proposals, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._shrink)
            nursery.start_soon(self._ask)

    async def _shrink(self) -> None:
        while True:
            await trio.sleep(self._interval_seconds)
            self._forget_stopped()
            for number, partition in enumerate(tuple(self._partitions.values()), 1):
                if partition.shrink_isr(self._clock.now_ms()) & ISR_PROPOSED and self.propose(partition):
                    _log_lagging(partition)
                if number % _LOOKED_AT_AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()

    def _forget_stopped(self) -> None:
        hosted = self._partitions
        self._refused = {key: each for key, each in self._refused.items() if key in hosted}
        self._hindrances = {key: each for key, each in self._hindrances.items() if key in hosted}

    def propose(self, partition: Partition) -> bool:
        """Queue the partition's proposal, or drop it during the pause after a refusal; return whether it is new."""
        key = partition.topic_partition
        proposal = _Proposal(partition, partition.in_sync)
        refused = self._refused.get(key)
        is_new = refused is None or not refused.is_of(proposal)
        if refused is None or is_new:
            self._refused.pop(key, None)
            logger.info("[Partition %s] Proposing in-sync replicas %s", key, partition.in_sync)
        elif trio.current_time() < refused.until:
            partition.isr_unchanged()
            return False
        self._proposals[key] = proposal
        self._is_proposed.set()
        return is_new

    async def _ask(self) -> None:
        while True:
            await self._is_proposed.wait()
            self._is_proposed = trio.Event()
            pause = 0.0
            while await self._ask_once():
                pause = _longer(pause)
                # A proposal that comes meanwhile is sent at once, and does not wait for the retry.
                with trio.move_on_after(pause):
                    await self._is_proposed.wait()
                self._is_proposed = trio.Event()

    async def _ask_once(self) -> bool:
        """Send all proposals; return whether some of them have to be sent again."""
        self._proposals = {key: each for key, each in self._proposals.items() if not each.is_void}
        asked = self._proposals.copy()
        if not asked:
            return False
        try:
            response = await self._ask_controller(self._request(asked))
        except OSError as error:
            self._unasked.met(f"it was not reached: {error}")
            return True
        assert isinstance(response, AlterPartitionResponse)
        if response.error_code != ErrorCode.NONE:
            self._unasked.met(f"it answers {error_name(response.error_code)}")
            return True
        self._unasked.passed()
        for key, result in _results(asked, response).items():
            self._settle(asked[key], result)
        return any(self._proposals.get(key) is each for key, each in asked.items())

    def _request(self, proposals: dict[TopicPartition, _Proposal]) -> AlterPartitionRequest:
        """Fill in the fields of all versions. Broker epochs in the ISR are left out, as with ZooKeeper."""
        topics: dict[tuple[str, bytes], list[PartitionData]] = {}
        for (topic, index), (partition, in_sync) in proposals.items():
            members = in_sync.proposed_in_order
            data = PartitionData(
                partition_index=index,
                leader_epoch=partition.leader_epoch,
                new_isr=members,
                new_isr_with_epochs=[BrokerState(broker_id=each) for each in members],
                partition_epoch=partition.partition_epoch,
            )
            topics.setdefault((topic, partition.log.topic_id or ZERO_UUID), []).append(data)
        return AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            topics=[
                TopicData(topic_name=name, topic_id=topic_id, partitions=some)
                for (name, topic_id), some in topics.items()
            ],
        )

    def _settle(self, proposal: _Proposal, result: PartitionDataResult) -> None:
        """Apply the answer to one proposal; a proposal to send again stays in `_proposals`."""
        partition = proposal.partition
        key = partition.topic_partition
        if proposal.is_void:
            logger.info("[Partition %s] An answer of the controller is ignored: the proposal is void", key)
            return
        code = result.error_code
        if code != ErrorCode.NONE and code not in _OUTDATED:
            self._hindrance(key).met(f"the controller answers {error_name(code)} to {proposal.in_sync}")
        if code not in _SETTLED:
            return
        del self._proposals[key]
        if code in _NOT_DONE:
            self._refused.setdefault(key, _Refused(proposal)).again(trio.current_time())
            partition.isr_unchanged()
        elif code in _OUTDATED:
            logger.info(
                "[Partition %s] The controller refused with %s, waiting for its LeaderAndIsr", key, error_name(code)
            )
        elif result.leader_epoch == partition.leader_epoch and result.partition_epoch >= partition.partition_epoch:
            moved = partition.isr_changed(result.isr, result.partition_epoch, self._clock.now_ms())
            logger.info(
                "[Partition %s] ISR updated to %s and version updated to %d",
                key,
                ",".join(map(str, result.isr)),
                result.partition_epoch,
            )
            if key in self._hindrances:
                self._hindrances.pop(key).passed()
            self._refused.pop(key, None)
            self._signal.notify(key, moved)

    def _hindrance(self, key: TopicPartition) -> Hindrance:
        stuck, free = "The in-sync replicas stay as they are", "The in-sync replicas change again"
        return self._hindrances.setdefault(key, Hindrance(logger, f"[Partition {key}]", stuck, free))


def _longer(pause: float) -> float:
    return min(2 * pause, _LONGEST_PAUSE_SECONDS) or _FIRST_PAUSE_SECONDS


def _log_lagging(partition: Partition) -> None:
    """Log why followers leave the in-sync replicas, in Kafka's words."""
    in_sync = partition.in_sync
    leaving = in_sync.committed - (in_sync.proposed or in_sync.committed)
    lagging = " ".join(
        f"(brokerId: {broker_id}, endOffset: {replica.log_end_offset}, "
        f"lastCaughtUpTimeMs: {replica.last_caught_up_time_ms})"
        for broker_id, replica in sorted(partition.followers.items())
        if broker_id in leaving
    )
    logger.info(
        "[Partition %s] Leader: (highWatermark: %d, endOffset: %d). Out of sync replicas: %s",
        partition.topic_partition,
        partition.high_watermark,
        partition.log.log_end_offset,
        lagging,
    )


def _results(
    asked: dict[TopicPartition, _Proposal], response: AlterPartitionResponse
) -> dict[TopicPartition, PartitionDataResult]:
    """Return the answers by partition; topics are named by id from version 2 on."""
    names = {each.partition.log.topic_id: key.topic for key, each in asked.items()}
    found = {}
    for topic in response.topics:
        name = topic.topic_name if topic.topic_id == ZERO_UUID else names.get(topic.topic_id, "")
        for each in topic.partitions:
            found[TopicPartition(name, each.partition_index)] = each
    return {key: each for key, each in found.items() if key in asked}
