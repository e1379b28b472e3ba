from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.follower_fetch import (
    Append,
    Decision,
    FetchSettings,
    FollowerFetch,
    Question,
    StartAt,
    TruncateTo,
    truncation_offset,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.types import TopicPartition

ID = b"\1" * 16
HERE = TopicPartition("t", 0)
BACKOFF = 1.0
SETTINGS = FetchSettings(1, 17, 9, 500, 1, 10_000, 1000, BACKOFF)


class ModelEpochs(NamedTuple):
    latest: int


class ModelLog:
    """A log whose records are the epochs that wrote them and a byte each."""

    def __init__(self, *epochs: int, start: int = 0) -> None:
        self.topic_id: bytes | None = ID
        self.log_start_offset = start
        self.records: list[tuple[int, int]] = []
        self.epochs: list[tuple[int, int]] = []
        self.first = start
        for epoch in epochs:
            self.append(epoch, 0)

    @property
    def log_end_offset(self) -> int:
        return self.first + len(self.records)

    @property
    def leader_epochs(self) -> ModelEpochs:
        return ModelEpochs(self.epochs[-1][0] if self.epochs else -1)

    def begin(self, epoch: int) -> None:
        if self.leader_epochs.latest < epoch:
            self.epochs = [each for each in self.epochs if each[1] < self.log_end_offset]
            self.epochs.append((epoch, self.log_end_offset))

    def append(self, epoch: int, value: int) -> None:
        self.begin(epoch)
        self.records.append((epoch, value))

    def truncate(self, offset: int) -> None:
        del self.records[max(0, offset - self.first) :]
        self.epochs = [each for each in self.epochs if each[1] < self.log_end_offset]

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch == self.leader_epochs.latest and epoch >= 0:
            return epoch, self.log_end_offset
        above = [each for each in self.epochs if each[0] > epoch]
        if epoch < 0 or not above:
            return -1, -1
        upto = [each for each in self.epochs if each[0] <= epoch]
        return upto[-1][0] if upto else epoch, above[0][1]


def fetcher(log: ModelLog, epoch: int = 5, high_watermark: int = 0) -> FollowerFetch:
    fetch = FollowerFetch(SETTINGS)
    fetch.follow(HERE, epoch, log, high_watermark)
    return fetch


def ask(fetch: FollowerFetch, now: float = 0.0) -> Question:
    question = fetch.next_question(now, 7)
    assert question is not None
    return question


def fetched(**data: object) -> FetchResponse:
    given = {"error_code": 0, "high_watermark": -1, "records": b"", "log_start_offset": 0} | data
    answer = PartitionData(partition_index=0, **given)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=[answer])])


def located(offset: int, error: int = 0) -> ListOffsetsResponse:
    answer = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[answer])])


def decide(fetch: FollowerFetch, question: Question, response: FetchResponse | ListOffsetsResponse) -> list[Decision]:
    return list(fetch.decide(question, response, 0.0))


# Decisions on answers


def test_records_are_appended_with_what_the_leader_says_of_itself() -> None:
    fetch = fetcher(ModelLog(1))
    (decision,) = decide(fetch, ask(fetch), fetched(records=b"r", high_watermark=3, log_start_offset=2))
    assert isinstance(decision, Append)
    assert (bytes(decision.records), decision.high_watermark, decision.log_start_offset) == (b"r", 3, 2)


def test_an_empty_answer_still_tells_the_high_watermark() -> None:
    fetch = fetcher(ModelLog(1))
    (decision,) = decide(fetch, ask(fetch), fetched(records=None, high_watermark=3))
    assert isinstance(decision, Append)
    assert (len(decision.records), decision.high_watermark) == (0, 3)


@pytest.mark.parametrize(
    ("own", "epoch", "leader_end", "offset"),
    [
        # The leader's epoch 2 ends before the follower's.
        ((1, 2, 2, 2), 2, 2, 2),
        # The follower's ends first; what follows is of an epoch that the leader does not have.
        ((1, 2, 4, 4), 2, 9, 2),
        # The leader has an epoch that the follower lacks: only the one before may be common.
        ((1, 1, 4), 3, 9, 2),
        # All that the follower has is newer than what the leader names.
        ((3, 3), 2, 1, 0),
        # It ends before the leader's end.
        ((2,), 2, 9, 1),
    ],
)
def test_a_log_that_parts_is_truncated_to_what_may_be_common(
    own: tuple[int, ...], epoch: int, leader_end: int, offset: int
) -> None:
    log = ModelLog(*own)
    fetch = fetcher(log)
    diverging = EpochEndOffset(epoch=epoch, end_offset=leader_end)
    (decision,) = decide(fetch, ask(fetch), fetched(records=b"r", diverging_epoch=diverging))
    assert isinstance(decision, TruncateTo)
    assert decision.offset == truncation_offset(log, epoch, leader_end) == offset


