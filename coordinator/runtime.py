"""The runtime of a coordinator: the partitions of an internal topic that it serves, and the effects of its decisions.

Owns which partitions are led, loading or neither, which partition keeps a key, and how effects are carried out:
appends, replies, timers. Must not know what a shard keeps, any message, or how a log is written: `Shard` and
`CoordinatorLog` say what it needs of them. Counterparts in Kafka: CoordinatorRuntime, and the purgatories of the
classic coordinator.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

import trio

from ottla.coordinator.effects import Append, CancelTimer, Decision, Effect, Producer, Record, Reply, SetTimer
from ottla.coordinator.timers import CallLater, Timers
from ottla.wire.errors import DecodeError, ErrorCode


class CoordinatorLog(Protocol):
    """Appends to the internal topic."""

    def append(
        self,
        partition: int,
        records: Sequence[Record],
        done: Callable[[ErrorCode], None],
        producer: Producer | None = None,
    ) -> None:
        """Append the records in one batch. Calls `done` once, when it is committed or has failed. Raises nothing.

        With a producer, the batch is part of the producer's transaction. Appends keep their order.
        """


class Shard(Protocol):
    """The state of one partition. A method that takes a decision decides one event."""

    def replay(self, key: bytes, value: bytes | None, now_ms: int, offset: int, producer_id: int | None = None) -> None:
        """Apply one record. With a producer id it is part of a transaction that is still open.

        A record of a transaction may come after later ones: of each key the record with the highest offset counts.
        Raises DecodeError for a record that cannot be read.
        """

    def loaded(self, decision: Decision) -> int:
        """Begin to serve, because all records are replayed. Returns how many things are kept here."""
        ...

    def unload(self, decision: Decision) -> None:
        """Answer all parked requests, because this broker does not lead the partition any more."""

    def timer_fired(self, decision: Decision, key: Any) -> None:
        """Decide what follows from a timer that is due."""


S = TypeVar("S", bound=Shard)
_NO_OTHERS: Final = MappingProxyType[type, Callable[..., None]]({})


class LedPartition(Generic[S]):
    """A partition of the internal topic while this broker leads it."""

    __slots__ = ("leader_epoch", "loading", "number", "shard")

    def __init__(self, number: int, leader_epoch: int, shard: S) -> None:
        self.number = number
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.loading = True


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """Java's String.hashCode, made positive as Kafka does it."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    # The sign bit set means a negative number. The lowest negative number has no positive counterpart: Kafka takes 0.
    if value & 0x80000000:
        value = 0x100000000 - value
    return value & 0x7FFFFFFF


