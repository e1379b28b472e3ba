"""The broker's own appends count when all in-sync replicas have them, on fast and on slow directories."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.internal_topics.committed_appends import CommittedAppends
from ottla.broker.replicas.partition import Partition
from ottla.log.state.verification import AppendOrigin, TransactionalAppend
from ottla.wire.errors import ErrorCode
from ottla.wire.records.batch import ControlType, ProducedBatch
from tests.broker.handlers.producing import follower_has, hosted
from tests.broker.support.hosted import House
from tests.broker.support.replication import answered
from tests.broker.support.slow_disk import SlowDisk
from tests.log.building import marker, produced

TIMEOUT_MS = 5000


class Appending:
    """A leader, its directory, and what became of its appends."""

    def __init__(self, house: House, nursery: trio.Nursery) -> None:
        house.starts = nursery.start_soon
        self.house = house
        self.disk = SlowDisk(house)
        self.appends = CommittedAppends(house.replicas, house.parts)
        self.outcomes: list[ErrorCode] = []

    @property
    def partition(self) -> Partition:
        return hosted(self.house)

    def append(self, batch: ProducedBatch | None = None, how: TransactionalAppend | None = None) -> None:
        self.appends.append(self.partition, batch or produced(), TIMEOUT_MS, self.outcomes.append, how)

    async def lead(self, **given: object) -> None:
        await answered(self.house.replicas.become_leader_or_follower(self.house.request(**given)))  # type: ignore[arg-type]


@pytest.fixture
async def appending(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Appending]:
    house = House(tmp_path / "a", more=[tmp_path / "b"])
    nursery.start_soon(house.clock.run)
    made = Appending(house, nursery)
    await made.lead()
    yield made
    made.disk.end()
    await trio.testing.wait_all_tasks_blocked()
    nursery.cancel_scope.cancel()
    house.close()


async def test_an_append_without_followers_is_committed_at_once(appending: Appending) -> None:
    appending.append()
    assert (appending.outcomes, appending.partition.high_watermark) == ([ErrorCode.NONE], 1)


async def test_an_append_is_committed_when_the_last_in_sync_replica_has_it(appending: Appending) -> None:
    await appending.lead(isr=[0, 1], replicas=[0, 1], epoch=1)
    appending.append()
    appending.append()
    assert appending.outcomes == []
    follower_has(appending.house, 1)
    assert appending.outcomes == [ErrorCode.NONE]
    follower_has(appending.house, 2)
    assert appending.outcomes == [ErrorCode.NONE] * 2


async def test_a_follower_that_does_not_come_in_time_fails_the_append_but_not_its_record(
    appending: Appending, autojump_clock: trio.testing.MockClock
) -> None:
    await appending.lead(isr=[0, 1], replicas=[0, 1], epoch=1)
    appending.append()
    await trio.sleep(TIMEOUT_MS / 1000 + 1)
    assert appending.outcomes == [ErrorCode.REQUEST_TIMED_OUT]
    assert appending.partition.log.log_end_offset == 1
    follower_has(appending.house, 1)
    assert appending.outcomes == [ErrorCode.REQUEST_TIMED_OUT]


async def test_a_leader_that_is_replaced_before_the_followers_have_it_fails_the_append(appending: Appending) -> None:
    await appending.lead(isr=[0, 1], replicas=[0, 1], epoch=1)
    appending.append()
    await appending.lead(leader=1, isr=[0, 1], replicas=[0, 1], epoch=2)
    assert appending.outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    appending.append()
    assert appending.outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


async def test_too_few_in_sync_replicas_take_no_append(tmp_path: Path, appending: Appending) -> None:
    appending.house.configs["safe"] = {"min.insync.replicas": "2"}
    await appending.lead(topic="safe", replicas=[0, 1])
    partition = appending.house.replicas.partition("safe", 0)
    appending.appends.append(partition, produced(), TIMEOUT_MS, appending.outcomes.append)
    assert (appending.outcomes, partition.log.log_end_offset) == ([ErrorCode.NOT_ENOUGH_REPLICAS], 0)


async def test_the_log_refuses_a_batch_by_the_rules_of_its_origin(appending: Appending) -> None:
    of_transaction = produced(producer_id=7, epoch=3, transactional=True)
    appending.append(of_transaction, TransactionalAppend(AppendOrigin.COORDINATOR))
    assert appending.outcomes == [ErrorCode.INVALID_TXN_STATE]
    guard = appending.partition.start_verification(7, 0, 3, False, appending.house.now_ms)
    appending.append(of_transaction, TransactionalAppend(AppendOrigin.COORDINATOR, guard))
    appending.append(marker(7, ControlType.COMMIT, epoch=3))
    assert appending.outcomes[1:] == [ErrorCode.NONE, ErrorCode.NONE]
    assert appending.partition.last_stable_offset == 2


# Slow directories


async def test_an_append_to_a_slow_directory_is_committed_once_it_is_written(appending: Appending) -> None:
    appending.disk.slow_down(appending.partition.log)
    appending.append()
    appending.append()
    await appending.disk.begun()
    assert (appending.outcomes, appending.partition.log.log_end_offset) == ([], 0)
    await appending.disk.write_all()
    assert (appending.outcomes, appending.partition.high_watermark) == ([ErrorCode.NONE] * 2, 2)


async def test_after_a_slow_write_the_followers_are_waited_for(appending: Appending) -> None:
    await appending.lead(isr=[0, 1], replicas=[0, 1], epoch=1)
    appending.disk.slow_down(appending.partition.log)
    appending.append()
    await appending.disk.begun()
    await appending.disk.write_all()
    assert (appending.outcomes, appending.partition.log.log_end_offset) == ([], 1)
    follower_has(appending.house, 1)
    assert appending.outcomes == [ErrorCode.NONE]


async def test_a_slow_write_that_fails_is_an_error_of_the_storage(appending: Appending) -> None:
    appending.disk.slow_down(appending.partition.log)
    appending.append()
    (write,) = await appending.disk.begun()
    write.fail()
    await trio.testing.wait_all_tasks_blocked()
    assert appending.outcomes == [ErrorCode.KAFKA_STORAGE_ERROR]


async def test_the_guard_of_a_slow_append_is_checked_when_its_turn_comes(appending: Appending) -> None:
    guard = appending.partition.start_verification(7, 0, 3, False, appending.house.now_ms)
    appending.disk.slow_down(appending.partition.log)
    # The marker is appended before it.
    appending.append(marker(7, ControlType.ABORT, epoch=3))
    appending.append(produced(producer_id=7, epoch=3, transactional=True), TransactionalAppend(guard=guard))
    await appending.disk.begun()
    await appending.disk.write_all()
    assert appending.outcomes == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE]
