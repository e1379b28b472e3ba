from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.handlers import offset_for_leader_epoch
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.records.batch import validate_produced
from tests.broker.support.hosted import BROKER, NOW_MS, TOPIC, House, batch, context


def append(house: House, *values: bytes) -> None:
    partition = house.replicas.partition(TOPIC, 0)
    produced = validate_produced(batch(*values), api_version=9, rules=partition.rules, now_ms=NOW_MS)
    house.replicas.append(partition, produced, 1, NOW_MS)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Epoch 2 wrote offsets 0 and 1, epoch 5 offset 2."""
    house = House(tmp_path)
    house.lead(epoch=2)
    append(house, b"a", b"b")
    house.lead(epoch=5)
    append(house, b"c")
    yield house
    house.close()


def send(
    house: House, *asked: tuple[str, int, int], current: int = -1, version: int = 4
) -> list[tuple[int, int, int, int]]:
    """Error, partition, epoch and end for each topic, partition and epoch."""
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
                ],
            )
            for topic, index, epoch in asked
        ],
    )
    response = offset_for_leader_epoch.handle(
        request, context(ApiKey.OFFSET_FOR_LEADER_EPOCH, version), replicas=house.replicas
    )
    decoded = OffsetForLeaderEpochResponse.decode(response.encode(version), version)
    assert [topic.topic for topic in decoded.topics] == [topic for topic, _, _ in asked]
    return [
        (each.error_code, each.partition, each.leader_epoch, each.end_offset)
        for topic in decoded.topics
        for each in topic.partitions
    ]


def test_an_epoch_ends_where_the_next_one_starts_and_the_last_one_at_the_end_of_the_log(house: House) -> None:
    for version in (2, 3, 4):
        assert send(house, (TOPIC, 0, 2), (TOPIC, 0, 5), version=version) == [(0, 0, 2, 2), (0, 0, 5, 3)]


def test_an_epoch_that_wrote_nothing_is_answered_with_the_one_before_it(house: House) -> None:
    assert send(house, (TOPIC, 0, 3), (TOPIC, 0, 4)) == [(0, 0, 2, 2), (0, 0, 2, 2)]


def test_an_epoch_before_all_ends_where_the_log_starts(house: House) -> None:
    assert send(house, (TOPIC, 0, 1)) == [(0, 0, 1, 0)]


def test_an_epoch_to_come_and_none_have_no_end(house: House) -> None:
    assert send(house, (TOPIC, 0, 6), (TOPIC, 0, -1)) == [(0, 0, -1, -1), (0, 0, -1, -1)]


def test_the_leader_epoch_of_the_client_fences(house: House) -> None:
    assert send(house, (TOPIC, 0, 2), current=5) == [(0, 0, 2, 2)]
    assert send(house, (TOPIC, 0, 2), current=4) == [(ErrorCode.FENCED_LEADER_EPOCH, 0, -1, -1)]
    assert send(house, (TOPIC, 0, 2), current=6) == [(ErrorCode.UNKNOWN_LEADER_EPOCH, 0, -1, -1)]


def test_only_the_leader_answers(house: House) -> None:
    house.tell("elsewhere", [0], leader=1)
    house.lead("followed", leader=1, isr=[1], replicas=[BROKER, 1])
    assert send(house, ("nowhere", 0, 0), (TOPIC, 7, 0), ("elsewhere", 0, 0), ("followed", 0, 0)) == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, -1, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 7, -1, -1),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, -1, -1),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, -1, -1),
    ]


def test_a_log_whose_disk_failed_is_a_storage_error(house: House) -> None:
    house.replicas.partition(TOPIC, 0).make_offline()
    assert send(house, (TOPIC, 0, 2)) == [(ErrorCode.KAFKA_STORAGE_ERROR, 0, -1, -1)]


def test_an_error_of_the_whole_request_is_returned_for_each_partition() -> None:
    asked = OffsetForLeaderPartition(partition=3, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="a", partitions=[asked])])
    (topic,) = offset_for_leader_epoch.error_response(request, 4, ErrorCode.UNKNOWN_SERVER_ERROR).topics
    assert [(topic.topic, each.partition, each.error_code) for each in topic.partitions] == [("a", 3, -1)]
