import random
from collections.abc import Iterable, Sequence

import pytest

from ottla.broker.fetch.sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    ROUND_MS,
    FetchContext,
    FetchKind,
    FetchSessionCache,
    SessionPartition,
    next_epoch,
)
from ottla.broker.loop.turn import Turn
from ottla.broker.replicas.reads import NO_REPLICA, ReadResult
from ottla.broker.replicas.watchers import EVERYTHING, HIGH_WATERMARK, OffsetSignal
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.types import TopicPartition

NAMES = 12
IDS = 13


def reading(
    error: ErrorCode = ErrorCode.NONE,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    size: int = 0,
    is_exhausted: bool = True,
    diverging_epoch: tuple[int, int] | None = None,
    preferred_read_replica: int = NO_REPLICA,
) -> ReadResult:
    return ReadResult(
        error,
        bytes(size),
        high_watermark,
        high_watermark,
        log_start_offset,
        is_exhausted,
        diverging_epoch,
        preferred_read_replica,
    )


NOTHING_NEW = reading()
FAILED = reading(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1, log_start_offset=-1)


def uuid(name: str) -> bytes:
    return name.encode().ljust(16, b"\1")


class Broker:
    """The cache, with what a broker would tell it."""

    def __init__(self, slots: int = 2) -> None:
        self.signal = OffsetSignal(Turn())
        ids = iter(range(1, 9999))
        self.cache = FetchSessionCache(slots, self.signal, lambda: next(ids))
        self.names = {uuid(name): name for name in "abc"}
        self.now_ms = 0

    def begin(
        self,
        *asked: tuple[str, int, int],
        session: tuple[int, int] = (NO_SESSION, INITIAL_EPOCH),
        forget: Iterable[tuple[str, int]] = (),
        version: int = NAMES,
        follower: bool = False,
    ) -> FetchContext | ErrorCode:
        by_topic: dict[str, list[FetchPartition]] = {}
        for topic, index, offset in asked:
            found = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100)
            by_topic.setdefault(topic, []).append(found)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchTopic(topic=name, topic_id=uuid(name), partitions=found) for name, found in by_topic.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic=name, topic_id=uuid(name), partitions=[index]) for name, index in forget
            ],
        )
        return self.cache.begin(
            request,
            version,
            EVERYTHING if follower else HIGH_WATERMARK,
            is_follower=follower,
            now_ms=self.now_ms,
            name_of=self.names.get,
        )

    def context(
        self,
        *asked: tuple[str, int, int],
        session: tuple[int, int] = (NO_SESSION, INITIAL_EPOCH),
        forget: Iterable[tuple[str, int]] = (),
        version: int = NAMES,
        follower: bool = False,
    ) -> FetchContext:
        begun = self.begin(*asked, session=session, forget=forget, version=version, follower=follower)
        assert isinstance(begun, FetchContext)
        return begun

    def create(self, *asked: tuple[str, int, int], version: int = NAMES, follower: bool = False) -> int:
        """A session whose partitions have nothing to tell."""
        return self.conclude(self.context(*asked, version=version, follower=follower))[1]

    def conclude(
        self, context: FetchContext, *readings: ReadResult, default: ReadResult = NOTHING_NEW
    ) -> tuple[ErrorCode, int, list[tuple[str | None, int]]]:
        """End a fetch: the n-th partition looked at gives the n-th reading."""
        looked_at = list(context.session.to_look_at)
        given = [*readings, *[default] * (len(looked_at) - len(readings))]
        error, session, named = context.conclude(zip(looked_at, given, strict=True), self.now_ms)
        context.end()
        return error, session, [(partition.topic, partition.partition) for partition, _ in named]

    def move(self, topic: str, index: int) -> None:
        self.signal.notify(TopicPartition(topic, index), HIGH_WATERMARK)


def to_look_at(context: FetchContext) -> list[tuple[str | None, int]]:
    return [(partition.topic, partition.partition) for partition in context.session.to_look_at]


def test_epochs_count_up_and_wrap_to_one() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, 0x7FFFFFFF, -1)] == [1, 2, 1, -1]


def test_a_response_without_a_session_names_all_partitions_and_no_session_is_kept() -> None:
    broker = Broker()
    context = broker.context(("a", 0, 5), ("b", 1, 6), session=(NO_SESSION, FINAL_EPOCH))
    assert context.kind is FetchKind.SESSIONLESS
    assert broker.conclude(context) == (ErrorCode.NONE, NO_SESSION, [("a", 0), ("b", 1)])
    assert len(broker.cache) == 0
    assert len(broker.signal) == 0


