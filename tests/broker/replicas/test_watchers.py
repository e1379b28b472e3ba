import random
from collections.abc import Callable

import pytest

from ottla.broker.loop.turn import Turn
from ottla.broker.replicas.watchers import EVERYTHING, HIGH_WATERMARK, LOG_END, NOTHING, OffsetSignal
from ottla.wire.types import TopicPartition

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)


class Counter:
    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.calls = 0
        self.then = then

    def partition_moved(self) -> None:
        self.calls += 1
        self.then()


def test_a_watcher_is_called_for_its_own_partition_and_kind_of_move_only() -> None:
    signal = OffsetSignal(Turn())
    follower, consumer, other = Counter(), Counter(), Counter()
    signal.watch(A, LOG_END, follower)
    signal.watch(A, HIGH_WATERMARK, consumer)
    signal.watch(B, EVERYTHING, other)
    signal.notify(A, NOTHING)
    assert (follower.calls, consumer.calls, other.calls) == (0, 0, 0)
    signal.notify(A, LOG_END)
    assert (follower.calls, consumer.calls, other.calls) == (1, 0, 0)
    signal.notify(A, HIGH_WATERMARK)
    assert (follower.calls, consumer.calls, other.calls) == (1, 1, 0)
    signal.notify(A, EVERYTHING)
    assert (follower.calls, consumer.calls, other.calls) == (2, 2, 0)


def test_a_watcher_is_called_until_it_is_removed_and_removing_it_twice_is_harmless() -> None:
    signal = OffsetSignal(Turn())
    watcher = Counter()
    signal.watch(A, EVERYTHING, watcher)
    signal.notify(A, LOG_END)
    signal.notify(A, LOG_END)
    signal.unwatch(A, EVERYTHING, watcher)
    signal.unwatch(A, EVERYTHING, watcher)
    signal.notify(A, EVERYTHING)
    assert watcher.calls == 2
    assert len(signal) == 0


def test_watching_twice_calls_once() -> None:
    signal = OffsetSignal(Turn())
    watcher = Counter()
    signal.watch(A, LOG_END, watcher)
    signal.watch(A, LOG_END, watcher)
    signal.notify(A, LOG_END)
    assert watcher.calls == 1


def test_watchers_are_called_once_for_all_moves_when_the_turn_ends() -> None:
    turn = Turn()
    signal = OffsetSignal(turn)
    follower, consumer, other = Counter(), Counter(), Counter()
    signal.watch(A, LOG_END, follower)
    signal.watch(A, HIGH_WATERMARK, consumer)
    signal.watch(B, EVERYTHING, other)
    turn.begin()
    signal.notify(A, LOG_END)
    signal.notify(A, EVERYTHING)
    assert (follower.calls, consumer.calls, other.calls) == (0, 0, 0)
    turn.end()
    assert (follower.calls, consumer.calls, other.calls) == (1, 1, 0)
    signal.notify(A, LOG_END)
    assert (follower.calls, consumer.calls, other.calls) == (2, 1, 0)


def test_moves_by_a_called_watcher_belong_to_the_same_turn() -> None:
    turn = Turn()
    signal = OffsetSignal(turn)
    consumer = Counter()
    follower = Counter(lambda: signal.notify(B, HIGH_WATERMARK))
    signal.watch(A, LOG_END, follower)
    signal.watch(B, HIGH_WATERMARK, consumer)
    turn.begin()
    signal.notify(A, LOG_END)
    turn.end()
    assert (follower.calls, consumer.calls) == (1, 1)


def test_a_watcher_removed_by_one_called_before_it_is_not_called() -> None:
    signal = OffsetSignal(Turn())
    second = Counter()
    first = Counter(lambda: signal.unwatch(A, LOG_END, second))
    signal.watch(A, LOG_END, first)
    signal.watch(A, LOG_END, second)
    signal.notify(A, LOG_END)
    assert (first.calls, second.calls) == (1, 0)


def test_a_watcher_may_remove_itself_and_add_others_while_it_is_called() -> None:
    signal = OffsetSignal(Turn())
    late = Counter()
    once = Counter()

    def leave() -> None:
        signal.unwatch(A, LOG_END, once)
        signal.watch(A, LOG_END, late)

    once.then = leave
    signal.watch(A, LOG_END, once)
    signal.notify(A, LOG_END)
    assert (once.calls, late.calls) == (1, 0)
    signal.notify(A, LOG_END)
    assert (once.calls, late.calls) == (1, 1)


@pytest.mark.trials(few=10, soak=50)
def test_no_entry_is_kept_after_the_last_watcher_is_removed(trials: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(trials):
        signal = OffsetSignal(Turn())
        waiting: list[tuple[TopicPartition, int, Counter]] = []
        for _ in range(50):
            if waiting and chance.random() < 0.4:
                signal.unwatch(*waiting.pop(chance.randrange(len(waiting))))
            else:
                entry = (chance.choice([A, B]), chance.choice([LOG_END, HIGH_WATERMARK, EVERYTHING]), Counter())
                signal.watch(*entry)
                waiting.append(entry)
            assert len(signal) == sum(2 if what == EVERYTHING else 1 for _, what, _ in waiting)
        for entry in waiting:
            signal.unwatch(*entry)
        assert len(signal) == 0
