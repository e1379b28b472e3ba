"""One shard of transactions without a clock, a log or a network: the effects of its decisions are recorded."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ottla.coordinator.effects import Append, CancelTimer, Decision, Marker, Record, Reply, SendMarkers, SetTimer
from ottla.coordinator.transaction import ProducerIdAndEpoch, Transaction, TransactionalId
from ottla.coordinator.transaction_config import TransactionConfig
from ottla.coordinator.transaction_records import read_transaction_value, transaction_record
from ottla.coordinator.transaction_shard import TransactionShard
from ottla.wire.errors import ErrorCode
from ottla.wire.types import TopicPartition
from tests.coordinator.coordinating import Answer

ID: Final = "tx"
FIRST_ID: Final = 1000
START_MS: Final = 1_700_000_000_000
TIMEOUT_MS: Final = 60_000
A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
DEFAULTS: Final = TransactionConfig()
Appended = tuple[Sequence[Record], Callable[[Decision, ErrorCode], None]]


class ErrorAnswer(Answer):
    """The answers to a request that is answered with an error alone."""

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response)


class Transacting:
    """A shard, its timers, its log, the markers, and time.

    Appends are committed at once unless `holding`, or fail with `failing`. Producer ids come at once unless
    `holding_ids`. Markers are in all partitions at once unless `holding_markers`. `effects` are the names of all.
    """

    def __init__(self, level: int = 0, config: TransactionConfig = DEFAULTS) -> None:
        self.config = config
        self.level = level
        self.now_ms = START_MS
        # The time of timers, which does not go back.
        self.elapsed_ms = 0
        self.shard = self.new_shard()
        self.timers: dict[str, int] = {}
        self.log: list[Record] = []
        self.holding = False
        self.held: list[Appended] = []
        self.failing = ErrorCode.NONE
        self.next_id = FIRST_ID
        self.holding_ids = False
        self.held_ids: list[Callable[[Decision, int], None]] = []
        self.holding_markers = False
        self.markers: list[Marker] = []
        self.unmarked: list[SendMarkers] = []
        self.effects: list[str] = []

    def new_shard(self) -> TransactionShard:
        return TransactionShard(self.config, lambda: self.level)

    @property
    def known(self) -> TransactionalId:
        return self.shard.ids[ID]

    @property
    def transaction(self) -> Transaction:
        return self.known.transaction

    @property
    def state(self) -> str:
        return self.transaction.state.value

    @property
    def producer(self) -> tuple[int, int]:
        return self.transaction.producer_id, self.transaction.producer_epoch

    def states(self) -> list[str]:
        """The states in the log, in their order."""
        values = [value for _, value in self.log]
        return ["none" if each is None else read_transaction_value(each).state.value for each in values]

    # ---------------------------------------------------------------------------------------------- effects

    def decide(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Decide one event and carry out its effects."""
        decision = Decision(self.now_ms)
        result = function(decision, *arguments)
        for effect in decision.effects:
            self.effects.append(type(effect).__name__)
            if isinstance(effect, Reply):
                effect.send(effect.response)
            elif isinstance(effect, Append):
                self.append((effect.records, effect.then))
            elif isinstance(effect, SendMarkers):
                self.send_markers(effect)
            elif isinstance(effect, SetTimer | CancelTimer):
                assert isinstance(effect, SetTimer)
                assert isinstance(effect.key, str)
                self.timers[effect.key] = self.elapsed_ms + effect.delay_ms
            else:
                self.held_ids.append(effect.then)
                if not self.holding_ids:
                    self.give_ids()
        return result

    def append(self, appended: Appended) -> None:
        if self.holding:
            self.held.append(appended)
        else:
            self.finish(appended, self.failing)

    def finish(self, appended: Appended, error: ErrorCode = ErrorCode.NONE) -> None:
        records, then = appended
        if not error:
            self.log.extend(records)
        self.decide(then, error)

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """End all held appends, in their order. Later ones are not held."""
        self.holding = False
        held, self.held = self.held, []
        for appended in held:
            self.finish(appended, error)

    def give_ids(self) -> None:
        """Give all producer ids that are waited for."""
        held, self.held_ids = self.held_ids, []
        for then in held:
            self.next_id += 1
            self.decide(then, self.next_id - 1)

    def send_markers(self, effect: SendMarkers) -> None:
        self.markers.append(effect.marker)
        self.unmarked.append(effect)
        if not self.holding_markers:
            self.mark()

    def mark(self, *partitions: TopicPartition) -> None:
        """Report that these partitions, or all, have the markers that were sent."""
        sent, self.unmarked = self.unmarked, []
        for effect in sent:
            if partitions:
                self.unmarked.append(effect)
            for each in partitions or effect.marker.partitions:
                self.decide(effect.marked, each)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass. Timers fire when they are due."""
        end_ms = self.elapsed_ms + milliseconds
        while self.timers:
            name, due_ms = min(self.timers.items(), key=lambda item: item[1])
            if due_ms > end_ms:
                break
            self._pass_to(due_ms)
            del self.timers[name]
            self.decide(self.shard.timer_fired, name)
        self._pass_to(end_ms)

    def _pass_to(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms - self.elapsed_ms
        self.elapsed_ms = elapsed_ms

    # ---------------------------------------------------------------------------------------------- roles

    def load(self, records: Iterable[Record]) -> None:
        """Unload the shard, and load these records as another one."""
        self.decide(self.shard.unload)
        self.timers.clear()
        self.shard = self.new_shard()
        for key, value in records:
            self.shard.replay(key, value, self.now_ms, 0)
        self.decide(self.shard.loaded)

    def put(self, transaction: Transaction) -> None:
        """Let a transactional id stand like this, but for `last_producer_epoch`."""
        self.load([transaction_record(ID, transaction, 2)])

    # ---------------------------------------------------------------------------------------------- requests

    def init(self, expected: tuple[int, int] | None = None, *, name: str = ID, timeout_ms: int = TIMEOUT_MS) -> Answer:
        answer = Answer()
        producer = None if expected is None else ProducerIdAndEpoch(*expected)
        self.decide(self.shard.init_producer_id, name, timeout_ms, producer, answer)
        return answer

    def add(
        self, *partitions: TopicPartition, producer: tuple[int, int] | None = None, version: int = 0, name: str = ID
    ) -> Answer:
        answer = ErrorAnswer()
        who = ProducerIdAndEpoch(*(producer or self.producer))
        self.decide(self.shard.add_partitions, name, who, partitions or (A,), version, answer)
        return answer

    def verify(self, *partitions: TopicPartition, producer: tuple[int, int] | None = None) -> list[ErrorCode]:
        who = ProducerIdAndEpoch(*(producer or self.producer))
        return list(self.shard.verify_partitions(ID, who, partitions).values())

    def end(
        self, is_commit: bool, *, producer: tuple[int, int] | None = None, version: int = 0, name: str = ID
    ) -> Answer:
        answer = Answer()
        who = ProducerIdAndEpoch(*(producer or self.producer))
        self.decide(self.shard.end_transaction, name, who, is_commit, version, answer)
        return answer

    def commit(self, version: int = 0) -> Answer:
        return self.end(True, version=version)

    def abort(self, version: int = 0) -> Answer:
        return self.end(False, version=version)

    def open(self, *partitions: TopicPartition, version: int = 0) -> tuple[int, int]:
        """Begin a transaction of a new producer. Returns its id and epoch."""
        assert self.init().error == ErrorCode.NONE
        assert self.add(*partitions, version=version).error == ErrorCode.NONE
        return self.producer


def given(answer: Answer) -> tuple[ErrorCode, int, int]:
    """The error, producer id and epoch of an answer to InitProducerId or EndTxn."""
    response = answer.response
    return ErrorCode(response.error_code), response.producer_id, response.producer_epoch


def busy_with(transacting: Transacting, what: str) -> Answer | None:
    """Begin a transition that does not end."""
    if what in ("add", "commit", "abort", "fence", "time out", "markers"):
        transacting.open(A)
    elif what != "first":
        transacting.init()
    transacting.holding = what != "markers"
    transacting.holding_markers = what == "markers"
    if what in ("first", "init", "fence"):
        return transacting.init()
    if what == "add":
        return transacting.add(B)
    if what in ("commit", "markers"):
        return transacting.commit()
    if what == "abort":
        return transacting.abort()
    transacting.now_ms += transacting.config.transactional_id_expiration_ms + 1
    transacting.decide(transacting.shard.abort_timed_out if what == "time out" else transacting.shard.expire)
    return None
