"""A load restores the offsets of committed and of open transactions, as if the log had been lived through."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from ottla.broker.internal_topics.loader import PartitionLoader
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.effects import Append
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.coordinator.group_shard import GroupShard
from ottla.wire.errors import ErrorCode
from ottla.wire.records.batch import ControlType, NewRecord, build_batch, build_control_batch
from ottla.wire.types import TopicPartition
from tests.broker.support.hosted import NOW_MS, House
from tests.coordinator.coordinating import Answer, Coordinating, Marker
from tests.coordinator.serving import Log
from tests.coordinator.test_offsets import delete

TOPIC: Final = "__consumer_offsets"
CONFIG: Final = GroupConfig(retention_ms=1_000, initial_rebalance_delay_ms=0)
GROUPS: Final = ("readers", "others")
PARTITIONS: Final = tuple(TopicPartition(topic, index) for topic in "ab" for index in range(2))
PRODUCERS: Final = (1, 2, 3)
# By how often they happen.
ACTIONS: Final = {
    "commit": 6, "commit_in_transaction": 10, "end_transaction": 5, "hold": 2, "release": 3, "delete": 1,
    "delete_group": 0.3, "delete_topic": 0.3, "expire": 0.5, "wait": 2, "rebalance": 0.3,
}  # fmt: skip


class Life:
    """One shard, and all that happens to it, at random."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.coordinating = Coordinating(CONFIG)

    def live(self, steps: int) -> None:
        for action in self.chance.choices(list(ACTIONS), list(ACTIONS.values()), k=steps):
            getattr(self, action)()
        self.release()

    def offsets(self) -> dict[TopicPartition, int]:
        partitions = self.chance.sample(PARTITIONS, self.chance.randint(1, 3))
        return {each: self.chance.randrange(1_000) for each in partitions}

    def commit(self) -> None:
        self.coordinating.commit(self.offsets(), group=self.chance.choice(GROUPS))

    def commit_in_transaction(self) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        self.coordinating.commit_in_transaction(self.offsets(), producer_id, group=self.chance.choice(GROUPS))

    def end_transaction(self) -> None:
        self.coordinating.end_transaction(self.chance.choice(PRODUCERS), commit=self.chance.random() < 0.7)

    def hold(self) -> None:
        self.coordinating.holding = True

    def release(self) -> None:
        """End the appends under way. Those of deletions succeed, because the shard does not undo them."""
        coordinating = self.coordinating
        held, coordinating.held, coordinating.holding = coordinating.held, [], False
        for appended in held:
            is_deletion = any(value is None for _, value in appended.records)
            fails = not is_deletion and self.chance.random() < 0.2
            coordinating.finish(appended, ErrorCode.NOT_ENOUGH_REPLICAS if fails else ErrorCode.NONE)

    def delete(self) -> None:
        delete(self.coordinating, *self.chance.sample(PARTITIONS, 2))

    def delete_group(self) -> None:
        shard = self.coordinating.shard
        self.coordinating.decide(shard.delete_group, self.chance.choice(GROUPS), Answer())

    def delete_topic(self) -> None:
        self.coordinating.decide(self.coordinating.shard.topics_deleted, frozenset(self.chance.choice("ab")))

    def expire(self) -> None:
        self.coordinating.decide(self.coordinating.shard.expire)

    def wait(self) -> None:
        self.coordinating.pass_time(300)

    def rebalance(self) -> None:
        """Let a member come and go, so that the group has a record of its own."""
        if not self.coordinating.holding:
            (member,) = self.coordinating.stable_group()
            self.coordinating.leave((member, None))


def written(batches: Sequence[Append | Marker]) -> memoryview:
    """The bytes of these batches in the log."""
    data = bytearray()
    offset = 0
    for batch in batches:
        common: dict[str, Any] = {"base_offset": offset, "leader_epoch": 0}
        if isinstance(batch, Marker):
            kind = ControlType.COMMIT if batch.is_commit else ControlType.ABORT
            common |= {"producer_id": batch.producer_id, "producer_epoch": 0}
            data += build_control_batch(kind, coordinator_epoch=0, timestamp=NOW_MS, **common)
            offset += 1
            continue
        if batch.producer is not None:
            producer_id, producer_epoch, _ = batch.producer
            common |= {"producer_id": producer_id, "producer_epoch": producer_epoch, "base_sequence": 0}
        records = [NewRecord(key, value, NOW_MS) for key, value in batch.records]
        data += build_batch(records, transactional=batch.producer is not None, **common)
        offset += len(records)
    return memoryview(data)


def view(shard: GroupShard) -> dict[str, Any]:
    """The offsets of all groups: those that count, and those of open transactions."""

    def values(offsets: Any) -> dict[TopicPartition, str]:
        return {partition: repr(each.value) for partition, each in offsets.items()}

    return {
        group.group_id: (
            values(group.offsets),
            {producer_id: values(offsets) for producer_id, offsets in group.transactional_offsets.items()},
        )
        for group in shard.groups.values()
        if group.has_offsets
    }


@pytest.mark.trials(few=30, soak=1_000)
@pytest.mark.parametrize("buffer_size", [1, 700, 5 << 20])
@pytest.mark.once
async def test_a_load_gives_the_offsets_of_living_through_the_log(
    tmp_path: Path, trials: int, seed: int, buffer_size: int
) -> None:
    house = House(tmp_path)
    groups = GroupCoordinator(
        Log(),
        CONFIG,
        now_ms=lambda: NOW_MS,
        call_later=house.clock.call_later,
        partition_count=lambda: trials,
    )
    loader = PartitionLoader(house.parts, TOPIC, groups.runtime, load_buffer_size=buffer_size)
    house.parts.events.leading.subscribe(loader.load)
    house.lead(TOPIC, range(trials), leader=1, replicas=(0, 1), isr=(0, 1))
    lives: list[Life] = []
    for trial in range(trials):
        life = Life(random.Random(f"{seed} {trial} {buffer_size}"))
        life.live(60)
        lives.append(life)
        if life.coordinating.batches:
            log = house.replicas.partition(TOPIC, trial).log
            log.append_as_follower(written(life.coordinating.batches), NOW_MS)
    house.lead(TOPIC, range(trials), epoch=1, replicas=(0, 1))
    await house.run_tasks()
    shards = {led.number: led.shard for led in groups.runtime.served()}
    for trial, life in enumerate(lives):
        assert view(shards[trial]) == view(life.coordinating.shard), f"trial {trial}"
        for producer_id in PRODUCERS:
            is_commit = life.chance.random() < 0.7
            life.coordinating.end_transaction(producer_id, commit=is_commit)
            groups.transaction_ended(trial, producer_id, is_commit)
        assert view(shards[trial]) == view(life.coordinating.shard), f"trial {trial}, after the last markers"
    house.close()
