import pytest

from ottla.broker.handlers import describe_producers
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from ottla.wire.records.batch import validate_produced
from tests.broker.support.hosted import BROKER, NOW_MS, TOPIC, House, batch, context


def append(house: House, *values: bytes, transactional: bool = False, producer_id: int = 7) -> None:
    partition = house.replicas.partition(TOPIC, 0)
    records = batch(*values, producer_id=producer_id, producer_epoch=3, base_sequence=0, transactional=transactional)
    produced = validate_produced(records, api_version=9, rules=partition.rules, now_ms=NOW_MS)
    house.replicas.append(partition, produced, 1, NOW_MS)


def send(house: House, *asked: tuple[str, int]) -> list[PartitionResponse]:
    topics = [TopicRequest(name=topic, partition_indexes=[index]) for topic, index in asked]
    response = describe_producers.handle(
        DescribeProducersRequest(topics=topics),
        context(ApiKey.DESCRIBE_PRODUCERS, 0),
        replicas=house.replicas,
        metadata=house.metadata,
    )
    decoded = DescribeProducersResponse.decode(response.encode(0), 0)
    assert [topic.name for topic in decoded.topics] == [topic for topic, _ in asked]
    return [each for topic in decoded.topics for each in topic.partitions]


def test_a_partition_without_idempotent_batches_has_no_producers(house: House) -> None:
    (told,) = send(house, (TOPIC, 0))
    assert (told.partition_index, told.error_code, told.error_message, told.active_producers) == (0, 0, None, ())


def test_an_idempotent_producer_comes_with_its_last_sequence(house: House) -> None:
    append(house, b"a", b"b")
    (producer,) = send(house, (TOPIC, 0))[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 1)
    assert (producer.last_timestamp, producer.coordinator_epoch) == (NOW_MS, -1)
    assert producer.current_txn_start_offset == -1


def test_an_open_transaction_comes_with_its_first_offset(house: House) -> None:
    append(house, b"a")
    append(house, b"b", b"c", transactional=True, producer_id=8)
    found = {each.producer_id: each.current_txn_start_offset for each in send(house, (TOPIC, 0))[0].active_producers}
    assert found == {7: -1, 8: 1}


def test_a_follower_answers_from_its_own_state(house: House) -> None:
    append(house, b"a")
    house.lead(leader=1, isr=[1], replicas=[BROKER, 1], epoch=1)
    assert [each.producer_id for each in send(house, (TOPIC, 0))[0].active_producers] == [7]


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
    ],
)
def test_an_unknown_or_invalid_topic_is_refused(house: House, topic: str, code: ErrorCode, message: str) -> None:
    (told,) = send(house, (topic, 4))
    assert (told.partition_index, told.error_code, told.error_message) == (4, code, message)


def test_partitions_that_are_not_here_are_refused(house: House) -> None:
    house.tell("elsewhere", [0], leader=1)
    house.replicas.partition(TOPIC, 1).make_offline()
    told = send(house, (TOPIC, 9), ("elsewhere", 0), (TOPIC, 1))
    assert [(each.error_code, each.error_message) for each in told] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, None),
        (ErrorCode.KAFKA_STORAGE_ERROR, None),
    ]


def test_an_error_of_the_whole_request_is_returned_for_each_partition() -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="a", partition_indexes=[3, 4])])
    (topic,) = describe_producers.error_response(request, 0, ErrorCode.UNKNOWN_SERVER_ERROR).topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(3, -1), (4, -1)]
