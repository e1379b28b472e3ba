"""A read from a segment that the start found on the disk waits until the segment is checked."""

import errno
from pathlib import Path

import pytest
import trio

from ottla.broker.loop.deferred import Deferred
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.broker.handlers.fetching import IDS, NAMES, append, codes, now, position, request, told, topic, values, waits
from tests.broker.support.hosted import NOW_MS, TOPIC, House


def _restarted(house: House, first_byte: int | None = None) -> None:
    """Three records, a clean stop, maybe another byte where the second batch begins, and a start."""
    for value in (b"a", b"b", b"c"):
        append(house, value)
    house.close()
    if first_byte is not None:
        path = Path(house.path) / f"{TOPIC}-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[len(data) // 3] = first_byte
        path.write_bytes(data)
    house.open()
    house.lead(partitions=[0, 1])


@pytest.mark.parametrize("version", [NAMES, IDS])
async def test_a_fetch_waits_until_its_segment_is_checked(running: House, version: int) -> None:
    _restarted(running)
    pending = waits(running, request(topic(TOPIC, position(0, 0))), version)
    again = waits(running, request(topic(TOPIC, position(0, 1))), version)
    assert len(running.tasks) == 1
    await running.run_tasks()
    assert [values(data) for data in told(pending.response)] == [[b"a", b"b", b"c"]]
    assert [values(data) for data in told(again.response)] == [[b"b", b"c"]]
    assert len(running.offloaded) == 1
    assert [values(data) for data in told(now(running, request(topic(TOPIC, position(0, 2)))))] == [[b"c"]]


async def test_a_fetch_that_may_not_wait_gets_no_records_yet(running: House) -> None:
    _restarted(running)
    response = now(running, request(topic(TOPIC, position(0, 0)), max_wait_ms=0))
    assert [(data.error_code, values(data), data.high_watermark) for data in told(response)] == [(0, [], 3)]
    await running.run_tasks()
    assert [len(values(data)) for data in told(now(running, request(topic(TOPIC, position(0, 0)))))] == [3]


async def test_records_appended_meanwhile_are_served_and_not_checked(running: House) -> None:
    _restarted(running)
    append(running, b"d")
    assert [values(data) for data in told(now(running, request(topic(TOPIC, position(0, 3)))))] == [[b"d"]]
    assert not running.tasks


async def test_a_damaged_segment_is_served_up_to_the_damage_and_later_segments_whole(
    running: House, caplog: pytest.LogCaptureFixture
) -> None:
    _restarted(running, first_byte=1)
    append(running, b"d")
    pending = waits(running, request(topic(TOPIC, position(0, 0))))
    await running.run_tasks()
    assert [values(data) for data in told(pending.response)] == [[b"a"]]
    for offset in (1, 2):
        response = now(running, request(topic(TOPIC, position(0, offset))))
        assert codes(response) == [(0, ErrorCode.CORRUPT_MESSAGE)]
    running.replicas.partition(TOPIC, 0).log.segments.forget()
    assert [values(data) for data in told(now(running, request(topic(TOPIC, position(0, 3)))))] == [[b"d"]]
    assert [each.levelname for each in caplog.records if "Reads of offsets 1 to 2 fail" in each.message] == ["ERROR"]


async def test_a_look_up_by_timestamp_waits_until_the_segment_is_checked(running: House) -> None:
    _restarted(running)
    position = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=NOW_MS - 1)
    asked = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=TOPIC, partitions=[position])]
    )
    answer = running.list_offsets(asked, 9)
    assert isinstance(answer, Deferred)
    await running.run_tasks()
    (found,) = answer.response.topics[0].partitions
    assert (found.error_code, found.offset) == (0, 0)
    again = running.list_offsets(asked, 9)
    assert isinstance(again, ListOffsetsResponse)


async def test_a_segment_that_cannot_be_read_takes_its_partition_offline(running: House) -> None:
    _restarted(running)

    async def failing(function: object, *args: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    running.worker = failing  # type: ignore[assignment]
    pending = waits(running, request(topic(TOPIC, position(0, 0))))
    await running.run_tasks()
    with trio.fail_after(120):
        while not pending.done:
            await trio.sleep(0.1)
    assert codes(pending.response) == [(0, ErrorCode.KAFKA_STORAGE_ERROR)]


async def test_a_segment_that_is_deleted_during_its_check_is_no_failure(running: House) -> None:
    _restarted(running)
    pending = waits(running, request(topic(TOPIC, position(0, 0))))
    running.replicas.partition(TOPIC, 0).log.truncate_fully_and_start_at(3)
    await running.run_tasks()
    assert not running.replicas.partition(TOPIC, 0).is_offline
    assert codes(pending.response) == [(0, ErrorCode.OFFSET_OUT_OF_RANGE)]
