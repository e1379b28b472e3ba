import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.handlers import describe_log_dirs
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.reads import ReadResult, consumer
from ottla.log.segments.open_files import FileRegion
from ottla.log.state.directory_failures import NoLogDirectoryError
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.fetch import FetchPartition
from ottla.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from ottla.wire.records.batch import validate_produced
from ottla.wire.types import ZERO_UUID
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch, context


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Partitions 0 and 2 are in `a`, 1 and 3 in `b`."""
    house = House(tmp_path / "a", more=[tmp_path / "b"])
    house.lead(partitions=range(4))
    yield house
    house.close()


def append(house: House, index: int, acks: int = 1) -> Partition:
    partition = house.replicas.partition(TOPIC, index)
    produced = validate_produced(batch(b"v"), api_version=9, rules=partition.rules, now_ms=NOW_MS)
    house.replicas.append(partition, produced, acks, NOW_MS)
    return partition


def break_disk(monkeypatch: pytest.MonkeyPatch, number: int = errno.EIO) -> None:
    def broken(*args: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", broken)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
async def test_after_a_failed_write_nothing_in_its_directory_is_appended_or_acknowledged(
    house: House, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    told, stopped = [], []
    house.parts.events.offline.subscribe(lambda: told.append(True))
    house.parts.events.stopped.subscribe(lambda each: stopped.append((each.topic_partition, each.leader_epoch)))
    waiting = append(house, 2)
    done: list[list[ErrorCode]] = []
    house.replicas.await_acks([(waiting, 2)], -1, 1000, done.append)
    with monkeypatch.context() as patch:
        break_disk(patch, number)
        with pytest.raises(KafkaError, match=os.strerror(number)):
            append(house, 0)
    # Before anybody else had the loop.
    for index in (0, 2):
        with pytest.raises(KafkaError) as refused:
            append(house, index)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert house.replicas.acks_error(house.replicas.partition(TOPIC, index), 1, -1) == refused.value.code
    assert (done, told) == ([], [])
    await house.run_tasks()
    assert (done, told) == ([[ErrorCode.KAFKA_STORAGE_ERROR]], [True])
    assert stopped == [((TOPIC, 0), 0), ((TOPIC, 2), 0)]
    for index in (1, 3):
        assert append(house, index).high_watermark == 1


async def test_a_replica_in_a_failed_directory_takes_no_role_and_is_not_deleted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        break_disk(patch)
        with pytest.raises(KafkaError):
            append(house, 0)
    await house.run_tasks()
    response = house.lead(partitions=[0, 1, 4], epoch=1)
    codes = [each.error_code for each in response.topics[0].partition_errors]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    with pytest.raises(KafkaError) as refused:
        house.replicas.partition(TOPIC, 4)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    states = [
        StopReplicaPartitionState(partition_index=index, leader_epoch=2, delete_partition=True) for index in (0, 1, 4)
    ]
    request = StopReplicaRequest(
        controller_id=0,
        controller_epoch=1,
        broker_epoch=-1,
        topic_states=[StopReplicaTopicState(topic_name=TOPIC, partition_states=states)],
    )
    stopped = house.now(house.replicas.stop_replica(request))
    assert [each.error_code for each in stopped.partition_errors] == codes
    assert (house.path / f"{TOPIC}-0").exists()


def read(house: House) -> ReadResult:
    """What a consumer of partition 0 gets: a region of its file."""
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    reader = consumer(0, from_leader_only=True)
    return house.replicas.read(reader, TOPIC, 0, ZERO_UUID, asked, 1 << 20, at_least_one=True, may_copy=False)


async def test_a_region_that_cannot_be_sent_takes_its_directory_offline_and_the_next_read_is_answered(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    append(house, 0)
    region = read(house).records
    assert isinstance(region, FileRegion)
    region.failed(OSError(errno.EIO, os.strerror(errno.EIO)))
    assert read(house).error is ErrorCode.KAFKA_STORAGE_ERROR
    await house.run_tasks()
    assert [house.replicas.partition(TOPIC, each).is_offline for each in range(4)] == [True, False, True, False]
    assert [each.levelname for each in caplog.records if "Input/output error" in each.message] == ["ERROR"]


async def test_a_found_segment_that_cannot_be_checked_takes_its_directory_offline(house: House) -> None:
    append(house, 0)
    house.close()
    house.open()
    house.lead(partitions=range(4))

    async def failing(function: object, *args: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    house.worker = failing  # type: ignore[assignment]
    assert read(house).error is ErrorCode.NONE
    await house.run_tasks()
    assert read(house).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert [house.replicas.partition(TOPIC, each).is_offline for each in range(4)] == [True, False, True, False]


async def test_a_failed_directory_is_described_as_one(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        break_disk(patch)
        with pytest.raises(KafkaError):
            append(house, 1)
    await house.run_tasks()
    request = DescribeLogDirsRequest(topics=None)
    well, ill = describe_log_dirs.handle(
        request, context(ApiKey.DESCRIBE_LOG_DIRS, 4), logs=house.logs, replicas=house.replicas
    ).results
    assert (well.error_code, [each.partition_index for each in well.topics[0].partitions]) == (0, [0, 2])
    assert (ill.error_code, ill.topics, ill.total_bytes) == (ErrorCode.KAFKA_STORAGE_ERROR, (), -1)


async def test_without_its_last_directory_the_broker_ends(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    break_disk(monkeypatch)
    for index in (0, 1):
        with pytest.raises(KafkaError):
            append(house, index)
    with pytest.raises(NoLogDirectoryError, match="Shutdown broker because all log dirs in"):
        await house.run_tasks()
    monkeypatch.undo()


async def test_a_failed_fsync_of_a_log_that_was_replaced_meanwhile_leaves_the_partition_online(tmp_path: Path) -> None:
    synced = House(tmp_path / "a", more=[tmp_path / "b"], flush_messages="1")
    synced.lead(partitions=[0, 1])
    partition, other = (synced.replicas.partition(TOPIC, index) for index in (0, 1))
    append(synced, 0)

    async def broken(job: object) -> None:
        partition.log = other.log
        raise OSError(5, os.strerror(5))

    synced.worker = broken  # type: ignore[assignment]
    function, args = synced.tasks.pop(0)
    await function(*args)
    assert synced.logs.failures.offline == {tmp_path / "a"}
    assert not partition.is_offline
    synced.close()
