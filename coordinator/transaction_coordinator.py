"""The requests of transactions, each in all its versions, on the shards of __transaction_state.

Owns which shard a request goes to, the answer where there is none, the checks that need no shard, and the differences
between versions of requests. Must not know a rule of transactions, who sends markers, or where producer ids come from.
Counterparts in Kafka: TransactionCoordinator, and the handlers of these requests in KafkaApis.

The pattern of ListTransactions is one of Python's `re`. Like Kafka's it must match a whole transactional id. Some
constructs of Java mean something else or nothing here, such as \\p{Alpha}, [a&&b] and \\Q...\\E.
"""

import logging
import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, Protocol, TypeVar

from ottla.coordinator.effects import Marker, SendMarkers, TakeProducerId
from ottla.coordinator.runtime import CoordinatorLog, CoordinatorRuntime, LedPartition
from ottla.coordinator.timers import CallLater
from ottla.coordinator.transaction import NO_PRODUCER_ID, ProducerIdAndEpoch, State, TransactionalId
from ottla.coordinator.transaction_config import TransactionConfig
from ottla.coordinator.transaction_responses import described_error, init_error
from ottla.coordinator.transaction_shard import TransactionShard
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.types import NO_EPOCH, TopicPartition

logger = logging.getLogger("kafka.coordinator.transaction.TransactionStateManager")

# The first versions whose clients know PRODUCER_FENCED, and the first one of EndTxn that bumps the epoch.
_INIT_FENCED_FROM: Final = 4
_END_FENCED_FROM: Final = 2
_END_BUMPS_FROM: Final = 5

_STATES: Final = frozenset(state.value for state in State)

R = TypeVar("R", InitProducerIdResponse, EndTxnResponse)


class SendsMarkers(Protocol):
    """Sends markers to the leaders of partitions."""

    def __call__(
        self, partition: int, leader_epoch: int, marker: Marker, marked: Callable[[TopicPartition], None]
    ) -> None:
        """Send a marker. Calls `marked` for each of its partitions that has it.

        `partition` is the one of __transaction_state, and `leader_epoch` its epoch, the epoch of this coordinator.
        """


