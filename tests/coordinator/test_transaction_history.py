"""Any history of requests, failures, moving coordinators and changing levels keeps what clients were promised."""

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.effects import Record, SendMarkers
from ottla.coordinator.transaction import IDLE, PREPARED, ProducerIdAndEpoch, State, Transaction
from ottla.coordinator.transaction_config import TransactionConfig
from ottla.coordinator.transaction_records import read_transaction_key, read_transaction_value, transaction_record
from ottla.wire.errors import ErrorCode
from ottla.wire.types import TopicPartition
from tests.coordinator.coordinating import Answer
from tests.coordinator.transacting import START_MS, A, Appended, B, C, ErrorAnswer, Transacting

CONFIG: Final = TransactionConfig(transactional_id_expiration_ms=200_000)
NAMES: Final = ("young", "old")
PARTITIONS: Final = (A, B, C)
# In the log at the start, a few epochs before the last one.
OLD: Final = Transaction(State.EMPTY, 500, 32_762, 60_000, START_MS)
HARD, SOFT = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
SAME_AFTER_A_LOAD: Final = (
    "state", "producer_id", "producer_epoch", "timeout_ms", "update_ms", "partitions", "next_producer_id",
)  # fmt: skip
ONLY_IN_VALUE_1: Final = ("previous_producer_id", "client_version")


