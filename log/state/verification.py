"""Appends in transactions, and the guards of producers whose coordinator is asked whether their transaction is open.

A leader asks the coordinator before a producer's first append in a transaction. The transaction may end meanwhile, and
the answer must not count for a later one: the append needs the guard that was returned when the question began, and any
append in a transaction of that producer removes the guard.

Owns the guards of one partition. Must not know logs, nor how a coordinator is asked.
Counterpart in Kafka: VerificationStateEntry, VerificationGuard, AppendOrigin.
"""

from enum import Enum
from typing import Final, NamedTuple

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.records.batch import BatchHeader


class AppendOrigin(Enum):
    """The sender of a batch, by which the log chooses its checks."""

    CLIENT = 0
    """All checks."""
    COORDINATOR = 1
    """Offsets that a group coordinator commits in a transaction: they have no sequence numbers."""


class VerificationGuard:
    """A producer's question to its coordinator."""

    __slots__ = ("epoch", "lowest_sequence", "supports_epoch_bump", "timestamp")

    def __init__(self, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int) -> None:
        """`supports_epoch_bump`: whether the producer has another epoch in each transaction (transaction version 2)."""
        self.lowest_sequence = sequence
        """A batch with a higher one must wait: the batch with this one is tried again, and would be out of order."""
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump
        self.timestamp = now_ms

    def saw(self, sequence: int, epoch: int) -> None:
        """Note that another batch asks; a new epoch has its own sequence numbers."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.lowest_sequence = sequence


# The guard of an append that needs no verification, because `transaction.partition.verification.enable` is false.
UNVERIFIED: Final = VerificationGuard(0, 0, False, 0)


class TransactionalAppend(NamedTuple):
    """What the log must know of an append in a transaction, beside the batch."""

    origin: AppendOrigin = AppendOrigin.CLIENT
    guard: VerificationGuard | None = None
    """The result of `start_verification`. None: the producer's transaction was open."""
    transaction_version: int = 0
    """Of a marker: from 2 on its epoch is above the producer's."""


class VerificationGuards:
    """The guards of one partition by producer id."""

    __slots__ = ("by_producer",)

    def __init__(self) -> None:
        self.by_producer: dict[int, VerificationGuard] = {}
        """Not to be changed from outside. Nearly always it is empty."""

    def start(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        """Return the producer's guard, a new one if it has none."""
        guard = self.by_producer.get(producer_id)
        if guard is None:
            guard = self.by_producer[producer_id] = VerificationGuard(sequence, epoch, supports_epoch_bump, now_ms)
        else:
            guard.saw(sequence, epoch)
        return guard

    def check(self, header: BatchHeader, how: TransactionalAppend) -> None:
        """Raise INVALID_TXN_STATE if a transaction needs another guard. The producer has no open transaction."""
        current = self.by_producer.get(header.producer_id)
        is_verified = how.guard is UNVERIFIED or (current is not None and how.guard is current)
        if header.is_transactional and not is_verified:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"The coordinator did not verify that a transaction of producer {header.producer_id} is open",
            )

    def check_sequence(self, header: BatchHeader, *, has_batches: bool) -> None:
        """Raise OUT_OF_ORDER_SEQUENCE_NUMBER for a client's batch if one with a lower number asked before.

        As in Kafka, the batch may be outside of transactions. `has_batches`: whether any of the producer's sequence
        numbers is known.
        """
        current = self.by_producer.get(header.producer_id)
        if current is None:
            return
        starts_late = current.supports_epoch_bump and not has_batches and header.base_sequence != 0
        if starts_late or header.base_sequence > current.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {header.producer_id} begins its transaction with sequence number {header.base_sequence}, "
                f"not with {0 if starts_late else current.lowest_sequence}",
            )

    def appended(self, header: BatchHeader) -> None:
        """Remove the guard of the producer, because a batch of a transaction was appended.

        With transaction version 2 a marker has the epoch of the next transaction, and leaves the guard of that one.
        """
        guard = self.by_producer.get(header.producer_id)
        if guard is not None:
            is_of_next = guard.supports_epoch_bump and header.is_control and header.producer_epoch == guard.epoch
            if not is_of_next:
                del self.by_producer[header.producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget guards that are as old as `expiration_ms`."""
        for producer_id in [pid for pid, each in self.by_producer.items() if now_ms - each.timestamp >= expiration_ms]:
            del self.by_producer[producer_id]