class TransactionCoordinator:
    """The coordinator of all transactional ids whose partitions of __transaction_state this broker leads.

    No method blocks. `send` is called exactly once, now or later, and must not raise. `take_producer_id` calls its
    argument with a producer id, now or later. `transaction_version` returns the level of this feature.
    """

    def __init__(
        self,
        log: CoordinatorLog,
        config: TransactionConfig,
        *,
        now_ms: Callable[[], int],
        call_later: CallLater,
        partition_count: Callable[[], int | None],
        send_markers: SendsMarkers,
        take_producer_id: Callable[[Callable[[int], None]], None],
        transaction_version: Callable[[], int],
    ) -> None:
        self._config = config
        self._now_ms = now_ms
        self._send = send_markers
        self._take = take_producer_id
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            "__transaction_state",
            "transactional ids",
            logger,
            log,
            lambda: TransactionShard(config, transaction_version),
            now_ms=now_ms,
            call_later=call_later,
            partition_count=partition_count,
            others={SendMarkers: self._send_markers, TakeProducerId: self._take_producer_id},
            # Without one record a transaction could be forgotten, or be aborted after it was committed.
            needs_all_records=True,
        )

    async def run(self) -> None:
        """Abort transactions after their timeout, and delete unused transactional ids, until cancelled."""
        await self.runtime.run_all(
            (self._config.abort_timed_out_interval_ms, TransactionShard.abort_timed_out),
            (self._config.remove_expired_interval_ms, TransactionShard.expire),
        )

    def _send_markers(self, led: LedPartition[TransactionShard], effect: SendMarkers) -> None:
        self._send(led.number, led.leader_epoch, effect.marker, partial(self.runtime.decide, led, effect.marked))

    def _take_producer_id(self, led: LedPartition[TransactionShard], effect: TakeProducerId) -> None:
        self._take(partial(self.runtime.decide, led, effect.then))

    def _find(self, name: str) -> LedPartition[TransactionShard] | ErrorCode:
        """Like `runtime.find`, for requests that need a transactional id."""
        return self.runtime.find(name) if name else ErrorCode.INVALID_REQUEST

    # ------------------------------------------------------------------------------------------------ of producers

    def init_producer_id(
        self, request: InitProducerIdRequest, version: int, send: Callable[[InitProducerIdResponse], None]
    ) -> None:
        """Send the producer id and epoch of a transactional id, once they are committed to the log."""
        if version < _INIT_FENCED_FROM:
            send = partial(_with_old_error, send)
        name = request.transactional_id or ""
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        found: LedPartition[TransactionShard] | ErrorCode
        if (expected.producer_id == NO_PRODUCER_ID) != (expected.epoch == NO_EPOCH):
            found = ErrorCode.INVALID_REQUEST
        elif name and not 0 < request.transaction_timeout_ms <= self._config.max_timeout_ms:
            found = ErrorCode.INVALID_TRANSACTION_TIMEOUT
        else:
            found = self._find(name)
        if isinstance(found, ErrorCode):
            send(init_error(found))
            return
        self.runtime.decide(
            found, found.shard.init_producer_id, name, request.transaction_timeout_ms,
            None if expected.producer_id == NO_PRODUCER_ID else expected, send,
        )  # fmt: skip

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition],
        transaction_version: int, send: Callable[[ErrorCode], None],
    ) -> None:  # fmt: skip
        """Send an error, or NONE once the partitions are in the transaction. `transaction_version` is the client's."""
        found = self._find(transactional_id)
        if isinstance(found, ErrorCode):
            send(found)
        else:
            producer = ProducerIdAndEpoch(producer_id, epoch)
            self.runtime.decide(
                found, found.shard.add_partitions, transactional_id, producer, partitions, transaction_version, send
            )

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for partitions in an open transaction of this producer, and an error for each other one."""
        found = self._find(transactional_id)
        if isinstance(found, ErrorCode):
            return dict.fromkeys(partitions, found)
        return found.shard.verify_partitions(transactional_id, ProducerIdAndEpoch(producer_id, epoch), partitions)

    def end_transaction(self, request: EndTxnRequest, version: int, send: Callable[[EndTxnResponse], None]) -> None:
        """Send an error, or NONE once the result is committed to the log. The markers follow."""
        if version < _END_FENCED_FROM:
            send = partial(_with_old_error, send)
        found = self._find(request.transactional_id)
        if isinstance(found, ErrorCode):
            send(EndTxnResponse(error_code=found))
            return
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        transaction_version = 2 if version >= _END_BUMPS_FROM else 0
        self.runtime.decide(
            found, found.shard.end_transaction, request.transactional_id, producer, request.committed,
            transaction_version, send,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------- of administrators

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return where a transaction stands."""
        found = self._find(transactional_id)
        if isinstance(found, ErrorCode):
            return described_error(transactional_id, found)
        return found.shard.describe(transactional_id)

    def list_transactions(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """Return the transactional ids that pass all filters: none at all while a partition is loading."""
        error = self.runtime.status()
        pattern = None
        try:
            pattern = re.compile(request.transactional_id_pattern or "")
        except (re.error, OverflowError, RecursionError):
            error = error or ErrorCode.INVALID_REGULAR_EXPRESSION
        if error or pattern is None:
            return ListTransactionsResponse(error_code=error, unknown_state_filters=(), transaction_states=())
        states, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
        duration_ms = request.duration_filter
        started_before_ms = self._now_ms() - duration_ms

        def is_wanted(known: TransactionalId) -> bool:
            transaction = known.transaction
            return (
                (not states or transaction.state.value in states)
                and (not producer_ids or transaction.producer_id in producer_ids)
                and (duration_ms < 0 or transaction.start_ms < started_before_ms)
                and (not request.transactional_id_pattern or pattern.fullmatch(known.name) is not None)
            )

        return ListTransactionsResponse(
            error_code=ErrorCode.NONE,
            unknown_state_filters=[each for each in dict.fromkeys(request.state_filters) if each not in _STATES],
            transaction_states=[
                each for led in self.runtime.served() for each in led.shard.list_transactions(is_wanted)
            ],
        )


def _with_old_error(send: Callable[[R], None], response: R) -> None:
    """Send a response to an old version, whose clients do not know PRODUCER_FENCED."""
    if response.error_code == ErrorCode.PRODUCER_FENCED:
        response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    send(response)
