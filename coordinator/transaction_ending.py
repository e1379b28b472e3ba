"""Which EndTxn ends a transaction, and how all others are answered.

Owns the two tables: for clients whose transactions keep the epoch, and from transaction version 2 on. Must not know
what follows, or a version of the request. Counterparts in Kafka: TransactionCoordinator.endTransactionWithTV1 and
endTransaction.
"""

from typing import Final

from ottla.coordinator.transaction import EPOCH_BUMPS_FROM, MAX_EPOCH, State, Transaction, TransactionalId
from ottla.wire.errors import ErrorCode

_COMMIT, _ABORT = True, False
_RESULT_OF: Final = {State.COMPLETE_COMMIT: _COMMIT, State.COMPLETE_ABORT: _ABORT}

# From version 2 on, in states without an open transaction: by the result asked for, and whether the client repeats a
# request, which it does with the epoch before. None: go on, with an abort. The client does not know where it stands.
_WITHOUT_TRANSACTION: Final = {
    (State.EMPTY, _ABORT, False): None,
    (State.EMPTY, _COMMIT, False): ErrorCode.INVALID_TXN_STATE,
    (State.COMPLETE_ABORT, _ABORT, True): ErrorCode.NONE,
    (State.COMPLETE_ABORT, _ABORT, False): None,
    (State.COMPLETE_ABORT, _COMMIT, True): ErrorCode.INVALID_TXN_STATE,
    (State.COMPLETE_ABORT, _COMMIT, False): ErrorCode.INVALID_TXN_STATE,
    (State.COMPLETE_COMMIT, _ABORT, True): ErrorCode.INVALID_TXN_STATE,
    (State.COMPLETE_COMMIT, _ABORT, False): None,
    (State.COMPLETE_COMMIT, _COMMIT, True): ErrorCode.NONE,
    (State.COMPLETE_COMMIT, _COMMIT, False): ErrorCode.INVALID_TXN_STATE,
}


def identity_error(known: TransactionalId | None, producer_id: int, epoch: int) -> ErrorCode:
    """The error of a request by a producer that the transactional id does not have, or NONE."""
    if known is None or known.transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if epoch < 0 or known.transaction.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def answer_without_end(
    known: TransactionalId, producer_id: int, epoch: int, is_commit: bool, version: int
) -> ErrorCode | None:
    """The answer to an EndTxn that ends no transaction. None for one that does. `version` is that of the client."""
    transaction = known.transaction
    if version >= EPOCH_BUMPS_FROM:
        # First, because the client perhaps has the next producer id already, which takes effect in the end.
        if known.is_busy:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return _of_version_2(transaction, producer_id, epoch, is_commit)
    error = identity_error(known, producer_id, epoch)
    if error:
        return error
    if known.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is State.ONGOING:
        return None
    is_same = _RESULT_OF.get(transaction.state) is is_commit
    return ErrorCode.NONE if is_same else ErrorCode.INVALID_TXN_STATE


def _of_version_2(transaction: Transaction, producer_id: int, epoch: int, is_commit: bool) -> ErrorCode | None:
    has_id = producer_id == transaction.producer_id
    # The client ended a transaction at its last epoch: the producer id is another one since.
    had_id = (
        not has_id
        and producer_id == transaction.previous_producer_id
        and (epoch, transaction.producer_epoch) == (MAX_EPOCH - 1, 0)
    )
    if not has_id and not had_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_current = 0 <= epoch == transaction.producer_epoch
    is_repeated = transaction.state in _RESULT_OF and (had_id or 0 <= epoch == transaction.producer_epoch - 1)
    if not is_current and not is_repeated:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is State.ONGOING:
        return None
    return _WITHOUT_TRANSACTION[transaction.state, is_commit, is_repeated]
