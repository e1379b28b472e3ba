import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.broker.handlers import delete_records
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.reads import TO_LOG_END, Reader, consumer
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.fetch import FetchPartition
from ottla.wire.records.batch import validate_produced
from ottla.wire.types import ZERO_UUID
from tests.broker.handlers import fetching
from tests.broker.support.hosted import BROKER, NOW_MS, TOPIC, House, batch, context

TO_HIGH_WATERMARK = -1


def append(house: House, *values: bytes, topic: str = TOPIC, **options: Any) -> None:
    partition = house.replicas.partition(topic, 0)
    produced = validate_produced(batch(*values, **options), api_version=9, rules=partition.rules, now_ms=NOW_MS)
    house.replicas.append(partition, produced, 1, NOW_MS)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Three records, in batches of two and one."""
    house = House(tmp_path)
    house.lead()
    append(house, b"a", b"b")
    append(house, b"c")
    yield house
    house.close()


def ask(house: House, *asked: tuple[str, int, int], version: int = 2) -> Deferred[DeleteRecordsResponse]:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)])
            for topic, index, offset in asked
        ],
        timeout_ms=1000,
    )
    reply = delete_records.handle(
        request, context(ApiKey.DELETE_RECORDS, version), replicas=house.replicas, metadata=house.metadata
    )
    assert isinstance(reply, Deferred)
    return reply


def send(house: House, *asked: tuple[str, int, int], version: int = 2) -> list[tuple[str, int, int, int]]:
    """Topic, partition, error and low watermark of each answer; none may wait."""
    return told(ask(house, *asked, version=version), version)


def told(reply: Deferred[DeleteRecordsResponse], version: int = 2) -> list[tuple[str, int, int, int]]:
    decoded = DeleteRecordsResponse.decode(reply.response.encode(version), version)
    return [
        (topic.name, each.partition_index, each.error_code, each.low_watermark)
        for topic in decoded.topics
        for each in topic.partitions
    ]


def test_the_next_fetch_of_a_session_names_the_partition_with_its_new_start(house: House) -> None:
    end = fetching.topic(TOPIC, fetching.position(0, 3))
    first = fetching.now(house, fetching.request(end, session=fetching.NEW_SESSION, min_bytes=0))
    following = fetching.request(session=(first.session_id, 1), min_bytes=0, max_wait_ms=0)
    send(house, (TOPIC, 0, 2))
    (data,) = fetching.told(fetching.now(house, following))
    assert (data.partition_index, data.log_start_offset, data.high_watermark) == (0, 2, 3)
    # A start that does not move is no news.
    send(house, (TOPIC, 0, 1))
    again = fetching.request(session=(first.session_id, 2), min_bytes=0, max_wait_ms=0)
    assert fetching.told(fetching.now(house, again)) == []


def read_error(house: House, offset: int) -> ErrorCode:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    reader = consumer(0, from_leader_only=True)
    return house.replicas.read(reader, TOPIC, 0, ZERO_UUID, asked, 1000, at_least_one=True).error


def test_records_below_the_offset_are_gone_even_within_a_batch(house: House) -> None:
    assert send(house, (TOPIC, 0, 1)) == [(TOPIC, 0, 0, 1)]
    assert house.replicas.partition(TOPIC, 0).log.log_start_offset == 1
    assert read_error(house, 0) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert read_error(house, 1) == ErrorCode.NONE


def test_minus_one_is_the_high_watermark(house: House) -> None:
    for version in (0, 1, 2):
        assert send(house, (TOPIC, 0, TO_HIGH_WATERMARK), version=version) == [(TOPIC, 0, 0, 3)]
    assert read_error(house, 3) == ErrorCode.NONE
    append(house, b"d")
    assert send(house, (TOPIC, 0, TO_HIGH_WATERMARK)) == [(TOPIC, 0, 0, 4)]


def test_a_start_never_goes_back(house: House) -> None:
    send(house, (TOPIC, 0, 2))
    assert send(house, (TOPIC, 0, 1)) == [(TOPIC, 0, 0, 2)]


def test_offsets_behind_the_high_watermark_and_negative_ones_are_out_of_range(house: House) -> None:
    for offset in (4, -2, 2**62):
        assert send(house, (TOPIC, 0, offset)) == [(TOPIC, 0, ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    assert house.replicas.partition(TOPIC, 0).log.log_start_offset == 0


def test_records_are_deleted_only_if_the_cleanup_policy_deletes(house: House) -> None:
    house.configs |= {"compacted": {"cleanup.policy": "compact"}, "both": {"cleanup.policy": "compact,delete"}}
    for topic in ("compacted", "both"):
        house.lead(topic)
        append(house, b"a", topic=topic)
    assert send(house, ("compacted", 0, 1), ("both", 0, 1)) == [
        ("compacted", 0, ErrorCode.POLICY_VIOLATION, -1),
        ("both", 0, ErrorCode.NONE, 1),
    ]


def test_partitions_that_are_not_here_or_internal_are_refused(house: House) -> None:
    house.tell("elsewhere", [0], leader=1)
    house.lead("__consumer_offsets")
    house.lead("broken")
    house.replicas.partition("broken", 0).make_offline()
    house.lead("followed", leader=1, isr=[1], replicas=[BROKER, 1])
    topics = ("nowhere", "elsewhere", "__consumer_offsets", "broken", "followed")
    assert send(house, *[(topic, 0, 0) for topic in topics]) == [
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("elsewhere", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        ("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        ("broken", 0, ErrorCode.KAFKA_STORAGE_ERROR, -1),
        ("followed", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
    ]


def test_of_a_partition_that_is_named_twice_the_last_offset_counts(house: House) -> None:
    assert send(house, (TOPIC, 0, 3), (TOPIC, 0, 1)) == [(TOPIC, 0, 0, 1)]


def test_a_topic_without_partitions_is_not_answered(house: House) -> None:
    nothing = DeleteRecordsTopic(name=TOPIC, partitions=())
    request = DeleteRecordsRequest(topics=[nothing], timeout_ms=1000)
    reply = delete_records.handle(
        request, context(ApiKey.DELETE_RECORDS, 2), replicas=house.replicas, metadata=house.metadata
    )
    assert isinstance(reply, Deferred)
    assert reply.response.topics == []


def test_the_start_is_kept_over_a_restart_even_of_an_empty_log(house: House) -> None:
    for offset in (1, 3):
        send(house, (TOPIC, 0, offset))
        house.close()
        house.open()
        house.lead(epoch=offset)
        log = house.replicas.partition(TOPIC, 0).log
        assert (log.log_start_offset, log.log_end_offset) == (offset, 3)
        assert read_error(house, 0) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_leader_epochs_begin_where_the_log_does(house: House) -> None:
    house.lead(epoch=4)
    append(house, b"d")
    send(house, (TOPIC, 0, 2))
    epochs = house.replicas.partition(TOPIC, 0).log.leader_epochs.entries
    assert [(each.epoch, each.start_offset) for each in epochs] == [(0, 2), (4, 3)]
    send(house, (TOPIC, 0, 4))
    epochs = house.replicas.partition(TOPIC, 0).log.leader_epochs.entries
    assert [(each.epoch, each.start_offset) for each in epochs] == [(4, 4)]


def test_the_last_stable_offset_is_not_below_the_start(house: House) -> None:
    append(house, b"t", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    append(house, b"d")
    partition = house.replicas.partition(TOPIC, 0)
    assert partition.last_stable_offset == 3
    send(house, (TOPIC, 0, 5))
    assert partition.last_stable_offset == 5


def test_an_error_of_the_disk_is_returned(house: House) -> None:
    log = house.replicas.partition(TOPIC, 0).log
    shutil.rmtree(log.directory)
    assert send(house, (TOPIC, 0, 1)) == [(TOPIC, 0, ErrorCode.KAFKA_STORAGE_ERROR, -1)]


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[House]:
    """Two records, and a follower that has none yet."""
    house = House(tmp_path)
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1])
    append(house, b"a", b"b")
    yield house
    house.close()


def follow(house: House, log_start_offset: int) -> None:
    """Let the follower have both records, and start there."""
    reader = Reader(1, -1, TO_LOG_END, from_leader_only=True)
    asked = FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1, log_start_offset=log_start_offset)
    house.replicas.read(reader, TOPIC, 0, ZERO_UUID, asked, 1, at_least_one=True)


async def test_the_reply_comes_when_all_live_followers_have_deleted_as_much(followed: House) -> None:
    assert send(followed, (TOPIC, 0, 1)) == [(TOPIC, 0, ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    follow(followed, 0)
    reply = ask(followed, (TOPIC, 0, 1))
    assert not reply.done
    follow(followed, 1)
    assert told(reply) == [(TOPIC, 0, ErrorCode.NONE, 1)]
    assert send(followed, (TOPIC, 0, 1)) == [(TOPIC, 0, ErrorCode.NONE, 1)]
    del followed.metadata.brokers[1]
    assert send(followed, (TOPIC, 0, 2)) == [(TOPIC, 0, ErrorCode.NONE, 2)]
    assert len(followed.parts.signal) == 0


async def test_a_follower_that_takes_too_long_gives_request_timed_out(
    followed: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nursery.start_soon(followed.clock.run)
    follow(followed, 0)
    reply = ask(followed, (TOPIC, 0, 1))
    await trio.sleep(0.9)
    assert not reply.done
    await trio.sleep(0.2)
    assert told(reply) == [(TOPIC, 0, ErrorCode.REQUEST_TIMED_OUT, 0)]
    assert len(followed.parts.signal) == 0


async def test_a_former_leader_returns_not_leader_or_follower(followed: House) -> None:
    follow(followed, 0)
    reply = ask(followed, (TOPIC, 0, 1))
    followed.lead(leader=1, isr=[BROKER, 1], replicas=[BROKER, 1], epoch=1)
    assert told(reply) == [(TOPIC, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_an_error_of_the_whole_request_is_returned_for_each_partition() -> None:
    asked = DeleteRecordsPartition(partition_index=3, offset=0)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="a", partitions=[asked])], timeout_ms=0)
    (topic,) = delete_records.error_response(request, 2, ErrorCode.UNKNOWN_SERVER_ERROR).topics
    assert [(each.partition_index, each.error_code, each.low_watermark) for each in topic.partitions] == [(3, -1, -1)]
