"""The coordinator of transactions on a log in memory: versions of requests, roles, effects, periodic work."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from ottla.broker.loop.clock import Clock
from ottla.coordinator.effects import Marker, Record
from ottla.coordinator.transaction_config import TransactionConfig
from ottla.coordinator.transaction_coordinator import TransactionCoordinator
from ottla.coordinator.transaction_records import transaction_key
from ottla.coordinator.transaction_shard import COMPLETION_RETRY_MS
from ottla.wire.errors import DecodeError, ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.types import TopicPartition
from tests.coordinator.coordinating import Answer
from tests.coordinator.serving import START_MS, Log
from tests.coordinator.transacting import FIRST_ID, TIMEOUT_MS, A, B, C, ErrorAnswer, given

NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
EPOCH = 3
CONFIG = TransactionConfig(
    transactional_id_expiration_ms=300_000, abort_timed_out_interval_ms=10_000, remove_expired_interval_ms=100_000
)


class Broker:
    """A broker as far as its coordinator of transactions goes."""

    def __init__(self, config: TransactionConfig = CONFIG, partitions: int = 1, level: int = 2) -> None:
        self.partitions: int | None = partitions
        self.level = level
        self.log = Log()
        self.clock = Clock()
        self.next_id = FIRST_ID
        self.waiting: list[Callable[[int], None]] | None = None
        self.sent: list[tuple[int, int, Marker]] = []
        self.marked: list[Callable[[TopicPartition], None]] = []
        self.coordinator = TransactionCoordinator(
            self.log,
            config,
            now_ms=self.now_ms,
            call_later=self.clock.call_later,
            partition_count=lambda: self.partitions,
            send_markers=self.send_markers,
            take_producer_id=self.take_producer_id,
            transaction_version=lambda: self.level,
        )
        self.runtime = self.coordinator.runtime

    def now_ms(self) -> int:
        return START_MS + round(trio.current_time() * 1000)

    def send_markers(
        self, partition: int, leader_epoch: int, marker: Marker, marked: Callable[[TopicPartition], None]
    ) -> None:
        self.sent.append((partition, leader_epoch, marker))
        self.marked.append(marked)

    def take_producer_id(self, then: Callable[[int], None]) -> None:
        if self.waiting is not None:
            self.waiting.append(then)
            return
        self.next_id += 1
        then(self.next_id - 1)

    def lead(self, partition: int = 0, epoch: int = EPOCH, records: Sequence[Record] = ()) -> None:
        assert self.runtime.begin_loading(partition, epoch)
        for key, value in records:
            self.runtime.replay(partition, epoch, key, value, 0)
        self.runtime.loaded(partition, epoch)

    def init(
        self,
        name: str | None = "tx",
        version: int = 4,
        *,
        timeout_ms: int = TIMEOUT_MS,
        producer: tuple[int, int] = (-1, -1),
    ) -> Answer:
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        answer = Answer()
        self.coordinator.init_producer_id(request, version, answer)
        return answer

    def add(self, *partitions: TopicPartition, name: str = "tx", epoch: int = 0, version: int = 0) -> ErrorCode:
        answer = ErrorAnswer()
        self.coordinator.add_partitions(name, FIRST_ID, epoch, partitions, version, answer)
        return answer.error

    def end(self, version: int = 4, *, name: str = "tx", epoch: int = 0, is_commit: bool = True) -> Answer:
        request = EndTxnRequest(transactional_id=name, producer_id=FIRST_ID, producer_epoch=epoch, committed=is_commit)
        answer = Answer()
        self.coordinator.end_transaction(request, version, answer)
        return answer

    def mark(self) -> None:
        for (_, _, marker), marked in zip(self.sent, self.marked, strict=True):
            for partition in marker.partitions:
                marked(partition)

    def state(self, name: str = "tx") -> str:
        return self.coordinator.describe(name).transaction_state

    def ask_list(self, **filters: Any) -> ListTransactionsResponse:
        request = ListTransactionsRequest(**{"state_filters": (), "producer_id_filters": (), **filters})
        return self.coordinator.list_transactions(request)

    def listed(self, **filters: Any) -> list[str]:
        response = self.ask_list(**filters)
        assert response.error_code == NONE
        return [each.transactional_id for each in response.transaction_states]


@pytest.fixture
async def broker(nursery: trio.Nursery) -> Broker:
    broker = Broker()
    nursery.start_soon(broker.clock.run)
    nursery.start_soon(broker.coordinator.run)
    return broker


# -------------------------------------------------------------------------------------------- roles and loading


def answers(broker: Broker, name: str = "tx") -> list[int]:
    """The errors of all requests that need the partition of a transactional id."""
    partitions = broker.coordinator.verify_partitions(name, FIRST_ID, 0, [A])
    return [
        broker.init(name).error,
        broker.add(A, name=name),
        partitions[A],
        broker.end(name=name).error,
        broker.coordinator.describe(name).error_code,
    ]


async def test_requests_are_refused_by_brokers_that_do_not_lead_the_partition(
    broker: Broker, autojump_clock: MockClock
) -> None:
    assert answers(broker) == [ErrorCode.NOT_COORDINATOR] * 5
    assert broker.listed() == []
    broker.partitions = None
    assert answers(broker) == [ErrorCode.NOT_COORDINATOR] * 5


async def test_requests_are_refused_while_the_partition_is_loading_and_lists_while_any_is(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.partitions = 2
    other = "tx" if broker.runtime.partition_for("tx") == 0 else "ty"
    broker.lead(0)
    broker.runtime.begin_loading(1, EPOCH)
    loading = "ty" if other == "tx" else "tx"
    assert broker.runtime.partition_for(loading) == 1
    assert answers(broker, loading) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 5
    assert broker.init(other).error == NONE
    response = broker.ask_list(state_filters=["Nonsense"], transactional_id_pattern="(")
    assert (response.error_code, response.transaction_states) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())
    broker.runtime.loaded(1, EPOCH)
    assert broker.listed() == [other]


async def test_requests_are_refused_after_the_shutdown(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.runtime.shut_down()
    assert answers(broker) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 5
    assert broker.ask_list().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_transactional_id_must_not_be_empty(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    assert answers(broker, "") == [ErrorCode.INVALID_REQUEST] * 5
    assert broker.init(None).error == ErrorCode.INVALID_REQUEST


async def test_a_partition_whose_log_cannot_be_read_is_not_served(broker: Broker, autojump_clock: MockClock) -> None:
    broker.runtime.begin_loading(0, EPOCH)
    broker.runtime.replay(0, EPOCH, transaction_key("other"), None, 0)
    with pytest.raises(DecodeError):
        broker.runtime.replay(0, EPOCH, transaction_key("tx"), b"\0\7", 0)
    broker.runtime.unload(0, EPOCH)
    assert answers(broker) == [ErrorCode.NOT_COORDINATOR] * 5


async def test_a_transaction_goes_on_where_it_is_loaded_with_the_new_epoch_of_the_coordinator(
    broker: Broker, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    broker.lead()
    broker.init()
    broker.add(A, C)
    assert broker.end().error == NONE
    assert broker.sent == [(0, EPOCH, Marker("tx", FIRST_ID, 0, True, (A, C), 0))]
    broker.runtime.unload(0, EPOCH)
    broker.lead(epoch=EPOCH + 2, records=list(broker.log.records))
    assert broker.sent[1] == (0, EPOCH + 2, broker.sent[0][2])
    # The markers of the old epoch do not count.
    for partition in (A, C):
        broker.marked[0](partition)
    assert broker.state() == "PrepareCommit"
    broker.mark()
    assert broker.state() == "CompleteCommit"
    assert caplog.messages == ["Loaded 1 transactional ids of __transaction_state-0"]


async def test_parked_requests_are_answered_when_the_partition_is_unloaded(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.lead()
    broker.init()
    broker.add(A)
    broker.waiting = []
    first = broker.init("other")
    broker.log.held = []
    ending = broker.end()
    assert first.parked
    assert ending.parked
    broker.runtime.unload(0, EPOCH)
    assert (first.error, ending.error) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    for finish in broker.log.held:
        finish()
    for then in broker.waiting:
        then(99)
    assert broker.sent == []
    assert (len(first.responses), len(ending.responses)) == (1, 1)


async def test_a_complete_state_is_appended_again_until_the_partition_is_unloaded(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.lead()
    broker.init()
    broker.add(A)
    broker.end()
    broker.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    broker.mark()
    await trio.sleep(10)
    assert broker.state() == "PrepareCommit"
    broker.log.error = NONE
    await trio.sleep(COMPLETION_RETRY_MS / 1000 + 0.01)
    assert broker.state() == "CompleteCommit"
    broker.add(A)
    broker.end()
    broker.log.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.mark()
    broker.runtime.unload(0, EPOCH)
    assert not len(broker.runtime._timers)


# ---------------------------------------------------------------------------------------- versions of requests


@pytest.mark.parametrize(
    ("name", "timeout_ms", "producer", "error"),
    [
        ("tx", 1, (-1, -1), NONE),
        ("tx", CONFIG.max_timeout_ms, (5, 5), NONE),
        ("tx", 0, (-1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", -1, (-1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", CONFIG.max_timeout_ms + 1, (-1, -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", 1, (5, -1), ErrorCode.INVALID_REQUEST),
        ("tx", 1, (-1, 5), ErrorCode.INVALID_REQUEST),
        ("tx", 0, (-1, 5), ErrorCode.INVALID_REQUEST),
        ("", 0, (-1, -1), ErrorCode.INVALID_REQUEST),
        ("", 1, (-1, -1), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_init_producer_id_is_checked_before_it_reaches_a_shard(
    broker: Broker, autojump_clock: MockClock, name: str, timeout_ms: int, producer: tuple[int, int], error: ErrorCode
) -> None:
    broker.lead()
    answer = broker.init(name, timeout_ms=timeout_ms, producer=producer)
    assert given(answer) == ((NONE, FIRST_ID, 0) if error is NONE else (error, -1, -1))


@pytest.mark.parametrize("version", range(6))
async def test_old_versions_of_init_producer_id_do_not_know_producer_fenced(
    broker: Broker, autojump_clock: MockClock, version: int
) -> None:
    broker.lead()
    assert given(broker.init(version=version)) == (NONE, FIRST_ID, 0)
    assert given(broker.init(version=version)) == (NONE, FIRST_ID, 1)
    fenced = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert given(broker.init(version=version, producer=(FIRST_ID, 7))) == (fenced, -1, -1)


@pytest.mark.parametrize("version", range(6))
async def test_versions_of_end_txn(broker: Broker, autojump_clock: MockClock, version: int) -> None:
    broker.lead()
    broker.init()
    assert broker.add(A, epoch=1) == ErrorCode.PRODUCER_FENCED
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert given(broker.end(version, epoch=1)) == (fenced, -1, -1)
    assert broker.end(version).error == ErrorCode.INVALID_TXN_STATE
    assert broker.add(A) == NONE
    assert given(broker.end(version)) == ((NONE, FIRST_ID, 1) if version >= 5 else (NONE, -1, -1))
    assert broker.end(version).error == BUSY
    assert broker.end(version, is_commit=False).error == BUSY
    broker.mark()
    assert given(broker.end(version)) == ((NONE, FIRST_ID, 1) if version >= 5 else (NONE, -1, -1))
    assert broker.end(version, is_commit=False).error == ErrorCode.INVALID_TXN_STATE


async def test_partitions_are_verified_at_once(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.init()
    broker.add(A)
    verified = broker.coordinator.verify_partitions("tx", FIRST_ID, 0, [A, B])
    assert verified == {A: NONE, B: ErrorCode.TRANSACTION_ABORTABLE}


async def test_a_producer_id_may_come_later(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.waiting = []
    answer = broker.init()
    assert answer.parked
    (then,) = broker.waiting
    then(42)
    assert given(answer) == (NONE, 42, 0)


# ----------------------------------------------------------------------------------------------- periodic work


async def test_transactions_are_aborted_at_the_first_check_after_their_timeout(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.lead()
    await trio.sleep(1)
    broker.init()
    broker.add(A)
    await trio.sleep(TIMEOUT_MS / 1000 + 8)
    assert broker.state() == "Ongoing"
    await trio.sleep(1.1)
    assert broker.state() == "PrepareAbort"
    assert broker.sent == [(0, EPOCH, Marker("tx", FIRST_ID, 1, False, (A,), 2))]


async def test_unused_transactional_ids_are_deleted_at_the_first_check_after_their_time(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.lead()
    await trio.sleep(1)
    broker.init()
    broker.init("other")
    await trio.sleep(398)
    assert broker.listed() == ["tx", "other"]
    await trio.sleep(1.1)
    assert broker.listed() == []
    assert broker.log.records[2:] == [(transaction_key("tx"), None), (transaction_key("other"), None)]
    assert broker.coordinator.describe("tx").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


# ------------------------------------------------------------------------------------------- for administrators


async def test_transactions_are_described(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.init()
    broker.add(C, A, B)
    described = broker.coordinator.describe("tx")
    assert (described.error_code, described.transaction_state) == (NONE, "Ongoing")
    assert [(each.topic, list(each.partitions)) for each in described.topics] == [("a", [0, 1]), ("b", [0])]
    unknown = broker.coordinator.describe("other")
    assert (unknown.error_code, unknown.transactional_id) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "other")
    assert (unknown.transaction_state, unknown.producer_id, unknown.topics) == ("", 0, ())


async def test_transactions_are_listed_with_filters(broker: Broker, autojump_clock: MockClock) -> None:
    broker.lead()
    broker.init("empty")
    for name in ("tx", "open"):
        producer_id = broker.init(name).response.producer_id
        adding = ErrorAnswer()
        broker.coordinator.add_partitions(name, producer_id, 0, [A], 0, adding)
        assert adding.error == NONE
        await trio.sleep(10)
    assert broker.listed() == ["empty", "tx", "open"]
    (entry, *_) = broker.ask_list().transaction_states
    assert (entry.transactional_id, entry.producer_id, entry.transaction_state) == ("empty", FIRST_ID, "Empty")
    assert broker.listed(state_filters=["Ongoing"]) == ["tx", "open"]
    assert broker.listed(state_filters=["Ongoing", "Empty"], producer_id_filters=[FIRST_ID, FIRST_ID + 2, 7]) == [
        "empty", "open",
    ]  # fmt: skip
    # As in Kafka, an id without a transaction is older than any.
    assert broker.listed(duration_filter=20_000) == ["empty"]
    assert broker.listed(duration_filter=19_999) == ["empty", "tx"]
    assert broker.listed(duration_filter=0) == ["empty", "tx", "open"]
    assert broker.listed(duration_filter=-5) == ["empty", "tx", "open"]
    last = ErrorAnswer()
    broker.coordinator.add_partitions("empty", FIRST_ID, 0, [A], 0, last)
    assert last.error == NONE
    assert broker.listed(duration_filter=0) == ["tx", "open"]


async def test_unknown_states_of_a_filter_are_named_and_match_nothing(
    broker: Broker, autojump_clock: MockClock
) -> None:
    broker.lead()
    broker.init()
    response = broker.ask_list(state_filters=["empty", "Dead", "Nonsense", "empty"])
    assert list(response.unknown_state_filters) == ["empty", "Nonsense"]
    assert response.transaction_states == []
    assert broker.listed(state_filters=["Nonsense", "Empty"]) == ["tx"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [(None, ["tx-1", "tx-22"]), ("", ["tx-1", "tx-22"]), ("tx-.", ["tx-1"]), ("tx", []), (".*2|x", ["tx-22"])],
)
async def test_a_pattern_must_match_a_whole_transactional_id(
    broker: Broker, autojump_clock: MockClock, pattern: str | None, names: list[str]
) -> None:
    broker.lead()
    broker.init("tx-1")
    broker.init("tx-22")
    assert broker.listed(transactional_id_pattern=pattern) == names


@pytest.mark.parametrize("pattern", ["(", "*", "a{2,1}", "a{99999999999999999999}"])
async def test_a_pattern_that_is_none_is_refused(broker: Broker, autojump_clock: MockClock, pattern: str) -> None:
    broker.lead()
    broker.init()
    response = broker.ask_list(transactional_id_pattern=pattern, state_filters=["Nonsense"])
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert (response.transaction_states, response.unknown_state_filters) == ((), ())