class Client:
    """A client of a transactional id, with the producer id and epoch that it was given last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.producer = (7, 7)


class Promise:
    """What clients were told of a transactional id, which the coordinator has to keep."""

    def __init__(self) -> None:
        # The partitions that are added to the open transaction.
        self.added: set[TopicPartition] = set()
        # The result of the transaction whose markers are due, its partitions, and those that have the marker.
        self.decided: tuple[bool, frozenset[TopicPartition]] | None = None
        self.marked: set[TopicPartition] = set()
        self.last_result: bool | None = None
        # The highest epoch given, by producer id.
        self.epochs: dict[int, int] = {}

    def reach(self, transaction: Transaction | None) -> None:
        """Check a state that is in the log, and from now on holds."""
        if transaction is None or transaction.state in IDLE:
            assert not self.added
        if transaction is None or transaction.state is State.EMPTY:
            assert self.decided is None
        elif transaction.state is State.ONGOING:
            assert self.decided is None
            assert transaction.partitions >= self.added
        elif transaction.state in PREPARED:
            decided = transaction.state is State.PREPARE_COMMIT, transaction.partitions
            assert self.decided in (None, decided)
            assert transaction.partitions >= self.added
            self.decided = decided
            self.added.clear()
        else:
            result = transaction.state is State.COMPLETE_COMMIT
            if self.decided is not None:
                assert self.marked >= self.decided[1]
                self.last_result, self.decided = self.decided[0], None
                self.marked.clear()
            assert self.last_result is result


class GivenAnswer(Answer):
    """The answer to an InitProducerId or EndTxn, which is checked when it comes."""

    def __init__(self, client: Client, promise: Promise, result: bool | None, version: int) -> None:
        super().__init__()
        self.client = client
        self.promise = promise
        self.result = result
        self.version = version

    def __call__(self, response: Any) -> None:
        super().__call__(response)
        if self.error:
            return
        if self.result is not None:
            # Whether it is new or a repetition: no transaction has two results.
            assert (self.promise.decided or [self.promise.last_result])[0] is self.result
        if self.result is None or self.version == 2:
            producer_id, epoch = response.producer_id, response.producer_epoch
            assert 0 <= epoch < 32_767
            assert epoch >= self.promise.epochs.get(producer_id, 0)
            self.promise.epochs[producer_id] = epoch
            self.client.producer = producer_id, epoch


class BeginningAnswer(GivenAnswer):
    """The answer to an InitProducerId of a client that has no producer id: nobody else may have its epoch."""

    def __call__(self, response: Any) -> None:
        if not response.error_code:
            assert response.producer_epoch > self.promise.epochs.get(response.producer_id, -1)
        super().__call__(response)


class AddedAnswer(ErrorAnswer):
    """The answer to an AddPartitionsToTxn."""

    def __init__(self, promise: Promise, partitions: tuple[TopicPartition, ...]) -> None:
        super().__init__()
        self.promise = promise
        self.partitions = partitions

    def __call__(self, response: Any) -> None:
        super().__call__(response)
        if not self.error:
            assert self.promise.decided is None
            self.promise.added.update(self.partitions)


class History(Transacting):
    """A shard, clients of two transactional ids, and all events that can happen to them."""

    def __init__(self) -> None:
        super().__init__(config=CONFIG)
        self.clients = [Client(NAMES[number % 2]) for number in range(6)]
        self.promises = {name: Promise() for name in NAMES}
        self.promises["old"].epochs[OLD.producer_id] = OLD.producer_epoch
        self.answers: list[Answer] = []
        # Those whose last append has failed. What is in memory is perhaps not what is in the log.
        self.dirty: set[str] = set()
        self.log.append(transaction_record("old", OLD, 0))
        self.load(self.log)

    def finish(self, appended: Appended, error: ErrorCode = ErrorCode.NONE) -> None:
        ((key, value),) = records = appended[0]
        name = read_transaction_key(key)
        if error:
            self.dirty.add(name)
            if error is SOFT and self.shard.ids:
                self.log.extend(records)
        else:
            self.dirty.discard(name)
            self.promises[name].reach(None if value is None else read_transaction_value(value))
        super().finish(appended, error)

    def send_markers(self, effect: SendMarkers) -> None:
        marker = effect.marker
        decided = self.promises[marker.transactional_id].decided
        assert decided == (marker.is_commit, frozenset(marker.partitions))
        super().send_markers(effect)

    def mark(self, *partitions: TopicPartition) -> None:
        for effect in self.unmarked:
            promise = self.promises[effect.marker.transactional_id]
            if promise.decided is not None:
                promise.marked.update(set(partitions or effect.marker.partitions) & promise.decided[1])
        super().mark(*partitions)

    # ---------------------------------------------------------------------------------------------- events

    def act(self, action: str, client: Client, number: int) -> None:
        answer = getattr(self, f"do_{action}")(client, number)
        if answer is not None:
            self.answers.append(answer)

    def ask(self, client: Client, action: str, number: int) -> ErrorCode | None:
        """Send a request. Returns the error, or None while it is parked."""
        answer: Answer = getattr(self, f"do_{action}")(client, number)
        self.answers.append(answer)
        return None if answer.parked else answer.error

    def version(self, number: int) -> int:
        return 2 if self.level == 2 and number % 7 else 2 * (number % 5 == 0)

    def do_begin(self, client: Client, _: int) -> Answer:
        answer = BeginningAnswer(client, self.promises[client.name], None, 0)
        self.decide(self.shard.init_producer_id, client.name, 60_000, None, answer)
        return answer

    def do_go_on(self, client: Client, _: int) -> Answer:
        answer = GivenAnswer(client, self.promises[client.name], None, 0)
        self.decide(self.shard.init_producer_id, client.name, 30_000, ProducerIdAndEpoch(*client.producer), answer)
        return answer

    def do_add(self, client: Client, number: int) -> Answer:
        partitions = PARTITIONS[number % 3 : number % 3 + 2]
        answer = AddedAnswer(self.promises[client.name], partitions)
        who = ProducerIdAndEpoch(*client.producer)
        self.decide(self.shard.add_partitions, client.name, who, partitions, self.version(number), answer)
        return answer

    def do_end(self, client: Client, number: int) -> Answer:
        version, is_commit = self.version(number), number % 3 > 0
        answer = GivenAnswer(client, self.promises[client.name], is_commit, version)
        who = ProducerIdAndEpoch(*client.producer)
        self.decide(self.shard.end_transaction, client.name, who, is_commit, version, answer)
        return answer

    def do_transact(self, client: Client, number: int) -> None:
        """Let a client follow the protocol: one transaction, or what it gets to of it."""
        if self.ask(client, "add", number) in (
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ):
            self.ask(client, "begin", number)
            self.ask(client, "add", number)
        self.ask(client, "add", number + 1)
        self.ask(client, "end", number)

    def do_verify(self, client: Client, _: int) -> None:
        errors = self.shard.verify_partitions(client.name, ProducerIdAndEpoch(*client.producer), PARTITIONS)
        if ErrorCode.NONE in errors.values():
            assert self.promises[client.name].decided is None

    def do_copy(self, client: Client, number: int) -> None:
        """Let a second client have the producer id and epoch of another one."""
        other = self.clients[number % len(self.clients)]
        if other.name == client.name:
            client.producer = other.producer

    def do_hold(self, _: Client, __: int) -> None:
        self.holding = True

    def do_release(self, _: Client, number: int) -> None:
        self.release((ErrorCode.NONE, ErrorCode.NONE, HARD, SOFT)[number % 4])

    def do_fail(self, _: Client, number: int) -> None:
        self.failing = (ErrorCode.NONE, ErrorCode.NONE, HARD, SOFT)[number % 4]

    def do_hold_markers(self, _: Client, __: int) -> None:
        self.holding_markers = True

    def do_mark(self, _: Client, number: int) -> None:
        self.holding_markers = number % 2 == 0
        self.mark(*PARTITIONS[: number % 4])

    def do_hold_ids(self, _: Client, __: int) -> None:
        self.holding_ids = True

    def do_give_ids(self, _: Client, __: int) -> None:
        self.holding_ids = False
        self.give_ids()

    def do_wait(self, _: Client, number: int) -> None:
        self.pass_time((100, 1_000, 30_000, 70_000, 250_000)[number % 5])

    def do_turn_back(self, _: Client, number: int) -> None:
        self.now_ms -= number * 10_000

    def do_abort_timed_out(self, _: Client, __: int) -> None:
        self.decide(self.shard.abort_timed_out)

    def do_expire(self, _: Client, __: int) -> None:
        self.decide(self.shard.expire)

    def do_level(self, _: Client, number: int) -> None:
        self.level = number % 3

    def do_move(self, _: Client, number: int) -> None:
        """Let another broker load the log. Appends that are held are perhaps in it, but nobody learns of it."""
        held, self.held = self.held, []
        for (record,), _then in held[: number % 3]:
            self.log.append(record)
        self.load(self.log)
        for appended in held:
            self.decide(appended[1], ErrorCode.NONE)

    def load(self, records: Any) -> None:
        self.dirty.clear()
        last: dict[str, Transaction | None] = dict.fromkeys(self.promises)
        for key, value in records:
            last[read_transaction_key(key)] = None if value is None else read_transaction_value(value)
        for name, transaction in last.items():
            self.promises[name].reach(transaction)
        super().load(records)

    # ------------------------------------------------------------------------------------------ invariants

    def look(self) -> None:
        """Check that the log says what is in memory."""
        last: dict[str, Record] = {read_transaction_key(key): (key, value) for key, value in self.log}
        for name, known in self.shard.ids.items():
            transaction = known.transaction
            assert transaction.producer_epoch <= 32_767
            if name in self.dirty or known.pending is not None:
                continue
            value = last[name][1]
            assert value is not None
            logged = read_transaction_value(value)
            for field in (*SAME_AFTER_A_LOAD, *(ONLY_IN_VALUE_1 if value[1] else ())):
                assert getattr(logged, field) == getattr(transaction, field), field
            assert logged.start_ms == (-1 if transaction.state is State.EMPTY else transaction.start_ms)
        for answer in self.answers:
            assert len(answer.responses) <= 1

    def end_all(self) -> None:
        """Let everything that is under way succeed. Nothing stays undecided, and every request is answered."""
        self.failing, self.holding_markers, self.holding_ids = ErrorCode.NONE, False, False
        for _ in range(3):
            self.release()
            self.give_ids()
            self.mark()
            self.pass_time(1_000)
        for known in self.shard.ids.values():
            assert not known.is_busy
        assert self.timers == {}
        for answer in self.answers:
            assert len(answer.responses) == 1
        self.look()


ACTIONS: Final = [name[3:] for name in dir(History) if name.startswith("do_")]
# Actions of transactions, more often than those that disturb them.
LIKELY: Final = ["begin", "add", "end", "go_on", "release", "mark", "transact", "transact", "transact"] * 3
STEP = st.tuples(st.sampled_from(ACTIONS + LIKELY), st.integers(0, 5), st.integers(0, 11))


@given(st.lists(STEP, min_size=40, max_size=200), st.integers(0, 2))
def test_any_history_keeps_what_clients_were_promised(steps: list[tuple[str, int, int]], level: int) -> None:
    history = History()
    history.level = level
    for action, client, number in steps:
        history.act(action, history.clients[client], number)
        history.look()
    history.end_all()
    states = {name: known.transaction.state for name, known in history.shard.ids.items() if name not in history.dirty}
    history.load(history.log)
    for name, state in states.items():
        assert history.shard.ids[name].transaction.state is state
