"""A transaction coordinator over a log in memory, for tests of handlers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.broker.loop.deferred import Deferred
from ottla.coordinator.effects import Marker, Producer, Record
from ottla.coordinator.transaction_config import TransactionConfig
from ottla.coordinator.transaction_coordinator import TransactionCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.types import TopicPartition

R = TypeVar("R")
NAME = "tx"
NOW_MS = 1_700_000_000_000
EPOCH = 4


class Log:
    """Appends are committed at once, unless they are held, or fail with `error`."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.is_holding = False
        self.held: list[Callable[[ErrorCode], None]] = []

    def append(
        self,
        partition: int,
        records: Sequence[Record],
        done: Callable[[ErrorCode], None],
        producer: Producer | None = None,
    ) -> None:
        if self.is_holding:
            self.held.append(done)
        else:
            done(self.error)

    def commit(self) -> None:
        """Commit all that is held."""
        held, self.held = self.held, []
        for done in held:
            done(ErrorCode.NONE)


class Transactions:
    """The coordinator of one partition of __transaction_state, and the markers that it wants."""

    def __init__(self) -> None:
        self.log = Log()
        self.markers: list[tuple[Marker, Callable[[TopicPartition], None]]] = []
        self._next_id = 1000
        self.coordinator = TransactionCoordinator(
            self.log,
            TransactionConfig(),
            now_ms=lambda: NOW_MS,
            call_later=lambda seconds, callback: _no_timer(),
            partition_count=lambda: 1,
            send_markers=self._send_markers,
            take_producer_id=self._take_producer_id,
            transaction_version=lambda: 0,
        )

    def lead(self, *, is_loaded: bool = True) -> None:
        """Become the coordinator."""
        runtime = self.coordinator.runtime
        runtime.begin_loading(0, EPOCH)
        if is_loaded:
            runtime.loaded(0, EPOCH)

    def init(self, name: str = NAME) -> tuple[int, int]:
        """Return the producer id and the epoch of a transactional id."""
        responses: list[InitProducerIdResponse] = []
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        self.coordinator.init_producer_id(request, 4, responses.append)
        (response,) = responses
        assert response.error_code == ErrorCode.NONE
        return response.producer_id, response.producer_epoch

    def add(self, producer: tuple[int, int], *partitions: TopicPartition, name: str = NAME) -> None:
        """Put partitions into the transaction."""
        codes: list[ErrorCode] = []
        self.coordinator.add_partitions(name, *producer, partitions, 0, codes.append)
        assert codes == [ErrorCode.NONE]

    def end(self, producer: tuple[int, int], *, is_commit: bool = True, name: str = NAME) -> None:
        """Decide the transaction."""
        codes: list[int] = []
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=is_commit
        )
        self.coordinator.end_transaction(request, 4, lambda response: codes.append(response.error_code))
        assert codes == [ErrorCode.NONE]

    def described(self, name: str = NAME) -> tuple[str, list[tuple[str, Sequence[int]]]]:
        """Return the state of a transactional id, and its partitions."""
        found = self.coordinator.describe(name)
        assert found.error_code == ErrorCode.NONE
        return found.transaction_state, [(each.topic, each.partitions) for each in found.topics]

    def _send_markers(
        self, partition: int, leader_epoch: int, marker: Marker, marked: Callable[[TopicPartition], None]
    ) -> None:
        self.markers.append((marker, marked))

    def _take_producer_id(self, then: Callable[[int], None]) -> None:
        self._next_id += 1
        then(self._next_id)


def _no_timer() -> Any:
    raise AssertionError("these tests need no timer")


def answered(answer: R | Deferred[R]) -> R:
    """Return a response, which must be there."""
    return answer.response if isinstance(answer, Deferred) else answer