def test_a_full_request_is_answered_for_all_partitions_and_creates_a_session() -> None:
    broker = Broker()
    context = broker.context(("a", 0, 5), ("b", 1, 6))
    assert context.kind is FetchKind.FULL
    assert broker.conclude(context) == (ErrorCode.NONE, 1, [("a", 0), ("b", 1)])
    assert len(broker.cache) == 1


def test_an_incremental_request_looks_at_moved_partitions_alone() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 5), ("b", 1, 6), ("b", 2, 7))
    broker.move("b", 2)
    context = broker.context(session=(session, 1))
    assert to_look_at(context) == [("b", 2)]
    assert broker.conclude(context, reading(size=10, high_watermark=8)) == (ErrorCode.NONE, session, [("b", 2)])


def test_a_partition_with_a_new_position_is_looked_at_but_named_only_if_there_is_news() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 5), ("b", 0, 6))
    context = broker.context(("a", 0, 9), session=(session, 1))
    assert to_look_at(context) == [("a", 0)]
    assert next(iter(context.session.to_look_at)).fetch_offset == 9
    assert broker.conclude(context) == (ErrorCode.NONE, session, [])


@pytest.mark.parametrize(
    "result",
    [
        reading(size=1),
        reading(high_watermark=1),
        reading(log_start_offset=1),
        reading(diverging_epoch=(0, 0)),
        reading(preferred_read_replica=0),
        FAILED,
    ],
)
def test_news_is_records_offsets_divergence_and_errors(result: ReadResult) -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0))
    broker.move("a", 0)
    assert broker.conclude(broker.context(session=(session, 1)), result)[2] == [("a", 0)]


def test_offsets_are_named_once() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0))
    moved = reading(high_watermark=4, log_start_offset=2)
    for epoch, named in ((1, [("a", 0)]), (2, []), (3, [])):
        broker.move("a", 0)
        assert broker.conclude(broker.context(session=(session, epoch)), moved)[2] == named


def test_an_error_is_named_every_time_and_its_end_too() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0))
    broker.move("a", 0)
    assert broker.conclude(broker.context(session=(session, 1)), FAILED)[2] == [("a", 0)]
    assert broker.conclude(broker.context(session=(session, 2)), FAILED)[2] == [("a", 0)]
    assert broker.conclude(broker.context(session=(session, 3)), NOTHING_NEW)[2] == [("a", 0)]
    assert broker.conclude(broker.context(session=(session, 4)))[2] == []


def test_records_that_the_client_did_not_confirm_are_looked_at_again() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0))
    broker.move("a", 0)
    broker.conclude(broker.context(session=(session, 1)), reading(size=5))
    assert to_look_at(broker.context(session=(session, 2))) == [("a", 0)]


def test_records_that_did_not_fit_are_looked_at_again() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0), ("b", 0, 0))
    broker.move("a", 0)
    broker.move("b", 0)
    broker.conclude(broker.context(session=(session, 1)), NOTHING_NEW, reading(is_exhausted=False))
    assert to_look_at(broker.context(session=(session, 2))) == [("b", 0)]


def test_a_partition_that_gave_records_comes_last_the_next_time() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0), ("b", 0, 0))
    broker.move("a", 0)
    broker.move("b", 0)
    broker.conclude(broker.context(session=(session, 1)), reading(size=5), reading(is_exhausted=False))
    context = broker.context(session=(session, 2))
    assert to_look_at(context) == [("b", 0), ("a", 0)]
    broker.conclude(context, reading(size=5), reading(is_exhausted=False))
    assert to_look_at(broker.context(session=(session, 3))) == [("a", 0), ("b", 0)]


def test_partitions_are_added_and_forgotten() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0), ("a", 1, 0))
    context = broker.context(("b", 0, 3), session=(session, 1), forget=[("a", 1), ("c", 7)])
    broker.conclude(context)
    for topic, index in (("a", 0), ("a", 1), ("b", 0)):
        broker.move(topic, index)
    assert to_look_at(broker.context(session=(session, 2))) == [("a", 0), ("b", 0)]
    assert len(broker.signal) == 2


