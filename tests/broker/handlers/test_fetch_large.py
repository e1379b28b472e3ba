"""Fetches of thousands of partitions, which are handled in parts and answered by one response."""

import pytest
import trio

from ottla.broker.loop.deferred import Deferred
from ottla.wire.codec import decode_large_request, encode_request
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.handlers.fetching import (
    IDS,
    NAMES,
    NEW_SESSION,
    append,
    codes,
    now,
    position,
    request,
    send,
    told,
    topic,
    values,
)
from tests.broker.support.hosted import TOPIC, House

MANY = 5000


def positions(count: int = MANY) -> list[FetchPartition]:
    return [position(index, 0) for index in range(count)]


async def fetched(house: House, asked: FetchRequest, version: int = NAMES) -> FetchResponse:
    """The response to a request that was encoded and decoded."""
    _, large = decode_large_request(memoryview(encode_request(version, 1, None, asked))[4:])
    assert isinstance(large, FetchRequest)
    answer = send(house, large, version)
    assert isinstance(answer, Deferred)
    assert not answer.applied
    await house.run_tasks()
    assert isinstance(answer.response, FetchResponse)
    return answer.response


@pytest.mark.parametrize("version", [NAMES, IDS])
async def test_the_response_has_all_partitions_in_their_order(house: House, version: int) -> None:
    house.lead("last", partitions=[4])
    append(house, b"a")
    append(house, b"z", name="last", index=4)
    asked = request(topic("nobody", *positions(3)), topic(TOPIC, *positions()), topic("last", *positions(5)))
    response = await fetched(house, asked, version)
    assert [len(each.partitions) for each in response.responses] == [3, MANY, 5]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    first = ErrorCode.UNKNOWN_TOPIC_ID if version == IDS else unknown
    in_topic = [(index, 0 if index < 2 else unknown) for index in range(MANY)]
    in_last = [(index, 0 if index == 4 else unknown) for index in range(5)]
    assert codes(response) == [(index, first) for index in range(3)] + in_topic + in_last
    assert values(told(response)[3]) == [b"a"]
    assert values(told(response)[-1]) == [b"z"]


async def test_topics_of_one_partition_each_are_many_too(house: House) -> None:
    asked = [FetchTopic(topic=f"topic-{number}", partitions=[position(0, 0)]) for number in range(MANY)]
    response = await fetched(house, request(*asked))
    assert [each.topic for each in response.responses] == [each.topic for each in asked]


async def test_a_large_fetch_begins_a_session(house: House) -> None:
    house.lead(partitions=[4000])
    response = await fetched(house, request(topic(TOPIC, *positions()), session=NEW_SESSION))
    assert response.session_id
    assert len(told(response)) == MANY
    house.lead("other")
    append(house, b"a", index=4000)
    following = now(house, request(session=(response.session_id, 1)))
    assert [values(data) for data in told(following) if not data.error_code] == [[b"a"]]


async def test_a_large_fetch_continues_a_session(house: House) -> None:
    begun = now(house, request(topic(TOPIC, position(0, 0)), session=NEW_SESSION, max_wait_ms=0))
    append(house, b"a")
    response = await fetched(house, request(topic(TOPIC, *positions()), session=(begun.session_id, 1)))
    assert response.session_id == begun.session_id
    assert len(told(response)) == MANY
    assert values(told(response)[0]) == [b"a"]


async def test_an_unknown_session_is_refused(house: House) -> None:
    response = await fetched(house, request(topic(TOPIC, *positions()), session=(4711, 3)))
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not response.responses


async def test_the_limit_of_bytes_holds_over_all_parts(house: House) -> None:
    house.lead(partitions=[1000, 2000, 3000])
    for index in (0, 1000, 2000, 3000):
        append(house, b"x" * 100, index=index)
    for max_bytes, expected in ((0, 1), (1, 1), (1000, 4)):
        response = await fetched(house, request(topic(TOPIC, *positions()), max_bytes=max_bytes))
        assert sum(bool(values(data)) for data in told(response) if not data.error_code) == expected


async def test_other_tasks_run_between_the_parts(house: House) -> None:
    turns = 0
    is_done = False

    async def other() -> None:
        nonlocal turns
        while not is_done:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await fetched(house, request(topic(TOPIC, *positions())))
        is_done = True
    assert turns >= 2 * MANY // 200
