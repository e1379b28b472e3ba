"""A better placement of replicas: spread over brokers and racks, with few moves from the current one.

PURE. Must not know how partitions are moved.
Counterpart in Kafka: ReassignPartitionsCommand.generateAssignment, which ignores the current placement.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.wire.types import TopicPartition


def place(
    current: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> dict[TopicPartition, list[int]]:
    """Return replicas on the brokers of `racks` only, the preferred leader first. ValueError for too few brokers.

    In each topic, and in all together, brokers differ by one replica and one leader at most, as far as racks allow it.
    A rack gets a second replica of a partition only if each rack has one. Racks matter only if all brokers have one.
    """
    factors = {each: replication_factor or len(replicas) for each, replicas in current.items()}
    most = max(factors.values(), default=0)
    if most > len(racks):
        raise ValueError(f"{most} replicas of a partition need as many brokers, but there are {len(racks)}")
    placement = _Placement(racks)
    for partition in sorted(current):
        placement.keep(partition, current[partition], factors[partition])
    for partition in sorted(current):
        placement.fill(partition, factors[partition])
        placement.part_racks(partition)
    for topic in sorted({each.topic for each in current}):
        placement.level(topic)
    placement.level(None)
    return placement.with_leaders_spread()


class _Placement:
    """The replicas placed so far, and how many each broker has."""

    def __init__(self, racks: Mapping[int, str | None]) -> None:
        known = all(rack is not None for rack in racks.values())
        self._racks = {broker: str(rack) if known else str(broker) for broker, rack in racks.items()}
        self._replicas: dict[TopicPartition, list[int]] = {}
        self._load: dict[str | None, Counter[int]] = {None: Counter()}
        """How many replicas of a topic each broker has; of all topics for None."""

    def keep(self, partition: TopicPartition, replicas: Sequence[int], count: int) -> None:
        """Keep up to `count` of the current replicas, on the brokers of `racks`."""
        kept = [each for each in replicas if each in self._racks]
        while len(kept) > count:
            crowded = Counter(self._racks[each] for each in kept)
            kept.remove(max(reversed(kept[1:]), key=lambda it: (crowded[self._racks[it]], self._load[None][it])))
        self._replicas[partition] = []
        for broker in kept:
            self._add(partition, broker)

    def _add(self, partition: TopicPartition, broker: int) -> None:
        self._replicas[partition].append(broker)
        self._count(partition, broker, 1)

    def _count(self, partition: TopicPartition, broker: int, change: int) -> None:
        for topic in (None, partition.topic):
            self._load.setdefault(topic, Counter())[broker] += change

    def _move(self, partition: TopicPartition, source: int, target: int) -> None:
        replicas = self._replicas[partition]
        replicas[replicas.index(source)] = target
        self._count(partition, source, -1)
        self._count(partition, target, 1)

    def fill(self, partition: TopicPartition, count: int) -> None:
        """Add replicas until there are `count`."""
        while len(self._replicas[partition]) < count:
            self._add(partition, self._best(partition))

    def _best(self, partition: TopicPartition) -> int:
        crowded = self._crowded(partition)
        load = self._load[partition.topic]
        free = [each for each in self._racks if each not in self._replicas[partition]]
        return min(free, key=lambda it: (crowded[self._racks[it]], load[it], self._load[None][it], it))

    def _crowded(self, partition: TopicPartition) -> Counter[str]:
        return Counter(self._racks[each] for each in self._replicas[partition])

    def part_racks(self, partition: TopicPartition) -> None:
        """Move replicas from a rack to another one that has at least two fewer."""
        while len(self._replicas[partition]) < len(self._racks):
            crowded = self._crowded(partition)
            target = self._best(partition)
            source = max(reversed(self._replicas[partition]), key=lambda it: crowded[self._racks[it]])
            if crowded[self._racks[source]] < crowded[self._racks[target]] + 2:
                return
            self._move(partition, source, target)

    def level(self, topic: str | None) -> None:
        """Move replicas of a topic, or of all, from brokers with many to brokers with few."""
        hosted: dict[int, list[TopicPartition]] = {broker: [] for broker in self._racks}
        for partition, replicas in self._replicas.items():
            if topic in (None, partition.topic):
                for broker in replicas:
                    hosted[broker].append(partition)
        while (move := self._leveling(topic, hosted)) is not None:
            partition, source, target = move
            self._move(*move)
            hosted[source].remove(partition)
            hosted[target].append(partition)

    def _leveling(
        self, topic: str | None, hosted: Mapping[int, Sequence[TopicPartition]]
    ) -> tuple[TopicPartition, int, int] | None:
        """Return a move between the two brokers of most different load; None if no move makes the load more even."""
        load = self._load.setdefault(topic, Counter())
        ordered = sorted(self._racks, key=lambda it: (load[it], it))
        for source in reversed(ordered):
            for target in ordered:
                if load[source] - load[target] < 2:
                    break
                for partition in hosted[source]:
                    if self._may_move(partition, source, target):
                        return partition, source, target
        return None

    def _may_move(self, partition: TopicPartition, source: int, target: int) -> bool:
        if target in self._replicas[partition]:
            return False
        load = self._load[partition.topic]
        if load[source] <= load[target]:
            return False
        from_rack, to_rack = self._racks[source], self._racks[target]
        crowded = self._crowded(partition)
        return from_rack == to_rack or crowded[to_rack] < crowded[from_rack]

    def with_leaders_spread(self) -> dict[TopicPartition, list[int]]:
        """Return the replicas in an order that spreads the leaders. Another order moves no records."""
        load: dict[str | None, Counter[int]] = {None: Counter()}
        for partition, replicas in self._replicas.items():
            for topic in (None, partition.topic):
                load.setdefault(topic, Counter())[replicas[0]] += 1

        def shift(path: Iterable[tuple[TopicPartition, int]]) -> None:
            for partition, leader in path:
                replicas = self._replicas[partition]
                for topic in (None, partition.topic):
                    load[topic][replicas[0]] -= 1
                    load[topic][leader] += 1
                replicas.remove(leader)
                replicas.insert(0, leader)

        def evens(partition: TopicPartition, leader: int) -> bool:
            return load[partition.topic][self._replicas[partition][0]] > load[partition.topic][leader]

        for topic in sorted({each.topic for each in self._replicas}):
            mine = [each for each in self._replicas if each.topic == topic]
            while path := self._leader_path(mine, load[topic], lambda partition, leader: True):
                shift(path)
        while path := self._leader_path(list(self._replicas), load[None], evens):
            shift(path)
        return self._replicas

    def _leader_path(
        self,
        partitions: Sequence[TopicPartition],
        load: Counter[int],
        is_allowed: Callable[[TopicPartition, int], bool],
    ) -> list[tuple[TopicPartition, int]]:
        """Return leader changes by which a broker with many loses one, and a broker with few gets one."""
        led: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            led.setdefault(self._replicas[partition][0], []).append(partition)
        for start in sorted(led, key=lambda it: (-load[it], it)):
            reached: dict[int, list[tuple[TopicPartition, int]]] = {start: []}
            queue = deque([start])
            while queue:
                broker = queue.popleft()
                if load[start] - load[broker] >= 2:
                    return reached[broker]
                for partition in led.get(broker, ()):
                    for other in self._replicas[partition][1:]:
                        if other not in reached and is_allowed(partition, other):
                            reached[other] = [*reached[broker], (partition, other)]
                            queue.append(other)
        return []
