"""The transactional ids of one partition of __transaction_state.

Owns which transactional ids exist, the decisions on them, and the replay of records. Must not know where the records
are, who sends markers, or the time between two events. Counterparts in Kafka: TransactionCoordinator,
TransactionStateManager, and the end of a transaction in TransactionMarkerChannelManager.

A transition takes effect when its record is committed. Until then its transactional id is busy, and other requests get
CONCURRENT_TRANSACTIONS. Three differences from Kafka are meant:
- A COMPLETE state is appended again after every error. Kafka does that for some errors, after others it stops.
- A request of version 2 at level 0 of transaction.version changes nothing. In Kafka its transactional id stays busy.
- `replay` raises for a record that cannot be read. Kafka serves what it could read of the log.
"""

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from ottla.coordinator.effects import COORDINATOR_ERRORS, Decision, Send
from ottla.coordinator.transaction import (
    EPOCH_BUMPS_FROM,
    IDLE,
    NO_PRODUCER_ID,
    PREPARED,
    Pending,
    ProducerIdAndEpoch,
    State,
    Then,
    Transaction,
    TransactionalId,
)
from ottla.coordinator.transaction_config import TransactionConfig
from ottla.coordinator.transaction_ending import answer_without_end, identity_error
from ottla.coordinator.transaction_records import (
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_record,
)
from ottla.coordinator.transaction_responses import described, described_error, init_error, listed
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from ottla.wire.messages.end_txn import EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.list_transactions import TransactionState as ListedTransaction
from ottla.wire.types import NO_EPOCH, TopicPartition

logger = logging.getLogger("kafka.coordinator.transaction.TransactionCoordinator")

