"""Appends of this broker itself: batches of coordinators and markers, which count when all in-sync replicas have them.

Owns the wait for the append and then for the replicas. Must not know what a batch means.
Counterpart in Kafka: ReplicaManager.appendRecords with acks=-1.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.broker.replicas.manager import ReplicaManager
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.parts import ReplicaParts
from ottla.log.append_info import LogAppendInfo
from ottla.log.state.verification import TransactionalAppend
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import ProducedBatch

_ALL_ACKS: Final = -1

Done = Callable[[ErrorCode], None]


class CommittedAppends:
    """Appends batches with `acks=all`."""

    def __init__(self, replicas: ReplicaManager, parts: ReplicaParts) -> None:
        self._replicas = replicas
        self._clock = parts.clock
        self._slow_appends = parts.slow_appends

    def append(
        self,
        partition: Partition,
        batch: ProducedBatch,
        timeout_ms: int,
        done: Done,
        how: TransactionalAppend | None = None,
    ) -> None:
        """Append a batch. Calls `done` once, when the batch is committed or has failed."""
        appended = partial(self._appended, partition, timeout_ms, done)
        if partition.log.pace.is_slow:
            self._slow_appends.append(partition, batch, _ALL_ACKS, appended, how)
            return
        try:
            result: LogAppendInfo | KafkaError = self._replicas.append(
                partition, batch, _ALL_ACKS, self._clock.now_ms(), how
            )
        except KafkaError as error:
            result = error
        appended(result)

    def _appended(self, partition: Partition, timeout_ms: int, done: Done, result: LogAppendInfo | KafkaError) -> None:
        if isinstance(result, KafkaError):
            done(result.code)
            return
        end = result.last_offset + 1
        outcome = self._replicas.acks_error(partition, end, _ALL_ACKS)
        if outcome is None:
            self._replicas.await_acks([(partition, end)], _ALL_ACKS, timeout_ms, lambda codes: done(codes[0]))
        else:
            done(outcome)