def test_without_an_epoch_of_its_own_a_log_is_truncated_where_the_leader_says() -> None:
    assert truncation_offset(ModelLog(), 3, 4) == 0
    log = ModelLog(1, 1, 1)
    log.epochs.clear()
    assert truncation_offset(log, 3, 2) == 2


def test_a_log_that_lost_its_epochs_keeps_what_is_committed() -> None:
    log = ModelLog(1, 1, 1)
    log.epochs.clear()
    fetch = FollowerFetch(SETTINGS)
    first = fetch.follow(HERE, 5, log, 2)
    assert first is not None
    assert first.offset == 2
    assert fetch.follow(HERE, 5, log, 3) is None
    assert fetch.follow(HERE, 5, ModelLog(1, 1, 1), 0) is None


def test_out_of_range_above_the_leaders_end_the_log_is_cut_there() -> None:
    fetch = fetcher(ModelLog(1, 1, 1))
    assert decide(fetch, ask(fetch), fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)) == []
    question = ask(fetch)
    assert isinstance(question.request, ListOffsetsRequest)
    (asked,) = question.request.topics[0].partitions
    assert (asked.timestamp, asked.current_leader_epoch, question.request.replica_id, question.version) == (-1, 5, 1, 9)
    (decision,) = decide(fetch, question, located(2))
    assert isinstance(decision, TruncateTo)
    assert decision.offset == 2
    assert isinstance(ask(fetch).request, FetchRequest)


def test_out_of_range_below_the_leaders_start_the_log_begins_anew_there() -> None:
    fetch = fetcher(ModelLog(1, 1, 1))
    decide(fetch, ask(fetch), fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert decide(fetch, ask(fetch), located(9)) == []
    question = ask(fetch)
    assert isinstance(question.request, ListOffsetsRequest)
    assert question.request.topics[0].partitions[0].timestamp == -2
    (decision,) = decide(fetch, question, located(7))
    assert isinstance(decision, StartAt)
    assert decision.offset == 7
    assert isinstance(ask(fetch).request, FetchRequest)


def test_what_is_in_range_again_is_fetched_after_a_rest() -> None:
    fetch = fetcher(ModelLog(1, 1, 1))
    decide(fetch, ask(fetch), fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    decide(fetch, ask(fetch), located(9))
    assert decide(fetch, ask(fetch), located(3)) == []
    assert fetch.next_question(BACKOFF / 2, 7) is None
    assert isinstance(ask(fetch, BACKOFF).request, FetchRequest)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_error_makes_a_partition_rest_and_then_fetch(step: int) -> None:
    fetch = fetcher(ModelLog(1))
    error = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if step == 1:
        assert decide(fetch, ask(fetch), fetched(error_code=error)) == []
    else:
        decide(fetch, ask(fetch), fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        if step == 3:
            decide(fetch, ask(fetch), located(9))
        assert decide(fetch, ask(fetch), located(-1, error)) == []
    assert fetch.next_question(0.0, 7) is None
    assert fetch.wakes_at() == BACKOFF
    assert isinstance(ask(fetch, BACKOFF).request, FetchRequest)


def test_an_error_of_the_whole_answer_makes_all_rest() -> None:
    fetch = fetcher(ModelLog(1))
    assert decide(fetch, ask(fetch), FetchResponse(error_code=ErrorCode.UNKNOWN_TOPIC_ID, responses=())) == []
    assert fetch.wakes_at() == BACKOFF


def test_resting_does_not_begin_again_while_it_lasts() -> None:
    fetch = fetcher(ModelLog(1))
    fetch.rest_all(0.0)
    fetch.rest_all(BACKOFF / 2)
    assert fetch.wakes_at() == BACKOFF


def test_who_is_fenced_is_dropped() -> None:
    fetch = fetcher(ModelLog(1))
    assert decide(fetch, ask(fetch), fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH)) == []
    assert len(fetch) == 0
    assert fetch.wakes_at() == float("inf")


def test_an_answer_decides_nothing_once_another_epoch_has_begun() -> None:
    log = ModelLog(1)
    fetch = fetcher(log)
    question = ask(fetch)
    fetch.follow(HERE, 6, log, 0)
    for response in (fetched(records=b"r"), fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH)):
        assert decide(fetch, question, response) == []
    fetch.unfollow(HERE)
    assert decide(fetch, question, fetched(records=b"r")) == []


def test_an_answer_decides_nothing_for_a_log_that_ends_elsewhere_now() -> None:
    log = ModelLog(1)
    fetch = fetcher(log)
    question = ask(fetch)
    log.append(1, 0)
    assert decide(fetch, question, fetched(records=b"r")) == []


def test_each_decision_is_made_when_the_one_before_is_carried_out() -> None:
    fetch = fetcher(ModelLog(1))
    question = ask(fetch)
    response = fetched(records=b"r")
    twice = FetchResponse(responses=[*response.responses, *response.responses])
    decisions = fetch.decide(question, twice, 0.0)
    assert isinstance(next(decisions), Append)
    fetch.unfollow(HERE)
    assert list(decisions) == []


def test_what_nobody_asked_for_is_left_out() -> None:
    fetch = fetcher(ModelLog(1))
    answer = PartitionData(partition_index=1, error_code=0, high_watermark=0, records=b"r")
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=[answer])])
    assert decide(fetch, ask(fetch), response) == []