COMPLETION_RETRY_MS: Final = 500
"""The time between two appends of a COMPLETE state. Nothing else can happen to its transactional id."""
_APPEND_ERRORS: Final = {
    **COORDINATOR_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class TransactionShard:
    """The transactional ids of one partition of `__transaction_state`.

    A method with a parameter `decision` adds the effects of one event to it. All other public methods only read.
    `transaction_version` returns the level of the feature. The version of records and the aborts of open transactions
    depend on it.
    """

    def __init__(self, config: TransactionConfig, transaction_version: Callable[[], int]) -> None:
        self.ids: dict[str, TransactionalId] = {}
        self._config = config
        self._transaction_version = transaction_version

    # ------------------------------------------------------------------------------------------------ requests

    def init_producer_id(
        self, decision: Decision, name: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, send: Send
    ) -> None:
        """Decide an InitProducerId. An open transaction is aborted first, and the client has to ask again."""
        known = self.ids.get(name)
        if known is None:
            self._create(decision, name, timeout_ms, send)
            return
        transaction = known.transaction
        then = partial(_initialized, known, send)
        if known.is_busy:
            then(decision, ErrorCode.CONCURRENT_TRANSACTIONS)
        elif expected is not None and not transaction.accepts(expected):
            then(decision, ErrorCode.PRODUCER_FENCED)
        elif transaction.state is State.ONGOING:
            # The client asks again, and gets an epoch above the one of the abort.
            again = ErrorCode.CONCURRENT_TRANSACTIONS
            self._fence(decision, known, lambda later, error: then(later, error or again))
        elif transaction.needs_new_id(expected):
            self._append_with_id(
                decision, known, known.begin(State.EMPTY, then),
                lambda producer_id, now_ms: transaction.initialized_anew(producer_id, expected, timeout_ms, now_ms),
            )  # fmt: skip
        else:
            target = transaction.initialized(expected, timeout_ms, decision.now_ms)
            if target is None:
                then(decision, ErrorCode.PRODUCER_FENCED)
            else:
                self._append(decision, known, known.begin(State.EMPTY, then), target)

    def _create(self, decision: Decision, name: str, timeout_ms: int, send: Send) -> None:
        new = Transaction(State.EMPTY, NO_PRODUCER_ID, NO_EPOCH, timeout_ms, decision.now_ms)
        known = self.ids[name] = TransactionalId(name, new)

        def first(producer_id: int, now_ms: int) -> Transaction:
            # The id stays if the append fails, without an epoch. It expires like others.
            known.transaction = new._replace(producer_id=producer_id)
            return known.transaction.initialized_anew(producer_id, None, timeout_ms, now_ms)

        pending = known.begin(State.EMPTY, partial(_initialized, known, send))
        self._append_with_id(decision, known, pending, first)

    def add_partitions(
        self, decision: Decision, name: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition],
        version: int, send: Callable[[ErrorCode], None],
    ) -> None:  # fmt: skip
        """Decide an AddPartitionsToTxn. `version` is the transaction version of the client. `send` takes an error."""
        known = self.ids.get(name)
        if known is not None and known.is_busy:
            # First, because the client perhaps has the next producer id already, which takes effect in the end.
            decision.reply(send, ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        error = identity_error(known, *producer)
        if known is None or error:
            decision.reply(send, error)
            return
        transaction = known.transaction
        if transaction.state is State.ONGOING and transaction.partitions.issuperset(partitions):
            decision.reply(send, ErrorCode.NONE)
        elif not self._supports(version):
            decision.reply(send, ErrorCode.UNSUPPORTED_VERSION)
        else:
            pending = known.begin(State.ONGOING, lambda later, error: later.reply(send, error))
            target = transaction.with_partitions(partitions, version, decision.now_ms)
            self._append(decision, known, pending, target)

    def verify_partitions(
        self, name: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return whether partitions are in an open transaction.

        A transition that is under way does not count, because the append that is verified is checked once more.
        """
        known = self.ids.get(name)
        error = identity_error(known, *producer)
        if known is None or error:
            return dict.fromkeys(partitions, error)
        if known.transaction.state in PREPARED:
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        added = known.transaction.partitions
        return {each: ErrorCode.NONE if each in added else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}

    def end_transaction(
        self, decision: Decision, name: str, producer: ProducerIdAndEpoch, is_commit: bool, version: int, send: Send
    ) -> None:
        """Decide an EndTxn. `version` is the transaction version of the client."""
        known = self.ids.get(name)
        if known is None:
            decision.reply(send, EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            return

        def ended(later: Decision, error: ErrorCode) -> None:
            response = EndTxnResponse(error_code=error)
            if not error and version >= EPOCH_BUMPS_FROM:
                transaction = known.transaction
                if transaction.state in PREPARED:
                    transaction = transaction.completed(later.now_ms)
                response.producer_id, response.producer_epoch = transaction.producer_id, transaction.producer_epoch
            later.reply(send, response)

        error = answer_without_end(known, *producer, is_commit, version)
        if error is None and not self._supports(version):
            error = ErrorCode.UNSUPPORTED_VERSION
        if error is not None:
            ended(decision, error)
        else:
            self._end(decision, known, is_commit, version, ended)

    def _supports(self, version: int) -> bool:
        """Whether requests of clients of a transaction version may change something: not before its feature may."""
        return version < EPOCH_BUMPS_FROM or self._transaction_version() > 0

    # ---------------------------------------------------------------------------------------- the end of transactions

    def _fence(self, decision: Decision, known: TransactionalId, then: Then) -> None:
        """Abort an open transaction, with an epoch that its client does not have."""
        version = self._transaction_version()
        known.begin(State.PREPARE_EPOCH_FENCE, then)
        if version < EPOCH_BUMPS_FROM:
            if not known.has_failed_epoch_fence:
                known.transaction = known.transaction.fenced()
            then = partial(_fenced, known, then)
        self._end(decision, known, False, version, then)

    def _end(self, decision: Decision, known: TransactionalId, is_commit: bool, version: int, then: Then) -> None:
        """Append the result, answer, send the markers."""
        transaction = known.transaction

        def prepared(later: Decision, error: ErrorCode) -> None:
            then(later, error)
            if not error:
                known.has_failed_epoch_fence = False
                self._send_markers(later, known)

        pending = known.begin(State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT, prepared)
        if version >= EPOCH_BUMPS_FROM and transaction.is_exhausted:
            self._append_with_id(decision, known, pending, partial(transaction.ended, is_commit, version))
        else:
            target = transaction.ended(is_commit, version, NO_PRODUCER_ID, decision.now_ms)
            self._append(decision, known, pending, target)

    def _send_markers(self, decision: Decision, known: TransactionalId) -> None:
        known.unmarked = set(known.transaction.partitions)
        if known.unmarked:
            decision.send_markers(known.marker(), partial(self._marked, known, known.transaction))
        else:
            self._complete(decision, known)

    def _marked(
        self, known: TransactionalId, prepared: Transaction, decision: Decision, partition: TopicPartition
    ) -> None:
        is_current = self.ids.get(known.name) is known and known.transaction is prepared
        if is_current and partition in known.unmarked:
            known.unmarked.remove(partition)
            if not known.unmarked:
                self._complete(decision, known)

    def _complete(self, decision: Decision, known: TransactionalId) -> None:
        def completed(later: Decision, error: ErrorCode) -> None:
            if error:
                later.set_timer(known.name, COMPLETION_RETRY_MS)

        target = known.transaction.completed(decision.now_ms)
        self._append(decision, known, known.begin(target.state, completed), target)

    def timer_fired(self, decision: Decision, name: str) -> None:
        """Append a COMPLETE state again."""
        self._complete(decision, self.ids[name])

    # ------------------------------------------------------------------------------------------------ periodic work

    def abort_timed_out(self, decision: Decision) -> None:
        """Abort the transactions that are open for longer than their timeout."""
        for known in self.ids.values():
            transaction = known.transaction
            is_due = transaction.start_ms + transaction.timeout_ms < decision.now_ms
            if is_due and transaction.state is State.ONGOING and not known.is_busy:
                self._fence(decision, known, partial(_log_timeout, known))

    def expire(self, decision: Decision) -> None:
        """Delete transactional ids that were not used for long."""
        latest_ms = decision.now_ms - self._config.transactional_id_expiration_ms
        for known in self.ids.values():
            transaction = known.transaction
            if transaction.update_ms <= latest_ms and transaction.state in IDLE and not known.is_busy:
                pending = known.begin(State.DEAD, _ignore)
                # One append each: the log puts them into one batch, as long as that is not too large.
                tombstone = transaction_key(known.name), None
                decision.append([tombstone], partial(self._appended, known, pending, None))

    # ------------------------------------------------------------------------------------------- for administrators

    def describe(self, name: str) -> DescribedTransaction:
        """Return where a transaction stands."""
        known = self.ids.get(name)
        if known is None:
            return described_error(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return described(known)

    def list_transactions(self, is_wanted: Callable[[TransactionalId], bool]) -> list[ListedTransaction]:
        """Return the transactional ids that pass a filter."""
        return [listed(known) for known in self.ids.values() if is_wanted(known)]

    # --------------------------------------------------------------------------------------------------- the log

    def replay(self, key: bytes, value: bytes | None, now_ms: int, offset: int, producer_id: int | None = None) -> None:
        """Apply one record. Raises DecodeError for a record that cannot be read."""
        name = read_transaction_key(key)
        if value is None:
            self.ids.pop(name, None)
        else:
            self.ids[name] = TransactionalId(name, read_transaction_value(value))

    def loaded(self, decision: Decision) -> int:
        """Send the markers of decided transactions, to all their partitions. Returns how many ids there are."""
        for known in self.ids.values():
            if known.transaction.state in PREPARED:
                self._send_markers(decision, known)
        return len(self.ids)

    def unload(self, decision: Decision) -> None:
        """Drop all transactional ids, because another broker coordinates them. Parked requests are answered."""
        ids, self.ids = self.ids, {}
        for known in ids.values():
            pending, known.pending = known.pending, None
            if pending is not None:
                pending.then(decision, ErrorCode.NOT_COORDINATOR)

    def _append_with_id(
        self, decision: Decision, known: TransactionalId, pending: Pending, target: Callable[[int, int], Transaction]
    ) -> None:
        """Take a producer id first. `target` gets it, and the time."""

        def taken(later: Decision, producer_id: int) -> None:
            if known.pending is pending:
                self._append(later, known, pending, target(producer_id, later.now_ms))

        decision.take_producer_id(taken)

    def _append(self, decision: Decision, known: TransactionalId, pending: Pending, target: Transaction) -> None:
        record = transaction_record(known.name, target, self._transaction_version())
        decision.append([record], partial(self._appended, known, pending, target))

    def _appended(
        self, known: TransactionalId, pending: Pending, target: Transaction | None, decision: Decision, error: ErrorCode
    ) -> None:
        """End a transition. Without a target its transactional id is deleted."""
        if known.pending is not pending:
            # It was given up, and answered, when the shard was unloaded.
            return
        if error:
            known.pending = None
        elif target is None:
            del self.ids[known.name]
        else:
            known.end(target)
        pending.then(decision, _APPEND_ERRORS.get(error, error))


def _initialized(known: TransactionalId, send: Send, decision: Decision, error: ErrorCode) -> None:
    if error:
        decision.reply(send, init_error(error))
    else:
        producer_id, epoch = known.transaction.producer_id, known.transaction.producer_epoch
        decision.reply(
            send, InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=epoch)
        )


def _fenced(known: TransactionalId, then: Then, decision: Decision, error: ErrorCode) -> None:
    known.has_failed_epoch_fence = bool(error)
    then(decision, error)


def _log_timeout(known: TransactionalId, _: Decision, error: ErrorCode) -> None:
    timeout_ms = known.transaction.timeout_ms
    if error:
        logger.warning("The transaction of %s is open for longer than %d ms. Its abort failed with %s; a later check "
                       "tries again", known.name, timeout_ms, error.name)  # fmt: skip
    else:
        logger.info("The transaction of %s was open for longer than %d ms and is aborted", known.name, timeout_ms)


def _ignore(_: Decision, __: ErrorCode) -> None:
    """If a tombstone is lost, the next expiry writes it again."""
