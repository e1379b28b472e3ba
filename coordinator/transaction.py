"""One transactional id: where its transaction stands, and the legal changes of its state.

Owns the states, which of them may follow which, and what each change makes of the producer id, the epoch and the times.
Must not know a request, its answer, or the format of records. Counterparts in Kafka: TransactionMetadata,
TxnTransitMetadata, TransactionState.

One difference is meant: a repeated InitProducerId at the last epoch but one is answered like any other. Kafka fails
there, with UNKNOWN_SERVER_ERROR.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, NamedTuple

from ottla.coordinator.effects import Decision, Marker
from ottla.wire.errors import ErrorCode
from ottla.wire.types import NO_EPOCH, TopicPartition

NO_PRODUCER_ID: Final = -1
NO_TIMESTAMP: Final = -1
MAX_EPOCH: Final = 32767
"""The highest epoch. No client gets it, so that a producer can always be fenced."""
EPOCH_BUMPS_FROM: Final = 2
"""The first transaction version in which each end of a transaction bumps the epoch."""

Then = Callable[[Decision, ErrorCode], None]
"""Decides what follows from the end of a transition: NONE if it is committed."""


class State(Enum):
    """The state of a transactional id.

    EMPTY: initialized. ONGOING: its transaction is open. PREPARE_COMMIT, PREPARE_ABORT: the result is decided and in
    the log, and not all partitions have its marker. COMPLETE_COMMIT, COMPLETE_ABORT: they have it. DEAD: it expires.
    PREPARE_EPOCH_FENCE: its transaction is being aborted, but not by its client. The last two are never in the log.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


IDLE: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
"""The states in which no transaction is open."""
PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""The states in which a result is decided, and markers are due."""

LEGAL_PREDECESSORS: Final = {
    State.EMPTY: IDLE,
    State.ONGOING: IDLE | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    # From idle states only at transaction version 2, whose clients abort when they do not know where they stand.
    State.PREPARE_ABORT: IDLE | {State.ONGOING, State.PREPARE_EPOCH_FENCE},
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
    State.DEAD: IDLE,
    State.PREPARE_EPOCH_FENCE: frozenset({State.ONGOING}),
}
"""The states from which each state may be reached."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer id, and the epoch that its client has."""

    producer_id: int
    epoch: int


def is_exhausted(epoch: int) -> bool:
    """Whether a client cannot get a higher epoch with the same producer id."""
    return epoch >= MAX_EPOCH - 1


