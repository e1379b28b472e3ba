"""Old segments of a broker's partitions: deleted, and their files removed while nobody waits for that."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.upkeep.retention import OldSegments
from ottla.log.removal import remove_files, sync_directories
from ottla.wire.records.batch import validate_produced
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch

DELAY_MS = 60_000


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path, segment_bytes="100", retention_ms="1000")
    yield house
    house.close()


def append(house: House, *ages_ms: int, index: int = 0) -> None:
    """Records of such ages, each in a segment of its own."""
    partition = house.replicas.partition(TOPIC, index)
    for age_ms in ages_ms:
        records = batch(bytes(30), timestamp=NOW_MS - age_ms)
        produced = validate_produced(records, api_version=9, rules=partition.rules, now_ms=NOW_MS)
        house.replicas.append(partition, produced, 1, NOW_MS)


def deleted_files(house: House) -> int:
    return len([*house.path.glob("*/*.deleted")])


async def test_files_of_old_segments_stay_for_a_while(house: House, autojump_clock: trio.testing.MockClock) -> None:
    house.lead()
    append(house, 1001, 1001, 1000)
    await OldSegments(house.parts).delete()
    log = house.replicas.partition(TOPIC, 0).log
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert house.offloaded == [sync_directories]
    assert deleted_files(house) == 7
    started = trio.current_time()
    await house.run_tasks()
    assert trio.current_time() - started == pytest.approx(DELAY_MS / 1000)
    assert house.offloaded == [sync_directories, remove_files]
    assert deleted_files(house) == 0


async def test_a_changed_retention_applies_at_the_next_look(house: House) -> None:
    house.lead()
    append(house, 900, 0)
    old = OldSegments(house.parts)
    await old.delete()
    log = house.replicas.partition(TOPIC, 0).log
    assert (log.log_start_offset, house.offloaded) == (0, [])
    house.configs[TOPIC] = {"retention.ms": "899", "file.delete.delay.ms": "0"}
    house.replicas.reconfigure(TOPIC)
    await old.delete()
    assert log.log_start_offset == 1
    await house.run_tasks()
    assert deleted_files(house) == 0


async def test_a_follower_deletes_committed_segments_by_itself(house: House) -> None:
    house.lead(replicas=(0, 1), isr=(0, 1))
    append(house, 2000, 2000, 2000)
    house.lead(leader=1, epoch=1, replicas=(0, 1), isr=(0, 1))
    partition = house.replicas.partition(TOPIC, 0)
    assert not partition.is_leader
    old = OldSegments(house.parts)
    await old.delete()
    assert partition.log.log_start_offset == 0
    partition.high_watermark = 2
    await old.delete()
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (2, 3)


async def test_many_old_segments_of_many_logs_go_in_one_look(house: House) -> None:
    house.lead(partitions=range(3))
    for index in range(3):
        append(house, *[2000] * 25, index=index)
    await OldSegments(house.parts).delete()
    assert [house.replicas.partition(TOPIC, index).log.log_start_offset for index in range(3)] == [25] * 3
    assert house.offloaded == [sync_directories]


async def test_other_tasks_run_between_two_logs(house: House, nursery: trio.Nursery) -> None:
    house.lead(partitions=range(3))
    for index in range(3):
        append(house, 2000, index=index)
    old = OldSegments(house.parts)
    nursery.start_soon(old.delete)
    seen = set()
    while (starts := sum(house.replicas.partition(TOPIC, index).log.log_start_offset for index in range(3))) < 3:
        seen.add(starts)
        await trio.lowlevel.checkpoint()
    assert seen & {1, 2}


async def test_a_log_that_is_deleted_meanwhile_is_left_alone(house: House) -> None:
    house.lead(partitions=range(2))
    for index in range(2):
        append(house, 2000, index=index)
    first, last = (house.replicas.partition(TOPIC, index) for index in range(2))

    def removed(*_: object) -> None:
        house.replicas.partitions.pop((TOPIC, 1), None)

    house.starts = removed
    await OldSegments(house.parts).delete()
    assert (first.log.log_start_offset, last.log.log_start_offset) == (1, 0)


async def test_a_directory_where_segments_cannot_be_deleted_goes_offline(tmp_path: Path) -> None:
    house = House(tmp_path / "a", more=[tmp_path / "b"], segment_bytes="100", retention_ms="1000")
    house.lead(partitions=range(2))
    for index in range(2):
        append(house, 2000, 0, index=index)
    log = house.replicas.partition(TOPIC, 0).log
    (log.directory / f"{0:020d}.log.deleted").mkdir()
    await OldSegments(house.parts).delete()
    assert house.replicas.partition(TOPIC, 0).is_offline
    assert house.replicas.partition(TOPIC, 1).log.log_start_offset == 1
    await OldSegments(house.parts).delete()
    house.close()
