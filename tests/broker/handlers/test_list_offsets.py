from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.handlers import list_offsets
from ottla.broker.replicas.reads import TO_LOG_END, Reader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.records.batch import validate_produced
from tests.broker.support.hosted import BROKER, NOW_MS, TOPIC, House, batch

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
VERSION = 9


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    house.lead(epoch=4)
    yield house
    house.close()


def append(house: House, *values: bytes, timestamp: int = NOW_MS, topic: str = TOPIC, **options: object) -> None:
    partition = house.replicas.partition(topic, 0)
    records = batch(*values, timestamp=timestamp, **options)
    house.replicas.append(
        partition, validate_produced(records, api_version=9, rules=partition.rules, now_ms=NOW_MS), 1, NOW_MS
    )


def send(
    house: House,
    *asked: tuple[str, int, int],
    version: int = VERSION,
    isolation_level: int = 0,
    replica_id: int = -1,
    epoch: int = -1,
) -> list[tuple[int, int, int, int]]:
    """Error, timestamp, offset and epoch for each."""
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
                ],
            )
            for topic, index, timestamp in asked
        ],
    )
    response = house.list_offsets(request, version)
    assert isinstance(response, ListOffsetsResponse)
    decoded = ListOffsetsResponse.decode(response.encode(version), version)
    assert [topic.name for topic in decoded.topics] == list(dict.fromkeys(topic for topic, _, _ in asked))
    return [
        (found.error_code, found.timestamp, found.offset, found.leader_epoch)
        for topic in response.topics
        for found in topic.partitions
    ]


def test_the_ends_of_the_log_come_with_an_epoch_and_no_timestamp(house: House) -> None:
    append(house, b"a", b"b")
    assert send(house, (TOPIC, 0, LATEST)) == [(0, -1, 2, 4)]
    assert send(house, (TOPIC, 0, EARLIEST)) == [(0, -1, 0, 4)]
    assert send(house, (TOPIC, 0, EARLIEST_LOCAL)) == [(0, -1, 0, 4)]


def test_an_empty_log_starts_and_ends_at_zero(house: House) -> None:
    assert send(house, (TOPIC, 0, LATEST)) == [(0, -1, 0, 4)]
    assert send(house, (TOPIC, 0, EARLIEST)) == [(0, -1, 0, 4)]
    assert send(house, (TOPIC, 0, MAX_TIMESTAMP)) == [(0, -1, -1, -1)]
    assert send(house, (TOPIC, 0, 0)) == [(0, -1, -1, -1)]


def test_a_timestamp_finds_the_first_record_that_is_not_older(house: House) -> None:
    for timestamp in (1000, 3000, 2000):
        append(house, b"a", timestamp=timestamp)
    assert send(house, (TOPIC, 0, 0)) == [(0, 1000, 0, 4)]
    assert send(house, (TOPIC, 0, 1500)) == [(0, 3000, 1, 4)]
    assert send(house, (TOPIC, 0, 3001)) == [(0, -1, -1, -1)]
    assert send(house, (TOPIC, 0, MAX_TIMESTAMP)) == [(0, 3000, 1, 4)]


def test_of_records_with_the_time_of_their_append_the_first_has_the_largest_timestamp(house: House) -> None:
    house.configs["stamped"] = {"message.timestamp.type": "LogAppendTime"}
    house.lead("stamped")
    append(house, b"a", b"b", topic="stamped")
    assert send(house, ("stamped", 0, MAX_TIMESTAMP)) == [(0, NOW_MS, 0, 0)]


def test_a_topic_without_partitions_is_answered(house: House) -> None:
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=())])
    response = house.list_offsets(request, VERSION)
    assert isinstance(response, ListOffsetsResponse)
    assert [(topic.name, list(topic.partitions)) for topic in response.topics] == [(TOPIC, [])]


def test_nothing_is_found_in_tiered_storage(house: House) -> None:
    append(house, b"a")
    assert send(house, (TOPIC, 0, LATEST_TIERED)) == [(0, -1, -1, -1)]


@pytest.mark.parametrize(
    ("timestamp", "first"), [(LATEST, 1), (EARLIEST, 1), (MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)]
)
def test_special_timestamps_have_a_first_version(house: House, timestamp: int, first: int) -> None:
    for version in range(1, 10):
        error = 0 if version >= first else ErrorCode.UNSUPPORTED_VERSION
        assert send(house, (TOPIC, 0, timestamp), version=version)[0][0] == error


