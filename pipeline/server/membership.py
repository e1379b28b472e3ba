"""Shares the jobs among the servers of a group: whoever has a partition of the slots' topic has the jobs in that slot.

Owns the membership, and with it which slots are this server's. Nothing is ever written to that topic. Must not know
what a job is. Counterparts in Kafka: WorkerCoordinator, WorkerGroupMember.
"""

import logging
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import kafka
from kafka.errors import KafkaError
from kafka.structs import MemberState

from ottla.pipeline.server.sharing import Sharing

logger = logging.getLogger(__name__)

POLL_MS: Final = 500
# Who revokes blocks the heartbeats of its client while jobs end: by then it must not have been thrown out.
SHARE_OF_SESSION: Final = 1 / 3


class Jobs(Protocol):
    """Whoever runs the jobs that are this server's."""

    def own(self, slots: Collection[int]) -> None:
        """From now on the jobs in these slots are this server's, and no others."""

    def wait_until_given_up(self, timeout_s: float) -> bool:
        """Wait until no job runs here that is not this server's any more; False when that takes too long."""

    def in_slots(self) -> Sequence[int]:
        """How many jobs are to run in each slot, whoever has them."""


class Membership(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """This server as a member of its group."""

    def __init__(
        self,
        client: Mapping[str, Any],
        group_id: str,
        slots_topic: str,
        jobs: Jobs,
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        self._jobs = jobs
        self._session_timeout_s = session_timeout_ms / 1000
        self._rebalance_timeout_s = rebalance_timeout_ms / 1000
        self._slots_topic = slots_topic
        self._heard_at = time.monotonic()
        self._is_stable = False
        self.has_joined = False
        self._is_stopping = threading.Event()
        self._consumer = kafka.KafkaConsumer(
            **client,
            group_id=group_id,
            enable_auto_commit=False,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=session_timeout_ms // 4,
            max_poll_interval_ms=rebalance_timeout_ms,
            partition_assignment_strategy=[Sharing(slots_topic, self._assigned, jobs.in_slots)],
        )
        self._consumer.subscribe([slots_topic], listener=self)
        self._thread = threading.Thread(target=self._run, name="membership")

    def start(self) -> None:
        """Join."""
        self._thread.start()

    def stop(self) -> None:
        """Leave, so that others have the jobs at once; all of this server's have ended before."""
        self._is_stopping.set()
        self._thread.join()
        self._consumer.close()

    @property
    def is_alive(self) -> bool:
        """Whether this server still tries to be a member."""
        return self._thread.is_alive()

    @property
    def is_stable(self) -> bool:
        """Whether this server is a member, and its group has agreed on who has what."""
        return self._is_stable and self.is_in_touch

    @property
    def is_in_touch(self) -> bool:
        """Whether the group's coordinator has been heard of lately."""
        return time.monotonic() - self._heard_at < self._rebalance_timeout_s

    def on_partitions_revoked(self, revoked: Collection[kafka.TopicPartition]) -> None:
        """Stop what others will have, before they are told."""
        self._give_up(revoked)

    def on_partitions_lost(self, lost: Collection[kafka.TopicPartition]) -> None:
        """Stop what others may have by now."""
        logger.warning("this server was thrown out of its group; its jobs are stopped")
        self._give_up(lost)

    def on_partitions_assigned(self, assigned: Collection[kafka.TopicPartition]) -> None:
        """Do nothing: what is assigned is looked up after each poll."""

    def _give_up(self, partitions: Collection[kafka.TopicPartition]) -> None:
        # Called within a poll, so nobody looks up what is assigned meanwhile.
        gone = {each.partition for each in partitions}
        self._jobs.own(self._assigned() - gone)
        if not self._jobs.wait_until_given_up(self._session_timeout_s * SHARE_OF_SESSION):
            logger.warning("jobs take long to end; whoever has them next waits for their locks")

    def _run(self) -> None:
        is_silent = False
        while not self._is_stopping.is_set():
            try:
                self._consumer.poll(timeout_ms=POLL_MS)
                self._ask()
                is_silent = False
            except KafkaError as error:
                if not is_silent:
                    logger.warning("no word from the coordinator of the group: %r", error)
                is_silent = True
                self._is_stopping.wait(1)
            # Others may have what is this server's if the coordinator has not heard of it for so long.
            self._jobs.own(self._assigned() if self.is_in_touch else set())

    def _assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def _ask(self) -> None:
        """Have a word with the coordinator; a poll does not say whether it has answered."""
        self._is_stable = self._consumer.group_metadata().state == MemberState.STABLE
        self.has_joined = self.has_joined or self._is_stable
        self._consumer.committed(kafka.TopicPartition(self._slots_topic, 0), timeout_ms=self._session_timeout_s * 1000)
        self._heard_at = time.monotonic()
