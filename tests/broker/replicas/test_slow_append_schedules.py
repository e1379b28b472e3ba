"""Random schedules of appends whose writes take their time, and of whoever must wait for them, against a model."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing

from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.replicas.partition import Partition
from ottla.broker.replication import apply as following
from ottla.broker.upkeep.retention import OldSegments
from ottla.log.log import PartitionLog
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import ProduceResponse
from tests.broker.handlers.producing import answers, begin, one
from tests.broker.support.hosted import BROKER, TOPIC, House, batch
from tests.broker.support.replication import answered
from tests.broker.support.slow_disk import SlowDisk
from tests.log.building import checked, records_from

STEPS: Final = 120
PRODUCERS: Final = 4
CONFIG: Final[dict[str, Any]] = {"segment_bytes": "700", "retention_bytes": "2500", "index_interval_bytes": "200"}


class Sent:
    """A batch of one record. Its producer goes on when it is answered; the value is in no other one."""

    def __init__(self, producer: "Producer", value: bytes, sequence: int) -> None:
        self.producer = producer
        self.value = value
        self.sequence = sequence
        self.epoch = producer.epoch
        self.acks = -1

    @property
    def records(self) -> memoryview:
        if self.producer.producer_id < 0:
            return batch(self.value)
        return batch(
            self.value,
            producer_id=self.producer.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )


class Producer:
    """Sends one batch after the other; every other one is idempotent, and sends the last one again at times."""

    def __init__(self, number: int) -> None:
        self.producer_id = number if number % 2 else -1
        self.epoch = 0
        self.sequence = 0
        self.waits_for = 0
        self.last: Sent | None = None


class Trial:
    """One partition, its clients, and what they were told."""

    def __init__(self, path: Path, chance: random.Random, nursery: trio.Nursery) -> None:
        self.chance = chance
        self.path = path
        self.house = House(path / "a", more=[path / "b"], **CONFIG)
        self.house.starts = nursery.start_soon
        self.nursery = nursery
        self.disk = SlowDisk(self.house)
        self.producers = [Producer(number) for number in range(PRODUCERS)]
        self.acknowledged: dict[int, bytes] = {}
        self.sent = 0
        self.epoch = 0
        self.has_failed = False
        self.old = OldSegments(self.house.parts)

    @property
    def partition(self) -> Partition:
        return self.house.replicas.partition(TOPIC, 0)

    # Deeds

    def send(self) -> None:
        free = [each for each in self.producers if not each.waits_for]
        if not free:
            return
        producer = self.chance.choice(free)
        sent = Sent(producer, b"%d" % self.sent + bytes(self.chance.randrange(150)), producer.sequence)
        sent.acks = self.chance.choice((-1, 1, 0))
        self.sent += 1
        producer.sequence += 1
        producer.last = sent
        self.ask(sent)

    def send_again(self) -> None:
        sent = self.chance.choice(self.producers).last
        if sent is not None and sent.producer.producer_id >= 0 and sent.epoch == sent.producer.epoch:
            self.ask(sent)

    def ask(self, sent: Sent) -> None:
        sent.producer.waits_for += 1
        try:
            answer = begin(self.house, one(sent.records, acks=sent.acks))
        except CloseConnection:
            self.refused(sent, None)
            return
        if isinstance(answer, Deferred):
            answer.then(lambda response: self.take(sent, response), lambda reason: self.refused(sent, None))
        else:
            self.take(sent, answer)

    def take(self, sent: Sent, response: ProduceResponse | None) -> None:
        if response is None:
            sent.producer.waits_for -= 1
            return
        ((answer),) = answers(response)
        if answer.error_code:
            self.refused(sent, ErrorCode(answer.error_code))
            return
        sent.producer.waits_for -= 1
        assert self.acknowledged.get(answer.base_offset, sent.value) == sent.value
        self.acknowledged[answer.base_offset] = sent.value
        log = self.partition.log
        assert answer.base_offset < log.log_end_offset
        assert sent.acks == 1 or answer.base_offset < self.partition.high_watermark

    def refused(self, sent: Sent, code: ErrorCode | None) -> None:
        producer = sent.producer
        producer.waits_for -= 1
        # What came of it is not known to the producer, or it is out of order: it begins anew.
        if sent.epoch == producer.epoch:
            producer.epoch += 1
            producer.sequence = 0
        if code == ErrorCode.KAFKA_STORAGE_ERROR:
            assert self.has_failed

    def write(self) -> None:
        if self.disk.writes:
            self.chance.choice(self.disk.writes).let_go.set()

    def slow_down(self) -> None:
        self.disk.slow_down(self.partition.log)

    def speed_up(self) -> None:
        self.disk.pass_quiet_time()

    def flush(self) -> None:
        self.nursery.start_soon(self.house.parts.group_commit.flush, self.partition.topic_partition)

    def delete_old(self) -> None:
        self.nursery.start_soon(self.old.delete)

    def delete_records(self) -> None:
        partition = self.partition
        if partition.is_leader and partition.high_watermark > partition.log.log_start_offset:
            wanted = self.chance.randrange(partition.log.log_start_offset, partition.high_watermark + 1)
            partition.delete_records(wanted)

    def lead_anew(self) -> None:
        self.epoch += 1
        self.nursery.start_soon(self.lead, self.epoch)

    async def lead(self, epoch: int) -> None:
        await answered(self.house.replicas.become_leader_or_follower(self.house.request(epoch=epoch)))

    def follow_for_a_while(self) -> None:
        self.epoch += 2
        self.nursery.start_soon(self.follow, self.epoch - 1)

    async def follow(self, epoch: int) -> None:
        """A new leader has less."""
        request = self.house.request(epoch=epoch, leader=1, isr=[1], replicas=[BROKER, 1])
        await answered(self.house.replicas.become_leader_or_follower(request))
        partition = self.partition
        if not partition.is_offline and not partition.is_leader and partition.leader_epoch == epoch:
            log = partition.log
            offset = self.chance.randint(log.log_start_offset, log.log_end_offset)
            following.truncate(partition, epoch, offset)
            partition.high_watermark = min(partition.high_watermark, log.log_end_offset)
            for gone in [each for each in self.acknowledged if each >= log.log_end_offset]:
                del self.acknowledged[gone]
        await self.lead(epoch + 1)

    def fail(self) -> None:
        """The last thing that happens to the directory."""
        if self.disk.writes and not self.chance.randrange(20):
            self.has_failed = True
            self.chance.choice(self.disk.writes).fail()

    # Checks

    def check(self) -> None:
        partition = self.partition
        log = partition.log
        assert log.log_start_offset <= partition.high_watermark <= log.log_end_offset
        self.check_log(log, log.log_start_offset)

    def check_log(self, log: PartitionLog, start: int) -> None:
        found = {each.offset: bytes(each.value or b"") for each in records_from(log, start)}
        assert list(found) == list(range(start, log.log_end_offset))
        assert len(set(found.values())) == len(found)
        for offset, value in self.acknowledged.items():
            assert offset < start or found[offset] == value

    # The whole

    async def run(self) -> None:
        await self.lead(0)
        often: list[Callable[[], None]] = [self.send, self.send_again, self.write]
        seldom = [self.slow_down, self.speed_up, self.flush, self.delete_old, self.delete_records]
        rarely = [self.lead_anew, self.follow_for_a_while, self.fail]
        for _ in range(STEPS):
            self.chance.choice(self.chance.choice([often] * 6 + [seldom] * 2 + [rarely]))()
            if self.chance.randrange(3):
                await trio.testing.wait_all_tasks_blocked()
            if self.has_failed:
                break
            self.check()
        await self.end()

    async def end(self) -> None:
        self.disk.end()
        await trio.testing.wait_all_tasks_blocked()
        assert not any(each.waits_for for each in self.producers)
        if self.has_failed:
            assert self.partition.is_offline
            return
        self.check()
        log = self.partition.log
        start, end = log.log_start_offset, log.log_end_offset
        # As after a kill, or after a stop.
        if self.chance.randrange(2):
            self.house.logs.abandon()
        else:
            self.house.close()
        self.house.open()
        (again,) = self.house.logs.logs.values()
        assert again.log_end_offset == end
        assert again.log_start_offset in (start, again.segments.first_base_offset)
        self.check_log(checked(again), start)
        self.house.close()


def chances(seed: int, trials: int) -> Iterator[random.Random]:
    for number in range(trials):
        yield random.Random(f"{seed} {number}")


@pytest.mark.trials(few=10, soak=500)
@pytest.mark.once
async def test_nothing_acknowledged_is_lost_or_twice_and_nothing_unwritten_is_seen(
    tmp_path: Path, seed: int, trials: int
) -> None:
    for number, chance in enumerate(chances(seed, trials)):
        path = tmp_path / str(number)
        async with trio.open_nursery() as nursery:
            trial = Trial(path, chance, nursery)
            try:
                await trial.run()
            finally:
                trial.disk.end()
            nursery.cancel_scope.cancel()
        shutil.rmtree(path)
