"""Watchers of partitions: they are called when the log end or the high watermark of a partition moves.

Owns the watchers of each partition's log end (followers) and high watermark (consumers, acks=all). Must not know why
anybody waits, nor anything of a partition but its name. `Partition` returns what moved, and its caller calls `notify`.
Counterpart in Kafka: DelayedOperationPurgatory.

During a connection's turn no watcher is called, because the client that moved the partitions is answered first. They
are called when the turn ends, or at once if there is no turn.
"""

from typing import Final, Protocol

from ottla.broker.loop.turn import Turn
from ottla.wire.types import TopicPartition

# What moved, as bits. A change of role, a truncation or a failure moves EVERYTHING.
NOTHING: Final = 0
LOG_END: Final = 1
HIGH_WATERMARK: Final = 2
EVERYTHING: Final = LOG_END | HIGH_WATERMARK
# Not for watchers: the leader proposes other in-sync replicas to the controller.
ISR_PROPOSED: Final = 4


class Watcher(Protocol):
    """An object that waits for a partition. It may add and remove watchers while it is called."""

    def partition_moved(self) -> None:
        """Look at the partition, which moved."""


class OffsetSignal:
    """Watchers by partition. Adding, removing, and notifying without watchers take one or two dict operations."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._log_end: dict[TopicPartition, dict[Watcher, None]] = {}
        self._high_watermark: dict[TopicPartition, dict[Watcher, None]] = {}
        self._held: dict[TopicPartition, int] = {}

    def watch(self, topic_partition: TopicPartition, what: int, watcher: Watcher) -> None:
        """Call `watcher` whenever some of `what` moves, until `unwatch`."""
        for watchers in self._of(what):
            watchers.setdefault(topic_partition, {})[watcher] = None

    def unwatch(self, topic_partition: TopicPartition, what: int, watcher: Watcher) -> None:
        """Never call `watcher` again. Harmless if it does not watch."""
        for watchers in self._of(what):
            of_partition = watchers.get(topic_partition)
            if of_partition is not None:
                of_partition.pop(watcher, None)
                if not of_partition:
                    del watchers[topic_partition]

    def notify(self, topic_partition: TopicPartition, moved: int) -> None:
        """Call the watchers of what moved, now or when the turn ends."""
        if moved & LOG_END and self._log_end and topic_partition in self._log_end:
            self._call_or_hold(topic_partition, LOG_END)
        if moved & HIGH_WATERMARK and self._high_watermark and topic_partition in self._high_watermark:
            self._call_or_hold(topic_partition, HIGH_WATERMARK)

    def _call_or_hold(self, topic_partition: TopicPartition, moved: int) -> None:
        held = self._held
        if not self._turn.is_on:
            self._call(topic_partition, moved)
        elif held:
            held[topic_partition] = held.get(topic_partition, NOTHING) | moved
        else:
            held[topic_partition] = moved
            self._turn.at_end(self._release)

    def _release(self) -> None:
        held, self._held = self._held, {}
        for topic_partition, moved in held.items():
            self._call(topic_partition, moved)

    def __len__(self) -> int:
        return sum(map(len, self._log_end.values())) + sum(map(len, self._high_watermark.values()))

    def _of(self, what: int) -> list[dict[TopicPartition, dict[Watcher, None]]]:
        log_end = [self._log_end] if what & LOG_END else []
        return [*log_end, self._high_watermark] if what & HIGH_WATERMARK else log_end

    def _call(self, topic_partition: TopicPartition, moved: int) -> None:
        for watchers in self._of(moved):
            of_partition = watchers.get(topic_partition, {})
            for watcher in tuple(of_partition):
                # An earlier watcher may have removed this one.
                if watcher in of_partition:
                    watcher.partition_moved()