@pytest.mark.parametrize("timestamp", [-6, -7, -(2**63)])
def test_other_negative_timestamps_are_an_unsupported_version(house: House, timestamp: int) -> None:
    assert send(house, (TOPIC, 0, timestamp)) == [(ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)]


def test_partitions_that_are_unknown_or_led_elsewhere_are_refused(house: House) -> None:
    house.tell("elsewhere", [0], leader=1)
    assert send(house, ("nowhere", 0, LATEST), (TOPIC, 7, LATEST), ("elsewhere", 0, LATEST)) == [
        (3, -1, -1, -1),
        (3, -1, -1, -1),
        (6, -1, -1, -1),
    ]


def test_a_partition_named_twice_is_invalid_and_answered_once(house: House) -> None:
    house.lead("other")
    answers = send(house, (TOPIC, 0, LATEST), (TOPIC, 0, EARLIEST), ("other", 0, LATEST), (TOPIC, 0, LATEST))
    assert [answer[0] for answer in answers] == [ErrorCode.INVALID_REQUEST, 0]


def test_a_leader_epoch_fences(house: House) -> None:
    assert send(house, (TOPIC, 0, LATEST), epoch=4)[0][0] == 0
    assert send(house, (TOPIC, 0, LATEST), epoch=3)[0][0] == ErrorCode.FENCED_LEADER_EPOCH
    assert send(house, (TOPIC, 0, LATEST), epoch=-2)[0][0] == ErrorCode.FENCED_LEADER_EPOCH
    assert send(house, (TOPIC, 0, EARLIEST), epoch=5)[0][0] == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("level", [-1, 2])
def test_an_unknown_isolation_level_is_refused(house: House, level: int) -> None:
    with pytest.raises(KafkaError) as refused:
        send(house, (TOPIC, 0, LATEST), isolation_level=level)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_read_committed_ends_before_an_open_transaction(house: House) -> None:
    append(house, b"a")
    append(house, b"t", timestamp=NOW_MS + 1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert send(house, (TOPIC, 0, LATEST), isolation_level=1) == [(0, -1, 1, 4)]
    assert send(house, (TOPIC, 0, LATEST)) == [(0, -1, 2, 4)]
    assert send(house, (TOPIC, 0, NOW_MS + 1), isolation_level=1) == [(0, -1, -1, -1)]
    assert send(house, (TOPIC, 0, NOW_MS + 1)) == [(0, NOW_MS + 1, 1, 4)]


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    house.lead(isr=[BROKER, 1], replicas=[BROKER, 1], epoch=4)
    append(house, b"a")
    yield house
    house.close()


def test_a_broker_gets_the_log_end_and_a_consumer_the_high_watermark(replicated: House) -> None:
    assert send(replicated, (TOPIC, 0, LATEST)) == [(0, -1, 0, 4)]
    assert send(replicated, (TOPIC, 0, LATEST), replica_id=1) == [(0, -1, 1, 4)]


def test_only_a_debugger_may_ask_a_follower(replicated: House) -> None:
    replicated.lead(leader=1, isr=[1], replicas=[BROKER, 1], epoch=5)
    assert send(replicated, (TOPIC, 0, EARLIEST))[0][0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert send(replicated, (TOPIC, 0, EARLIEST), replica_id=-2)[0][0] == ErrorCode.NONE


def test_a_new_leader_has_no_latest_offset_until_it_has_caught_up(replicated: House) -> None:
    replicated.lead(isr=[BROKER, 1], replicas=[BROKER, 1], epoch=5)
    assert send(replicated, (TOPIC, 0, LATEST), version=5)[0][0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert send(replicated, (TOPIC, 0, LATEST), version=4)[0][0] == ErrorCode.LEADER_NOT_AVAILABLE
    assert send(replicated, (TOPIC, 0, EARLIEST))[0][0] == ErrorCode.NONE
    asked = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1)
    reader = Reader(1, -1, TO_LOG_END, from_leader_only=True)
    replicated.replicas.read(reader, TOPIC, 0, bytes(16), asked, 1, at_least_one=True)
    assert send(replicated, (TOPIC, 0, LATEST)) == [(0, -1, 1, 5)]


def test_an_error_of_the_whole_request_is_returned_for_each_partition() -> None:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name="a", partitions=[ListOffsetsPartition(partition_index=3, timestamp=-1)])],
    )
    (topic,) = list_offsets.error_response(request, VERSION, ErrorCode.UNKNOWN_SERVER_ERROR).topics
    assert [(topic.name, each.partition_index, each.error_code) for each in topic.partitions] == [("a", 3, -1)]