def test_a_session_without_partitions_ends() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0))
    context = broker.context(session=(session, 1), forget=[("a", 0)])
    assert context.kind is FetchKind.SESSIONLESS
    assert broker.conclude(context) == (ErrorCode.NONE, NO_SESSION, [])
    assert broker.begin(session=(session, 2)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_unknown_session_and_a_wrong_epoch_are_refused_and_the_session_goes_on() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0))
    assert broker.begin(session=(99, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.begin(session=(session, 2)) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert isinstance(broker.begin(session=(session, 1)), FetchContext)
    assert broker.begin(session=(session, 1)) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize("epoch", [INITIAL_EPOCH, FINAL_EPOCH])
def test_a_full_request_ends_the_session_it_names(epoch: int) -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0))
    _, new, _ = broker.conclude(broker.context(("b", 0, 0), session=(session, epoch)))
    assert new == (NO_SESSION if epoch == FINAL_EPOCH else 2)
    assert broker.begin(session=(session, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(broker.signal) == len(broker.cache)


def test_a_session_keeps_to_names_or_to_ids() -> None:
    broker = Broker()
    by_name = broker.create(("a", 0, 0), version=NAMES)
    by_id = broker.create(("a", 0, 0), version=IDS)
    assert broker.begin(session=(by_name, 1), version=IDS) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert broker.begin(session=(by_id, 1), version=NAMES) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert isinstance(broker.begin(session=(by_id, 1), version=IDS), FetchContext)


def test_an_unknown_topic_id_is_watched_once_it_has_a_name() -> None:
    broker = Broker()
    unknown = reading(error=ErrorCode.UNKNOWN_TOPIC_ID, high_watermark=-1, log_start_offset=-1)
    context = broker.context(("new", 0, 0), version=IDS)
    assert to_look_at(context) == [(None, 0)]
    session = broker.conclude(context, unknown)[1]
    assert broker.conclude(broker.context(session=(session, 1), version=IDS), unknown)[2] == [(None, 0)]
    broker.names[uuid("new")] = "new"
    context = broker.context(session=(session, 2), version=IDS)
    assert to_look_at(context) == [("new", 0)]
    assert broker.conclude(context)[2] == [("new", 0)]
    broker.move("new", 0)
    assert to_look_at(broker.context(session=(session, 3), version=IDS)) == [("new", 0)]


def test_a_waiting_fetch_is_called_for_its_own_partitions_until_it_ends() -> None:
    broker = Broker()
    moved: list[SessionPartition] = []
    context = broker.context(("a", 0, 0), ("b", 0, 0), session=(NO_SESSION, FINAL_EPOCH))
    context.wait(moved.append)
    broker.move("b", 0)
    broker.move("c", 0)
    assert [partition.topic for partition in moved] == ["b"]
    context.end()
    broker.move("b", 0)
    assert len(moved) == 1
    assert len(broker.signal) == 0


def test_a_later_request_takes_the_session_over_from_one_that_waits() -> None:
    broker = Broker()
    session = broker.create(("a", 0, 0))
    first_moved: list[SessionPartition] = []
    second_moved: list[SessionPartition] = []
    first = broker.context(session=(session, 1))
    first.wait(first_moved.append)
    second = broker.context(session=(session, 2))
    second.wait(second_moved.append)
    assert broker.conclude(first) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session, [])
    broker.move("a", 0)
    assert (len(first_moved), len(second_moved)) == (0, 1)


def test_a_session_that_is_evicted_while_a_fetch_waits_is_served_to_its_end() -> None:
    broker = Broker(slots=1)
    session = broker.create(("a", 0, 0))
    moved: list[SessionPartition] = []
    waiting = broker.context(session=(session, 1))
    waiting.wait(moved.append)
    broker.now_ms = EVICTION_MS + 1
    broker.create(("b", 0, 0), ("c", 0, 0))
    assert broker.begin(session=(session, 2)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    broker.move("a", 0)
    assert len(moved) == 1
    assert broker.conclude(waiting, reading(size=3)) == (ErrorCode.NONE, session, [("a", 0)])
    assert len(broker.signal) == 2


def test_no_session_is_made_where_none_may_be_evicted() -> None:
    broker = Broker(slots=1)
    first = broker.create(("a", 0, 0))
    broker.now_ms = EVICTION_MS
    assert broker.create(("b", 0, 0), ("b", 1, 0)) == NO_SESSION
    assert isinstance(broker.begin(session=(first, 1)), FetchContext)
    assert len(broker.signal) == 1


def test_a_stale_session_is_evicted_first() -> None:
    broker = Broker(slots=2)
    used = broker.create(("a", 0, 0))
    stale = broker.create(("a", 0, 0), ("a", 1, 0))
    broker.now_ms = EVICTION_MS
    broker.conclude(broker.context(session=(used, 1)))
    broker.now_ms = EVICTION_MS + 1
    assert broker.create(("b", 0, 0)) != NO_SESSION
    assert broker.begin(session=(stale, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(broker.begin(session=(used, 2)), FetchContext)
    assert len(broker.cache) == 2


def test_an_old_session_gives_way_to_a_larger_one_only() -> None:
    broker = Broker(slots=1)
    old = broker.create(("a", 0, 0), ("a", 1, 0))
    broker.now_ms = EVICTION_MS
    broker.conclude(broker.context(session=(old, 1)))
    broker.now_ms = EVICTION_MS + 1
    assert broker.create(("b", 0, 0)) == NO_SESSION
    assert broker.create(("b", 0, 0), ("b", 1, 0), ("b", 2, 0)) != NO_SESSION
    assert broker.begin(session=(old, 2)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_followers_session_evicts_a_consumers_but_not_the_reverse() -> None:
    broker = Broker(slots=1)
    consumer = broker.create(("a", 0, 0), ("a", 1, 0))
    follower = broker.create(("b", 0, 0), follower=True)
    assert follower != NO_SESSION
    assert broker.begin(session=(consumer, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.create(*(("c", index, 0) for index in range(9))) == NO_SESSION
    assert broker.create(("c", 0, 0), ("c", 1, 0), follower=True) == NO_SESSION


def test_without_slots_there_are_no_sessions() -> None:
    assert Broker(slots=0).create(("a", 0, 0)) == NO_SESSION


@pytest.mark.trials(few=10, soak=50)
@pytest.mark.once
def test_a_session_never_misses_a_move_and_no_dead_watcher_is_kept(trials: int, seed: int) -> None:
    """Against a broker that looks at every partition every time."""
    chance = random.Random(seed)
    for _ in range(trials):
        broker = Broker(slots=9)
        ends = {(topic, index): 0 for topic in "abc" for index in range(3)}
        positions: dict[tuple[str, int], int] = {}
        session, epoch = NO_SESSION, INITIAL_EPOCH
        for _ in range(30):
            for key in chance.sample(sorted(ends), 2):
                ends[key] += chance.randrange(3)
                broker.move(*key)
            asked: Sequence[tuple[str, int]] = chance.sample(sorted(ends), 2)
            gone = [key for key in positions if key not in asked and chance.random() < 0.2]
            for key in gone:
                del positions[key]
            for key in asked:
                positions[key] = chance.randrange(ends[key] + 1)
            if session == NO_SESSION:
                gone = []
                positions = {key: positions[key] for key in asked}
            context = broker.context(*((*key, positions[key]) for key in asked), session=(session, epoch), forget=gone)
            found = set()
            readings = []
            for partition in context.session.to_look_at:
                key = (partition.topic or "", partition.partition)
                size = ends[key] - partition.fetch_offset
                assert partition.fetch_offset == positions[key]
                if size:
                    found.add(key)
                readings.append((partition, reading(high_watermark=ends[key], size=size, is_exhausted=not size)))
            assert found == {key for key, offset in positions.items() if ends[key] > offset}
            session = context.conclude(readings, 0)[1]
            context.end()
            epoch = next_epoch(epoch)
            assert len(broker.signal) == len(positions)


def test_all_partitions_of_a_follower_are_looked_at_within_a_round_though_nothing_moves() -> None:
    broker = Broker()
    asked = [("a", index, 0) for index in range(10)]
    session = broker.create(*asked, follower=True)
    seen: list[tuple[str | None, int]] = []
    for epoch in range(1, 5):
        broker.now_ms += ROUND_MS // 4
        context = broker.context(session=(session, epoch), follower=True)
        looked_at = [(each.topic, each.partition) for each in context.session.to_look_at]
        assert 2 <= len(looked_at) <= 3
        seen += looked_at
        assert broker.conclude(context)[2] == []
    assert {index for _, index in seen} == set(range(10))


def test_after_a_round_all_partitions_of_a_follower_are_looked_at_and_those_of_a_consumer_are_not() -> None:
    broker = Broker()
    asked = [("a", index, 0) for index in range(10)]
    follower, consumer = broker.create(*asked, follower=True), broker.create(*asked)
    broker.now_ms += 10 * ROUND_MS
    gone = broker.context(session=(follower, 1), forget=[("a", 3)], follower=True).session
    assert sorted(each.partition for each in gone.to_look_at) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert not broker.context(session=(consumer, 1)).session.to_look_at
    broker.now_ms += ROUND_MS // 2
    rest = broker.context(session=(follower, 2), forget=[("a", index) for index in range(9)], follower=True).session
    broker.now_ms += ROUND_MS
    broker.context(session=(follower, 3), follower=True)
    assert [each.partition for each in rest.to_look_at] == [9]
