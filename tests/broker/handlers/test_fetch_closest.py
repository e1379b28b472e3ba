"""Consumers that read from a replica in their rack (KIP-392)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.replicas.watchers import HIGH_WATERMARK
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchResponse
from tests.broker.handlers.fetching import (
    IDS,
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
    waits,
)
from tests.broker.support.hosted import House

NAME = "two"
FOLLOWER = 1
NOBODY = -1


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[House]:
    """Broker 0 in rack a leads, broker 1 in rack b follows and has both records."""
    house = House(tmp_path)
    house.racks = {0: "a", FOLLOWER: "b"}
    house.lead(NAME, partitions=[0, 1], replicas=[0, FOLLOWER], isr=[0, FOLLOWER])
    append(house, b"a", b"b", name=NAME)
    follow(house, 2)
    yield house
    house.close()


def follow(house: House, offset: int) -> None:
    asked = request(topic(NAME, position(0, offset)), replica_id=FOLLOWER, max_wait_ms=0)
    now(house, asked, IDS)


def preferred(response: FetchResponse) -> list[int]:
    return [data.preferred_read_replica for data in told(response)]


@pytest.mark.parametrize("version", [11, 12, 13, 17])
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_consumer_is_referred_to_the_replica_in_its_rack_and_gets_no_records(
    leader: House, version: int, isolation_level: int
) -> None:
    asked = request(topic(NAME, position(0, 0)), rack_id="b", isolation_level=isolation_level)
    (data,) = told(now(leader, asked, version))
    assert (data.error_code, data.preferred_read_replica, values(data)) == (0, FOLLOWER, [])
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (2, 2, 0)
    assert data.aborted_transactions is None


@pytest.mark.parametrize(("rack_id", "version"), [("a", IDS), ("c", IDS), ("b", 10)])
def test_other_consumers_are_served_by_the_leader(leader: House, rack_id: str, version: int) -> None:
    response = now(leader, request(topic(NAME, position(0, 0)), rack_id=rack_id), version)
    assert preferred(response) == [NOBODY]
    assert values(told(response)[0]) == [b"a", b"b"]


def test_a_referral_does_not_wait_and_comes_with_the_other_partitions(leader: House) -> None:
    asked = request(topic(NAME, position(0, 2), position(1, 0)), rack_id="b", min_bytes=1 << 20)
    assert preferred(now(leader, asked)) == [FOLLOWER, NOBODY]


async def test_without_the_offset_the_replica_is_not_preferred(leader: House) -> None:
    append(leader, b"c", name=NAME)
    waits(leader, request(topic(NAME, position(0, 3)), rack_id="b"))


async def test_a_fetch_that_waits_is_referred_when_the_replica_has_the_offset(leader: House) -> None:
    append(leader, b"c", name=NAME)
    pending = waits(leader, request(topic(NAME, position(0, 3)), rack_id="b"))
    follow(leader, 3)
    assert preferred(pending.response) == [FOLLOWER]


def test_a_session_names_a_referral_each_time(leader: House) -> None:
    first = now(leader, request(topic(NAME, position(0, 0)), session=NEW_SESSION, rack_id="b"), IDS)
    again = now(leader, request(session=(first.session_id, 1), rack_id="b"), IDS)
    assert preferred(first) == preferred(again) == [FOLLOWER]


@pytest.mark.parametrize(
    ("epoch", "code"), [(1, ErrorCode.UNKNOWN_LEADER_EPOCH), (0, ErrorCode.NONE), (-1, ErrorCode.NONE)]
)
def test_a_consumer_with_another_leader_epoch_is_not_referred(leader: House, epoch: int, code: ErrorCode) -> None:
    response = now(leader, request(topic(NAME, position(0, 0, epoch=epoch)), rack_id="b"))
    assert codes(response) == [(0, code)]
    assert preferred(response) == [NOBODY if code else FOLLOWER]


# On the follower


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[House]:
    """Broker 0 follows: it has three records, and knows that one is committed."""
    house = House(tmp_path)
    house.racks = {0: "a", FOLLOWER: "b"}
    house.lead(NAME, replicas=[0, FOLLOWER], isr=[0, FOLLOWER])
    append(house, b"a", name=NAME)
    append(house, b"b", b"c", name=NAME)
    house.lead(NAME, leader=1, epoch=1, replicas=[0, FOLLOWER], isr=[0, FOLLOWER])
    house.replicas.partition(NAME, 0).high_watermark = 1
    yield house
    house.close()


def test_a_follower_serves_up_to_its_own_high_watermark_and_refers_no_consumer(follower: House) -> None:
    (data,) = told(now(follower, request(topic(NAME, position(0, 0)), rack_id="b"), IDS))
    assert (data.error_code, data.preferred_read_replica, data.high_watermark) == (0, NOBODY, 1)
    assert values(data) == [b"a"]


def test_before_version_11_only_the_leader_serves(follower: House) -> None:
    response = now(follower, request(topic(NAME, position(0, 0))), 10)
    assert codes(response) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


@pytest.mark.parametrize("offset", [1, 2, 3])
async def test_a_fetch_waits_for_records_that_the_follower_does_not_know_to_be_committed(
    follower: House, offset: int
) -> None:
    pending = waits(follower, request(topic(NAME, position(0, offset)), rack_id="b"), IDS)
    partition = follower.replicas.partition(NAME, 0)
    partition.high_watermark = 3
    follower.parts.group_commit.moved(partition, HIGH_WATERMARK)
    assert pending.done is (offset < 3)
    if pending.done:
        assert values(told(pending.response)[0]) == [b"b", b"c"]


@pytest.mark.parametrize("offset", [4, -1])
def test_beyond_its_log_an_offset_is_out_of_range(follower: House, offset: int) -> None:
    response = send(follower, request(topic(NAME, position(0, offset)), rack_id="b"), IDS)
    assert isinstance(response, FetchResponse)
    assert codes(response) == [(0, ErrorCode.OFFSET_OUT_OF_RANGE)]