class CoordinatorRuntime(Generic[S]):
    """The shards of all partitions of an internal topic that this broker leads.

    `contents` names the things that shards keep, for the log. `partition_count` returns None without the topic.
    `others` carries out the effects that the runtime does not know, by their types. With `needs_all_records` a record
    that cannot be read ends the loading: `replay` raises DecodeError. Without it such a record is ignored.
    """

    def __init__(
        self,
        topic: str,
        contents: str,
        logger: logging.Logger,
        log: CoordinatorLog,
        new_shard: Callable[[], S],
        *,
        now_ms: Callable[[], int],
        call_later: CallLater,
        partition_count: Callable[[], int | None],
        others: Mapping[type, Callable[[LedPartition[S], Any], None]] = _NO_OTHERS,
        needs_all_records: bool = False,
    ) -> None:
        self._topic = topic
        self._contents = contents
        self._logger = logger
        self._log = log
        self._new_shard = new_shard
        self._now_ms = now_ms
        self._partition_count = partition_count
        self._others = others
        self._needs_all_records = needs_all_records
        self._partitions: dict[int, LedPartition[S]] = {}
        self._timers: Timers[tuple[LedPartition[S], Hashable]] = Timers(call_later, self._fire)
        self._decided: deque[tuple[LedPartition[S], Sequence[Effect]]] = deque()
        self._performing = False
        self._active = True

    # ------------------------------------------------------------------------------------------------------ shards

    def partition_for(self, key: str) -> int | None:
        """The partition that keeps a key. None without the topic."""
        count = self._partition_count()
        return None if count is None else java_hash(key) % count

    def find(self, key: str) -> LedPartition[S] | ErrorCode:
        """The loaded partition that keeps a key, or the reason why there is none here."""
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        number = self.partition_for(key)
        led = None if number is None else self._partitions.get(number)
        if led is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if led.loading else led

    def served(self) -> list[LedPartition[S]]:
        """All loaded partitions."""
        return [led for led in self._partitions.values() if self._active and not led.loading]

    def status(self) -> ErrorCode:
        """The error of a request about all keys: after the shutdown, or while a partition is loading."""
        if not self._active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        loading = any(led.loading for led in self._partitions.values())
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE

    # ----------------------------------------------------------------------------------------------------- loading

    def begin_loading(self, partition: int, leader_epoch: int) -> bool:
        """Lead a partition. Returns whether to load it; until `loaded` its keys cannot be found.

        False if the same or a newer epoch is known. False too if the partition is loaded with an older epoch, because
        this broker has led it all along: its shard holds what the log holds.
        """
        known = self._partitions.get(partition)
        if known is not None and (not known.loading or known.leader_epoch >= leader_epoch):
            known.leader_epoch = max(known.leader_epoch, leader_epoch)
            return False
        self._partitions[partition] = LedPartition(partition, leader_epoch, self._new_shard())
        return True

    def is_loading(self, partition: int, leader_epoch: int) -> bool:
        """Whether this epoch of a partition is still being loaded."""
        return self._loading(partition, leader_epoch) is not None

    def replay(
        self,
        partition: int,
        leader_epoch: int,
        key: bytes,
        value: bytes | None,
        offset: int,
        producer_id: int | None = None,
    ) -> None:
        """Apply one record. With a producer id it is part of a transaction that is still open at the end of the log.

        Nothing happens unless this epoch is loading. Raises DecodeError for a record that cannot be read, if the
        runtime needs all records.
        """
        led = self._loading(partition, leader_epoch)
        if led is None:
            return
        try:
            led.shard.replay(key, value, self._now_ms(), offset, producer_id)
        except DecodeError as error:
            if self._needs_all_records:
                raise
            self._logger.warning("Ignoring a record while loading %s-%d: %s", self._topic, partition, error)

    def loaded(self, partition: int, leader_epoch: int) -> None:
        """Serve a partition, because all records are replayed. Nothing happens unless this epoch is loading."""
        led = self._loading(partition, leader_epoch)
        if led is not None:
            led.loading = False
            count = self.decide(led, led.shard.loaded)
            level = logging.INFO if count else logging.DEBUG
            self._logger.log(level, "Loaded %d %s of %s-%d", count, self._contents, self._topic, partition)

    def unload(self, partition: int, leader_epoch: int) -> None:
        """Lead a partition no longer. Nothing happens if a newer epoch is known."""
        led = self._partitions.get(partition)
        if led is None or leader_epoch < led.leader_epoch:
            return
        # Later decisions of this shard, such as the ends of its appends, send replies and set no timers.
        self.decide(led, led.shard.unload)
        del self._partitions[partition]
        self._timers.cancel_all(lambda key: key[0] is led)

    def shut_down(self) -> None:
        """Unload everything and refuse all requests from now on."""
        self._active = False
        for led in list(self._partitions.values()):
            self.unload(led.number, led.leader_epoch)

    def _loading(self, partition: int, leader_epoch: int) -> LedPartition[S] | None:
        led = self._partitions.get(partition)
        return led if led is not None and led.loading and led.leader_epoch == leader_epoch else None

    # --------------------------------------------------------------------------------------------------- decisions

    def decide(self, led: LedPartition[S], event: Callable[..., Any], *arguments: Any) -> Any:
        """Return `event(decision, *arguments)`, and carry out the effects of the decision in their order."""
        decision = Decision(self._now_ms())
        result = event(decision, *arguments)
        self._decided.append((led, decision.effects))
        # An effect may cause an event, such as an append that is committed at once. Its effects come after these.
        if not self._performing:
            self._performing = True
            while self._decided:
                led, effects = self._decided.popleft()
                for effect in effects:
                    try:
                        self._perform(led, effect)
                    except Exception:
                        self._logger.exception("A bug: an effect failed. The next effects are carried out")
            self._performing = False
        return result

    def _perform(self, led: LedPartition[S], effect: Effect) -> None:
        if isinstance(effect, Reply):
            effect.send(effect.response)
        elif isinstance(effect, Append):
            self._log.append(led.number, effect.records, partial(self.decide, led, effect.then), effect.producer)
        elif isinstance(effect, CancelTimer):
            self._timers.cancel((led, effect.key))
        elif not isinstance(effect, SetTimer):
            self._others[type(effect)](led, effect)
        elif self._partitions.get(led.number) is led:
            self._timers.set((led, effect.key), effect.delay_ms)

    def _fire(self, key: tuple[LedPartition[S], Hashable]) -> None:
        led, timer = key
        self.decide(led, led.shard.timer_fired, timer)

    async def run(self, interval_ms: int, event: Callable[[S, Decision], None]) -> None:
        """Decide an event in each loaded shard, every `interval_ms`, until cancelled."""
        while True:
            await trio.sleep(interval_ms / 1000)
            for led in self.served():
                if self._partitions.get(led.number) is led:
                    try:
                        self.decide(led, partial(event, led.shard))
                    except Exception:
                        self._logger.exception(
                            "A bug: the periodic work on %s-%d failed. It is tried again in %d ms",
                            self._topic, led.number, interval_ms,
                        )  # fmt: skip
                # A shard may take long: other tasks run before the next one.
                await trio.lowlevel.checkpoint()

    async def run_all(self, *periodic: tuple[int, Callable[[S, Decision], None]]) -> None:
        """Run several events like `run`, each with its interval, until cancelled."""
        async with trio.open_nursery() as nursery:
            for interval_ms, event in periodic:
                nursery.start_soon(self.run, interval_ms, event)