def test_who_got_records_is_asked_for_last() -> None:
    fetch = FollowerFetch(SETTINGS)
    for index in range(3):
        fetch.follow(TopicPartition("t", index), 5, ModelLog(1), 0)
    decide(fetch, ask(fetch), fetched(records=b"r"))
    request = ask(fetch).request
    assert isinstance(request, FetchRequest)
    assert [each.partition for each in request.topics[0].partitions] == [1, 2, 0]


# Any schedule


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

    def handle(self, sender: int, request: FetchRequest) -> FetchResponse:
        (asked,) = request.topics[0].partitions
        offset, log = asked.fetch_offset, self.log
        if not self.leads or asked.current_leader_epoch > self.epoch:
            return fetched(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
        if asked.current_leader_epoch < self.epoch:
            return fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH)
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(asked.last_fetched_epoch)
            assert end >= 0
            if epoch < asked.last_fetched_epoch or end < offset:
                return fetched(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end))
        assert offset <= log.log_end_offset
        self.positions[sender] = offset
        data = b"".join(bytes(record) for record in log.records[offset : offset + 2])
        return fetched(records=data, high_watermark=self.high_watermark)

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
        elif action == "tell":
            broker.told(self.leader, self.epoch)
        elif action == "elect" and number in self.in_sync:
            self.leader, self.epoch = number, self.epoch + 1
        elif action == "restart":
            broker.question = broker.answer = None
        elif action == "leave" and self.brokers[self.leader].epoch == self.epoch and number != self.leader:
            self.in_sync.discard(number)
        elif action == "join":
            self.join(number)
        elif action == "ask" and broker.question is None:
            question = broker.fetch.next_question(self.now, 7)
            if question is not None:
                broker.question = broker.leader, question
        elif action == "answer" and broker.question is not None and broker.answer is None:
            to, question = broker.question
            assert isinstance(question.request, FetchRequest)
            broker.answer = self.brokers[to].handle(number, question.request)
        elif action == "deliver" and broker.question is not None and broker.answer is not None:
            for decision in broker.fetch.decide(broker.question[1], broker.answer, self.now):
                broker.carry_out(decision)
            broker.question = broker.answer = None
        self.commit()

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
        leader.high_watermark = max(leader.high_watermark, min([leader.log.log_end_offset, *positions]))
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


ACTIONS = ("append", "append", "tell", "elect", "restart", "leave", "join", *("ask", "answer", "deliver") * 2)


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2)), max_size=150))
def test_no_replica_ever_holds_below_its_high_watermark_what_is_not_committed(schedule: list[tuple[str, int]]) -> None:
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
    # An epoch without a record is its leader's alone.
    with_records = [each for each in leader.log.epochs if each[1] < leader.log.log_end_offset]
    assert all(
        [each for each in broker.log.epochs if each[1] < broker.log.log_end_offset] == with_records
        for broker in cluster.brokers
    )
