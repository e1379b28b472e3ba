from collections.abc import Sequence

import pytest

from ottla.broker.handlers import describe_topic_partitions
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.types import ZERO_UUID
from tests.broker.support.hosted import House, topic_id


@pytest.fixture
def house(house: House) -> House:
    """Beside the fixture's own "orders" with two partitions."""
    house.tell("a", [0, 1, 2], epoch=4, topic_id=topic_id("a"))
    house.tell("b", [0], leader=5)
    return house


def send(
    house: House,
    *topics: str,
    limit: int = 2000,
    cursor: tuple[str, int] | None = None,
    max_partitions: int = 2000,
    listener: str = "PLAINTEXT",
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in topics],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    context = RequestContext(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, "test", listener_name=listener)
    response = describe_topic_partitions.handle(
        request, context, metadata=house.metadata, max_partitions=max_partitions
    )
    return DescribeTopicPartitionsResponse.decode(response.encode(0), 0)


def page(response: DescribeTopicPartitionsResponse) -> tuple[list[tuple[str | None, Sequence[int]]], object]:
    cursor = response.next_cursor
    return (
        [(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics],
        cursor and (cursor.topic_name, cursor.partition_index),
    )


def test_a_request_without_topics_gets_all_topics_sorted_by_name(house: House) -> None:
    assert page(send(house)) == ([("a", [0, 1, 2]), ("b", [0]), ("orders", [0, 1])], None)


def test_the_response_describes_a_topic(house: House) -> None:
    (topic,) = send(house, "a").topics
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, topic_id("a"), False)
    assert topic.topic_authorized_operations == 0xDF8
    first = topic.partitions[0]
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 0, 4)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ((0,), (0,), ())
    assert (first.eligible_leader_replicas, first.last_known_elr) == ((), ())


def test_an_unreachable_leader_is_minus_one(house: House) -> None:
    ((partition,),) = [topic.partitions for topic in send(house, "b").topics]
    assert (partition.error_code, partition.leader_id, partition.replica_nodes) == (0, -1, (5,))
    assert send(house, "a", listener="OTHER").topics[0].partitions[0].leader_id == -1


def test_a_page_ends_within_a_topic_and_the_next_one_goes_on_there(house: House) -> None:
    assert page(send(house, limit=2)) == ([("a", [0, 1])], ("a", 2))
    assert page(send(house, limit=2, cursor=("a", 2))) == ([("a", [2]), ("b", [0])], ("orders", 0))
    assert page(send(house, limit=2, cursor=("orders", 0))) == ([("orders", [0, 1])], None)


def test_a_page_that_ends_with_a_topic_goes_on_at_the_next_one(house: House) -> None:
    assert page(send(house, limit=3)) == ([("a", [0, 1, 2])], ("b", 0))


def test_the_broker_bounds_a_page_and_one_partition_is_always_on_it(house: House) -> None:
    assert page(send(house, max_partitions=1)) == ([("a", [0])], ("a", 1))
    for limit in (0, -1):
        assert page(send(house, limit=limit)) == ([("a", [0])], ("a", 1))


def test_requested_topics_are_sorted_and_come_once(house: House) -> None:
    assert page(send(house, "orders", "a", "orders")) == ([("a", [0, 1, 2]), ("orders", [0, 1])], None)
    assert page(send(house, "orders", "a", cursor=("orders", 1))) == ([("orders", [1])], None)


def test_a_cursor_behind_the_last_partition_finds_none(house: House) -> None:
    assert page(send(house, "a", cursor=("a", 7))) == ([("a", [])], None)


def test_a_topic_that_is_gone_since_the_last_page_is_passed_over(house: House) -> None:
    assert page(send(house, cursor=("aa", 3))) == ([("b", [0]), ("orders", [0, 1])], None)


def test_unknown_topics_take_no_room_on_the_page(house: House) -> None:
    told = send(house, "a", "-none-", "a:b", limit=3)
    assert [(topic.name, topic.error_code) for topic in told.topics] == [
        ("-none-", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", ErrorCode.NONE),
    ]
    assert page(told)[1] == ("a:b", 0)
    (invalid,) = send(house, "a:b").topics
    assert (invalid.error_code, invalid.topic_id) == (ErrorCode.INVALID_TOPIC_EXCEPTION, ZERO_UUID)


def test_a_cursor_must_be_at_a_partition_of_a_requested_topic(house: House) -> None:
    for cursor in (("b", 0), ("a", -1)):
        with pytest.raises(KafkaError) as raised:
            send(house, "a", cursor=cursor)
        assert raised.value.code == ErrorCode.INVALID_REQUEST


def test_an_error_of_the_whole_request_is_returned_for_each_topic() -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")])
    (topic,) = describe_topic_partitions.error_response(request, 0, ErrorCode.INVALID_REQUEST).topics
    assert (topic.name, topic.error_code, topic.partitions) == ("a", ErrorCode.INVALID_REQUEST, ())
