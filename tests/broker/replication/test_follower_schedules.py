from collections.abc import Iterator
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.fetch.sessions import FetchSessionCache, SessionPartition
from ottla.broker.loop.turn import Turn
from ottla.broker.replicas.reads import ReadResult
from ottla.broker.replicas.watchers import EVERYTHING, OffsetSignal
from ottla.broker.replication.decisions import (
    Append,
    Decision,
    FollowerFetch,
    Question,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import EpochEndOffset, FetchRequest, FetchResponse
from tests.broker.replication.follower_model import BACKOFF, HERE, SETTINGS, ModelLog, fetched


class ModelBroker:
    """A replica, its share in the cluster, and what is on the way to it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.log = ModelLog()
        self.high_watermark = 0
        self.leader = -1
        self.epoch = -1
        self.fetch = FollowerFetch(SETTINGS)
        self.question: tuple[int, Question] | None = None
        self.answer: FetchResponse | None = None
        self.positions: dict[int, int] = {}
        self.epoch_start = 0
        self.session_ids = count(1)
        self.signal = OffsetSignal(Turn())
        self.forget_sessions(2)

    def forget_sessions(self, slots: int) -> None:
        """Sometimes there is no place for all of them."""
        self.sessions = FetchSessionCache(slots, self.signal, lambda: next(self.session_ids))

    @property
    def leads(self) -> bool:
        return self.leader == self.number

    def told(self, leader: int, epoch: int) -> None:
        if epoch <= self.epoch:
            return
        self.leader, self.epoch = leader, epoch
        self.positions = {}
        self.epoch_start = self.log.log_end_offset
        if self.leads:
            self.fetch.unfollow(HERE)
            self.log.begin(epoch)
        else:
            first = self.fetch.follow(HERE, epoch, self.log, self.high_watermark)
            if first is not None:
                self.carry_out(first)
        self.moved()

    def moved(self) -> None:
        self.signal.notify(HERE, EVERYTHING)

    def handle(self, sender: int, request: FetchRequest) -> FetchResponse:
        begun = self.sessions.begin(request, 17, EVERYTHING, is_follower=True, now_ms=0, name_of=lambda _: "t")
        if isinstance(begun, ErrorCode):
            return FetchResponse(error_code=begun, responses=())
        looked_at = [(each, self.read(sender, each)) for each in tuple(begun.session.to_look_at)]
        error, session_id, named = begun.conclude(looked_at, 0)
        begun.end()
        answers = []
        for _, reading in named:
            answer = fetched(error_code=reading.error, high_watermark=reading.high_watermark, records=reading.records)
            (data,) = answer.responses[0].partitions
            if reading.diverging_epoch is not None:
                epoch, end_offset = reading.diverging_epoch
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            answers.append(answer.responses[0])
        return FetchResponse(error_code=error, session_id=session_id, responses=answers)

    def read(self, sender: int, asked: SessionPartition) -> ReadResult:
        offset, log = asked.fetch_offset, self.log
        if not self.leads or asked.current_leader_epoch > self.epoch:
            return ReadResult(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if asked.current_leader_epoch < self.epoch:
            return ReadResult(ErrorCode.FENCED_LEADER_EPOCH)
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(asked.last_fetched_epoch)
            assert end >= 0
            if epoch < asked.last_fetched_epoch or end < offset:
                return ReadResult(ErrorCode.NONE, b"", self.high_watermark, 0, 0, True, (epoch, end))
        assert offset <= log.log_end_offset
        self.positions[sender] = offset
        data = b"".join(bytes(record) for record in log.records[offset : offset + 2])
        return ReadResult(ErrorCode.NONE, data, self.high_watermark, 0, 0, not data)

    def carry_out(self, decision: Decision) -> None:
        assert not self.leads
        if isinstance(decision, Append):
            data = bytes(decision.records)
            for epoch, value in zip(data[::2], data[1::2], strict=True):
                self.log.append(epoch, value)
            self.high_watermark = min(decision.high_watermark, self.log.log_end_offset)
        else:
            self.log.truncate(decision.offset)
            self.high_watermark = min(self.high_watermark, self.log.log_end_offset)


class ModelCluster:
    """Three replicas, a controller, and a network that may lose and delay."""

    def __init__(self) -> None:
        self.brokers = [ModelBroker(number) for number in range(3)]
        self.in_sync = {0, 1, 2}
        self.leader, self.epoch = 0, 0
        self.committed: list[tuple[int, int]] = []
        self.written = 0
        self.now = 0.0

    def step(self, action: str, number: int) -> None:
        broker = self.brokers[number]
        self.now += BACKOFF / 2
        if action == "append" and broker.leads:
            self.written += 1
            broker.log.append(broker.epoch, self.written % 256)
            broker.moved()
        elif action == "tell":
            broker.told(self.leader, self.epoch)
        elif action == "elect" and number in self.in_sync:
            self.leader, self.epoch = number, self.epoch + 1
        elif action == "break" and broker.question is not None:
            broker.question = broker.answer = None
            broker.fetch.failed(self.now)
        elif action == "forget":
            broker.forget_sessions(self.written % 3)
        elif action == "leave" and self.brokers[self.leader].epoch == self.epoch and number != self.leader:
            self.in_sync.discard(number)
        elif action == "join":
            self.join(number)
        else:
            self.travel(action, broker)
        self.commit()

    def travel(self, action: str, broker: ModelBroker) -> None:
        if action == "ask" and broker.question is None:
            question = broker.fetch.next_question(self.now, 7)
            if question is not None:
                broker.question = broker.leader, question
        elif action == "answer" and broker.question is not None and broker.answer is None:
            to, question = broker.question
            assert isinstance(question.request, FetchRequest)
            broker.answer = self.brokers[to].handle(broker.number, question.request)
        elif action == "deliver" and broker.question is not None and broker.answer is not None:
            for decision in broker.fetch.decide(broker.question[1], broker.answer, self.now):
                broker.carry_out(decision)
            broker.question = broker.answer = None

    def join(self, number: int) -> None:
        """The controller takes nobody in for a leader that was replaced."""
        leader = self.brokers[self.leader]
        if leader.leads and leader.epoch == self.epoch:
            position = leader.positions.get(number, -1)
            if position >= max(leader.high_watermark, leader.epoch_start):
                self.in_sync.add(number)

    def commit(self) -> None:
        leader = self.brokers[self.leader]
        if not leader.leads or leader.epoch != self.epoch:
            return
        positions = [leader.positions.get(each, -1) for each in self.in_sync if each != self.leader]
        before = leader.high_watermark
        leader.high_watermark = max(before, min([leader.log.log_end_offset, *positions]))
        if leader.high_watermark > before:
            leader.moved()
        below = leader.log.records[: leader.high_watermark]
        assert below[: len(self.committed)] == self.committed[: len(below)]
        if len(below) > len(self.committed):
            self.committed = below

    def check(self) -> None:
        for number, broker in enumerate(self.brokers):
            below = broker.log.records[: broker.high_watermark]
            assert len(below) == broker.high_watermark
            assert below == self.committed[: broker.high_watermark], f"broker {number}"
        for number in self.in_sync:
            assert self.brokers[number].log.records[: len(self.committed)] == self.committed, f"broker {number}"

    def heal(self) -> Iterator[tuple[str, int]]:
        for _ in range(60):
            for number in range(3):
                yield from ((action, number) for action in ("tell", "ask", "answer", "deliver"))


ACTIONS = ("append", "append", "tell", "elect", "break", "forget", "leave", "join", *("ask", "answer", "deliver") * 2)


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2)), max_size=150))
def test_all_records_below_a_replicas_high_watermark_are_committed(schedule: list[tuple[str, int]]) -> None:
    cluster = ModelCluster()
    for number in range(3):
        cluster.step("tell", number)
    for action, number in schedule:
        cluster.step(action, number)
        cluster.check()
    for action, number in cluster.heal():
        cluster.step(action, number)
        cluster.check()
    leader = cluster.brokers[cluster.leader]
    assert all(broker.log.records == leader.log.records for broker in cluster.brokers)
    assert {broker.high_watermark for broker in cluster.brokers} == {leader.log.log_end_offset}
    # An epoch without a record is its leader's alone.
    with_records = [each for each in leader.log.epochs if each[1] < leader.log.log_end_offset]
    assert all(
        [each for each in broker.log.epochs if each[1] < broker.log.log_end_offset] == with_records
        for broker in cluster.brokers
    )