class Transaction(NamedTuple):
    """What the log says of a transactional id, and `last_producer_epoch`, which is not in the log.

    `last_producer_epoch` is the epoch before the current one, if the client that has the current one had it too.
    `next_producer_id` takes effect when the transaction is complete. `client_version` is the transaction version of the
    last client that added partitions or ended the transaction. In state EMPTY `start_ms` is the start of the previous
    transaction, as in Kafka; the log has none there. Methods return what a change makes of it.
    """

    state: State
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    update_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether a client cannot get a higher epoch with the same producer id."""
        return is_exhausted(self.producer_epoch)

    def accepts(self, expected: ProducerIdAndEpoch) -> bool:
        """Whether a client with this producer id may initialize it. `initialized` checks the epoch."""
        return (
            self.producer_epoch == NO_EPOCH
            or expected.producer_id == self.producer_id
            or (expected.producer_id == self.previous_producer_id and is_exhausted(expected.epoch))
        )

    def needs_new_id(self, expected: ProducerIdAndEpoch | None) -> bool:
        """Whether it is initialized with a new producer id, because the epochs of this one are exhausted."""
        return self.is_exhausted and (expected is None or expected.epoch == self.producer_epoch)

    def initialized(self, expected: ProducerIdAndEpoch | None, timeout_ms: int, now_ms: int) -> "Transaction | None":
        """Return it with the next epoch. None if the epoch that the client expects is fenced."""
        epoch, last = self.producer_epoch + 1, NO_EPOCH
        if expected is not None:
            if self.producer_epoch in (NO_EPOCH, expected.epoch):
                last = self.producer_epoch
            elif expected.epoch == self.last_producer_epoch:
                # The client repeats a request whose answer it did not get.
                epoch, last = self.producer_epoch, self.last_producer_epoch
            else:
                return None
        return self._empty(timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last)

    def initialized_anew(
        self, producer_id: int, expected: ProducerIdAndEpoch | None, timeout_ms: int, now_ms: int
    ) -> "Transaction":
        """Return it with another producer id."""
        last = NO_EPOCH if expected is None else self.producer_epoch
        return self._empty(timeout_ms, now_ms, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last)

    def with_partitions(self, added: Iterable[TopicPartition], version: int, now_ms: int) -> "Transaction":
        """Return it with more partitions. The first ones begin a transaction."""
        start_ms = self.start_ms if self.state is State.ONGOING else now_ms
        return self._moved(
            State.ONGOING, now_ms, start_ms=start_ms, partitions=self.partitions.union(added), client_version=version
        )

    def fenced(self) -> "Transaction":
        """Return it with an epoch that no client has."""
        epoch = min(self.producer_epoch + 1, MAX_EPOCH)
        return self._replace(producer_epoch=epoch, last_producer_epoch=NO_EPOCH)

    def ended(self, is_commit: bool, version: int, next_producer_id: int, now_ms: int) -> "Transaction":
        """Return it with the result that its markers carry, from version 2 on with the next epoch.

        The next epoch fences late batches. If there is none, the markers follow the rules of older versions.
        """
        state = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
        start_ms = self.start_ms if self.state is State.ONGOING else now_ms
        epochs = {"client_version": 0}
        if version >= EPOCH_BUMPS_FROM and self.producer_epoch < MAX_EPOCH:
            epoch = self.producer_epoch
            epochs = {"client_version": version, "producer_epoch": epoch + 1, "last_producer_epoch": epoch}
        return self._moved(state, now_ms, start_ms=start_ms, next_producer_id=next_producer_id, **epochs)

    def completed(self, now_ms: int) -> "Transaction":
        """Return it as it is when all partitions have the marker."""
        state = State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
        complete = self._moved(state, now_ms, partitions=frozenset(), next_producer_id=NO_PRODUCER_ID)
        if self.next_producer_id == NO_PRODUCER_ID:
            return complete
        return complete._replace(producer_id=self.next_producer_id, producer_epoch=0)

    def _empty(self, timeout_ms: int, now_ms: int, **changes: int) -> "Transaction":
        return self._moved(State.EMPTY, now_ms, timeout_ms=timeout_ms, **changes)

    def _moved(self, state: State, now_ms: int, **changes: Any) -> "Transaction":
        return self._replace(state=state, update_ms=now_ms, previous_producer_id=self.producer_id, **changes)


class Pending(NamedTuple):
    """A transition that is under way. `then` is called once, when it is committed, has failed, or is given up."""

    state: State
    then: Then


class TransactionalId:
    """A transactional id, its transaction, and the transition that is under way.

    `unmarked` are the partitions whose marker is due. `has_failed_epoch_fence` is true after a fence that failed: the
    epoch in memory is one that no client has, although it is perhaps not in the log.
    """

    __slots__ = ("has_failed_epoch_fence", "name", "pending", "transaction", "unmarked")

    def __init__(self, name: str, transaction: Transaction) -> None:
        self.name = name
        self.transaction = transaction
        self.pending: Pending | None = None
        self.unmarked: set[TopicPartition] = set()
        self.has_failed_epoch_fence = False

    @property
    def is_busy(self) -> bool:
        """Whether requests must wait: a transition is under way, or markers are due."""
        return self.pending is not None or self.transaction.state in PREPARED

    def begin(self, state: State, then: Then) -> Pending:
        """Begin a transition. RuntimeError if the state may not follow, or another transition is under way."""
        before = self.transaction.state
        if self.pending is not None:
            # The one pending state that another one follows.
            if self.pending.state is not State.PREPARE_EPOCH_FENCE:
                raise RuntimeError(f"{self.name} is on its way to {self.pending.state.value}, not to {state.value}")
            before = self.pending.state
        if before not in LEGAL_PREDECESSORS[state]:
            raise RuntimeError(f"{self.name} cannot go from {before.value} to {state.value}")
        self.pending = Pending(state, then)
        return self.pending

    def end(self, transaction: Transaction) -> None:
        """End the transition, because it is committed. RuntimeError if it was to another state."""
        if self.pending is None or self.pending.state is not transaction.state:
            raise RuntimeError(f"{self.name} is not on its way to {transaction.state.value}")
        self.pending = None
        self.transaction = transaction

    def marker(self) -> Marker:
        """The marker of a transaction whose result is decided."""
        transaction = self.transaction
        return Marker(
            self.name,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.state is State.PREPARE_COMMIT,
            tuple(sorted(transaction.partitions)),
            transaction.client_version,
        )
