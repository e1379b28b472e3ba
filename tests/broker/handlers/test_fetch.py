import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.broker.handlers import fetch
from ottla.broker.partition import Partition
from ottla.broker.request_context import Deferred
from ottla.log.open_files import FileRegion
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import encode_response
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaTopicV1
from ottla.wire.record_batch import iter_batches, iter_records, validate_produced
from tests.broker.replicas import BROKER, NOW_MS, TOPIC, House, batch, context, topic_id

NAMES = 12
IDS = 17
Session = tuple[int, int]
NO_SESSION: Session = (0, -1)
NEW_SESSION: Session = (0, 0)
Answer = FetchResponse | Deferred[FetchResponse]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    house.lead(partitions=[0, 1])
    yield house
    house.close()


@pytest.fixture
async def running(house: House, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> House:
    nursery.start_soon(house.clock.run)
    return house


def position(
    index: int, offset: int, *, max_bytes: int = 1 << 20, epoch: int = -1, last_epoch: int = -1
) -> FetchPartition:
    return FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
    )


def topic(name: str, *positions: FetchPartition, by_id: bytes | None = None) -> FetchTopic:
    return FetchTopic(topic=name, topic_id=topic_id(name) if by_id is None else by_id, partitions=positions)


def request(
    *topics: FetchTopic,
    session: Session = NO_SESSION,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    max_wait_ms: int = 500,
    isolation_level: int = 0,
    replica_id: int = -1,
    forget: Sequence[tuple[str, int]] = (),
) -> FetchRequest:
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten_topics_data=[
            ForgottenTopic(topic=name, topic_id=topic_id(name), partitions=[index]) for name, index in forget
        ],
    )


def send(house: House, asked: FetchRequest, version: int = NAMES) -> Answer:
    return fetch.handle(
        asked,
        context(ApiKey.FETCH, version),
        replicas=house.replicas,
        sessions=house.sessions,
        metadata=house.metadata,
        fetch_max_bytes=55 << 20,
    )


def now(house: House, asked: FetchRequest, version: int = NAMES) -> FetchResponse:
    answer = send(house, asked, version)
    assert isinstance(answer, FetchResponse)
    # Whatever is answered can be sent.
    encode_response(1, answer, version)
    return answer


def waits(house: House, asked: FetchRequest, version: int = NAMES) -> Deferred[FetchResponse]:
    answer = send(house, asked, version)
    assert isinstance(answer, Deferred)
    assert not answer.applied
    assert not answer.done
    return answer


def told(response: FetchResponse) -> list[PartitionData]:
    return [data for found in response.responses for data in found.partitions]


def codes(response: FetchResponse) -> list[tuple[int, int]]:
    return [(data.partition_index, data.error_code) for data in told(response)]


def values(data: PartitionData) -> list[bytes | None]:
    records = data.records.read() if isinstance(data.records, FileRegion) else data.records
    assert isinstance(records, bytes)
    return [record.value for _, found in iter_batches(memoryview(records)) for record in iter_records(found)]


def append(house: House, *given: bytes, name: str = TOPIC, index: int = 0, acks: int = 1) -> Partition:
    partition = house.replicas.partition(name, index)
    produced = validate_produced(batch(*given), api_version=9, rules=partition.rules, now_ms=NOW_MS)
    house.replicas.append(partition, produced, acks, NOW_MS)
    return partition


# Answered at once


@pytest.mark.parametrize("version", range(4, 18))
def test_records_come_from_the_file_with_the_offsets_around_them(house: House, version: int) -> None:
    append(house, b"a", b"b")
    response = now(house, request(topic(TOPIC, position(0, 0))), version)
    (data,) = told(response)
    assert (data.partition_index, data.error_code) == (0, 0)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (2, 2, 0)
    assert (data.aborted_transactions, data.preferred_read_replica) == (None, -1)
    assert isinstance(data.records, FileRegion)
    assert values(data) == [b"a", b"b"]
    assert (response.session_id, response.error_code) == (0, 0)
    assert response.responses[0].topic_id == topic_id(TOPIC)


def test_who_reads_committed_records_is_told_of_no_aborted_ones(house: House) -> None:
    append(house, b"a")
    response = now(house, request(topic(TOPIC, position(0, 0), position(1, 0)), isolation_level=1))
    assert [data.aborted_transactions for data in told(response)] == [(), ()]


def test_an_open_transaction_hides_what_follows_from_who_reads_committed_records(house: House) -> None:
    partition = append(house, b"a")
    open_one = batch(b"t", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    produced = validate_produced(open_one, api_version=9, rules=partition.rules, now_ms=NOW_MS)
    house.replicas.append(partition, produced, 1, NOW_MS)
    (committed,) = told(now(house, request(topic(TOPIC, position(0, 0)), isolation_level=1)))
    assert values(committed) == [b"a"]
    assert (committed.high_watermark, committed.last_stable_offset) == (2, 1)
    (everything,) = told(now(house, request(topic(TOPIC, position(0, 0)))))
    assert values(everything) == [b"a", b"t"]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (position(0, -1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (position(0, 2), ErrorCode.OFFSET_OUT_OF_RANGE),
        (position(9, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (position(-1, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (position(0, 0, epoch=1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (position(0, 1, last_epoch=7), ErrorCode.OFFSET_OUT_OF_RANGE),
        (position(0, 0, max_bytes=-1), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("session", [NO_SESSION, NEW_SESSION])
def test_an_error_is_the_partitions_own_and_comes_at_once(
    house: House, asked: FetchPartition, code: ErrorCode, session: Session
) -> None:
    append(house, b"a")
    (data,) = told(now(house, request(topic(TOPIC, asked), session=session)))
    assert (data.error_code, data.high_watermark, data.log_start_offset) == (code, -1, -1)
    assert data.records == b""


@pytest.mark.parametrize("name", ["nowhere", "", "../etc", "a" * 300])
def test_an_unknown_topic_is_unknown(house: House, name: str) -> None:
    assert codes(now(house, request(topic(name, position(0, 0))))) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.parametrize("several", [False, True])
def test_an_unknown_topic_id_is_unknown(house: House, several: bool) -> None:
    asked = [position(0, 0), position(1, 0)] if several else [position(0, 0)]
    response = now(house, request(topic("", *asked, by_id=bytes(15) + b"\7")), IDS)
    assert {data.error_code for data in told(response)} == {ErrorCode.UNKNOWN_TOPIC_ID}
    assert response.responses[0].topic_id == bytes(15) + b"\7"


def test_a_topic_id_other_than_the_logs_is_inconsistent(house: House) -> None:
    house.tell(TOPIC, [0], topic_id=bytes(15) + b"\7")
    response = now(house, request(topic("", position(0, 0), by_id=bytes(15) + b"\7")), IDS)
    assert codes(response) == [(0, ErrorCode.INCONSISTENT_TOPIC_ID)]


def test_a_fenced_reader_is_pointed_to_the_leader_from_version_16_on(house: House) -> None:
    house.lead(leader=1, isr=[1], replicas=[BROKER, 1], epoch=3)
    for version, leader in ((16, (1, 3)), (15, (-1, -1))):
        response = now(house, request(topic(TOPIC, position(0, 0, epoch=2))), version)
        (data,) = told(response)
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == leader
        assert [node.node_id for node in response.node_endpoints] == ([1] if version == 16 else [])


def test_an_old_consumer_reads_from_leaders_only(house: House) -> None:
    append(house, b"a")
    house.lead(leader=1, isr=[1], replicas=[BROKER, 1], epoch=1)
    assert codes(now(house, request(topic(TOPIC, position(0, 0))), 10)) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert codes(now(house, request(topic(TOPIC, position(0, 0))), 11)) == [(0, ErrorCode.NONE)]


def test_a_diverging_reader_is_told_where_to_truncate_and_does_not_wait(house: House) -> None:
    append(house, b"a")
    house.lead(partitions=[0, 1], epoch=2)
    append(house, b"b")
    for session in (NO_SESSION, NEW_SESSION):
        (data,) = told(now(house, request(topic(TOPIC, position(0, 2, last_epoch=0)), session=session)))
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
        assert data.error_code == ErrorCode.NONE
        assert len(data.records or b"") == 0


def test_zstd_is_for_consumers_that_know_it(house: House) -> None:
    house.configs["packed"] = {"compression.type": "zstd"}
    house.lead("packed")
    append(house, b"a", name="packed")
    asked = request(topic("packed", position(0, 0)))
    assert codes(now(house, asked, 9)) == [(0, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)]
    assert codes(now(house, asked, 10)) == [(0, ErrorCode.NONE)]


def test_a_failed_disk_is_a_lost_leader_for_consumers_that_know_no_better(house: House) -> None:
    house.replicas.partition(TOPIC, 0).make_offline()
    asked = request(topic(TOPIC, position(0, 0)))
    assert codes(now(house, asked, 5)) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert codes(now(house, asked, 6)) == [(0, ErrorCode.KAFKA_STORAGE_ERROR)]


def test_the_first_batch_comes_whole_and_the_rest_as_far_as_it_fits(house: House) -> None:
    append(house, b"a" * 1000)
    append(house, b"b" * 1000)
    append(house, b"c" * 1000, index=1)
    both = (position(0, 0), position(1, 0))
    first, second = told(now(house, request(topic(TOPIC, *both), max_bytes=1)))
    assert (len(values(first)), len(second.records or b"")) == (1, 0)
    first, second = told(now(house, request(topic(TOPIC, *both), max_bytes=2500)))
    assert (len(values(first)), len(second.records or b"")) == (2, 0)
    first, second = told(now(house, request(topic(TOPIC, *both))))
    assert (len(values(first)), len(values(second))) == (2, 1)
    (data,) = told(now(house, request(topic(TOPIC, position(0, 0, max_bytes=1)))))
    assert len(values(data)) == 1


def test_no_more_is_sent_than_the_broker_allows(house: House) -> None:
    for _ in range(3):
        append(house, b"a" * 1000)
    answer = fetch.handle(
        request(topic(TOPIC, position(0, 0))),
        context(ApiKey.FETCH, NAMES),
        replicas=house.replicas,
        sessions=house.sessions,
        metadata=house.metadata,
        fetch_max_bytes=1500,
    )
    assert isinstance(answer, FetchResponse)
    assert len(told(answer)[0].records or b"") <= 1500


def test_neighbours_of_one_topic_stand_together(house: House) -> None:
    house.lead("other")
    asked = request(
        topic(TOPIC, position(1, 0), position(0, 0)), topic("other", position(0, 0)), max_wait_ms=0, min_bytes=0
    )
    response = now(house, asked)
    assert [(found.topic, [data.partition_index for data in found.partitions]) for found in response.responses] == [
        (TOPIC, [1, 0]),
        ("other", [0]),
    ]


def test_who_asks_for_nothing_gets_it_at_once(house: House) -> None:
    for session in (NO_SESSION, NEW_SESSION):
        assert now(house, request(session=session)).responses == []


@pytest.mark.parametrize(("version", "topics"), [(12, 1), (13, 0)])
def test_an_error_of_the_whole_request_names_partitions_before_version_13(version: int, topics: int) -> None:
    response = fetch.error_response(request(topic(TOPIC, position(3, 0))), version, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert response.error_code == -1
    assert codes(response) == [(3, -1)] * topics


# Waiting


async def test_a_fetch_waits_for_its_own_partitions(running: House) -> None:
    running.lead("other")
    pending = waits(running, request(topic(TOPIC, position(0, 0), position(1, 0))))
    append(running, b"x", name="other")
    assert not pending.done
    append(running, b"a", index=1)
    assert pending.done
    empty, full = sorted(told(pending.response), key=lambda data: data.partition_index)
    assert (values(empty), values(full)) == ([], [b"a"])
    assert len(running.replicas.signal) == 0


async def test_a_fetch_of_one_partition_waits_too(running: House) -> None:
    pending = waits(running, request(topic(TOPIC, position(0, 0))), IDS)
    append(running, b"a")
    assert values(told(pending.response)[0]) == [b"a"]


async def test_a_fetch_waits_for_enough_bytes_over_all_its_partitions(running: House) -> None:
    append(running, b"a" * 100)
    pending = waits(running, request(topic(TOPIC, position(0, 0), position(1, 0)), min_bytes=500))
    append(running, b"b" * 100, index=1)
    assert not pending.done
    append(running, b"c" * 100, index=1)
    assert [values(data) for data in told(pending.response)] == [[b"a" * 100], [b"b" * 100, b"c" * 100]]


async def test_bytes_of_one_partition_are_not_counted_twice(running: House) -> None:
    size = append(running, b"a" * 100).log.size
    pending = waits(running, request(topic(TOPIC, position(0, 0)), min_bytes=4 * size))
    for _ in range(2):
        append(running, b"a" * 100)
        assert not pending.done
    append(running, b"a" * 100)
    assert pending.done


async def test_a_fetch_ends_with_what_there_is_when_its_time_is_over(running: House) -> None:
    append(running, b"a")
    began = trio.current_time()
    pending = waits(running, request(topic(TOPIC, position(0, 0), position(1, 0)), min_bytes=5000, max_wait_ms=300))
    while not pending.done:
        await trio.sleep(0.01)
    assert trio.current_time() - began == pytest.approx(0.3, abs=0.02)
    assert [values(data) for data in told(pending.response)] == [[b"a"], []]
    assert len(running.replicas.signal) == 0


async def test_a_fetch_that_may_not_wait_does_not(running: House) -> None:
    for one_or_two in ([position(0, 0)], [position(0, 0), position(1, 0)]):
        assert codes(now(running, request(topic(TOPIC, *one_or_two), max_wait_ms=0))) == [
            (each.partition, 0) for each in one_or_two
        ]


async def test_a_fetch_that_needs_nothing_does_not_wait(running: House) -> None:
    assert codes(now(running, request(topic(TOPIC, position(0, 0)), min_bytes=0))) == [(0, 0)]


async def test_unknown_partitions_wait_with_the_others(running: House) -> None:
    pending = waits(running, request(topic(TOPIC, position(0, 0)), topic("nowhere", position(0, 0))))
    append(running, b"a")
    assert codes(pending.response) == [(0, 0), (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.parametrize("session", [NO_SESSION, NEW_SESSION])
async def test_a_new_leader_ends_the_wait(running: House, session: Session) -> None:
    pending = waits(running, request(topic(TOPIC, position(0, 0, epoch=0)), session=session))
    running.lead(epoch=1)
    assert codes(pending.response) == [(0, ErrorCode.FENCED_LEADER_EPOCH)]


async def test_a_deleted_topic_ends_the_wait(running: House) -> None:
    pending = waits(running, request(topic(TOPIC, position(0, 0))))
    running.replicas.stop_replica(
        StopReplicaRequest(
            controller_id=0,
            controller_epoch=1,
            delete_partitions=True,
            topics=[StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])],
        )
    )
    assert codes(pending.response) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


async def test_a_fetch_that_nobody_waits_for_leaves_nothing_behind(running: House) -> None:
    for session in (NO_SESSION, NEW_SESSION):
        pending = waits(running, request(topic(TOPIC, position(0, 0)), session=session))
        pending.abandon()
        assert len(running.replicas.signal) == 0
    await trio.sleep(1)
    append(running, b"a")
    assert len(running.sessions) == 0


# Sessions


async def test_a_session_is_told_what_moved_and_keeps_waiting_for_the_rest(running: House) -> None:
    first = waits(running, request(topic(TOPIC, position(0, 0), position(1, 0)), session=NEW_SESSION))
    append(running, b"a")
    session = first.response.session_id
    assert codes(first.response) == [(0, 0), (1, 0)]
    second = waits(running, request(topic(TOPIC, position(0, 1)), session=(session, 1)))
    append(running, b"b", index=1)
    assert [(data.partition_index, values(data)) for data in told(second.response)] == [(1, [b"b"])]
    assert second.response.session_id == session
    third = waits(running, request(topic(TOPIC, position(1, 1)), session=(session, 2)))
    await trio.sleep(1)
    assert told(third.response) == []


async def test_a_session_hears_of_what_moved_between_two_requests(running: House) -> None:
    session = now(running, request(topic(TOPIC, position(0, 0)), session=NEW_SESSION, max_wait_ms=0)).session_id
    append(running, b"a")
    assert values(told(now(running, request(session=(session, 1))))[0]) == [b"a"]
    assert values(told(now(running, request(session=(session, 2))))[0]) == [b"a"]


async def test_records_cut_off_by_the_limit_come_with_the_next_request(running: House) -> None:
    asked = topic(TOPIC, position(0, 0), position(1, 0))
    session = now(running, request(asked, session=NEW_SESSION, max_wait_ms=0)).session_id
    append(running, b"a" * 1000)
    append(running, b"b" * 1000, index=1)
    first = told(now(running, request(session=(session, 1), max_bytes=10)))
    assert [(data.partition_index, len(data.records or b"") > 0) for data in first] == [(0, True), (1, False)]
    second = told(now(running, request(topic(TOPIC, position(0, 1)), session=(session, 2), max_bytes=10)))
    assert [data.partition_index for data in second if len(data.records or b"")] == [1]


async def test_a_forgotten_partition_wakes_nobody(running: House) -> None:
    asked = topic(TOPIC, position(0, 0), position(1, 0))
    session = now(running, request(asked, session=NEW_SESSION, max_wait_ms=0)).session_id
    pending = waits(running, request(session=(session, 1), forget=[(TOPIC, 0)]))
    append(running, b"a")
    assert not pending.done
    append(running, b"b", index=1)
    assert codes(pending.response) == [(1, 0)]


@pytest.mark.parametrize(
    ("session", "version", "code"),
    [
        ((77, 1), NAMES, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ((1000, 5), NAMES, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ((1000, -2), NAMES, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ((1000, 1), IDS, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_wrong_session_is_refused_as_a_whole(house: House, session: Session, version: int, code: ErrorCode) -> None:
    assert now(house, request(topic(TOPIC, position(0, 0)), session=NEW_SESSION, max_wait_ms=0)).session_id == 1000
    response = now(house, request(session=session), version)
    assert (response.error_code, response.session_id, response.responses) == (code, 0, ())


async def test_a_topic_made_anew_under_its_name_is_inconsistent_for_an_old_session(running: House) -> None:
    asked = topic(TOPIC, position(0, 0))
    session = now(running, request(asked, session=NEW_SESSION, max_wait_ms=0), IDS).session_id
    running.replicas.stop_replica(
        StopReplicaRequest(
            controller_id=0,
            controller_epoch=1,
            delete_partitions=True,
            topics=[StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])],
        )
    )
    running.lead(topic_id=bytes(15) + b"\7")
    response = now(running, request(session=(session, 1)), IDS)
    assert codes(response) == [(0, ErrorCode.INCONSISTENT_TOPIC_ID)]


async def test_a_consumer_with_a_session_sees_every_record_once(running: House, trials: int, seed: int) -> None:
    chance = random.Random(seed)
    running.lead("many", partitions=range(4))
    for _ in range(trials):
        sent: dict[int, list[bytes]] = {index: [] for index in range(4)}
        offsets = {index: running.replicas.partition("many", index).high_watermark for index in range(4)}
        seen: dict[int, list[bytes | None]] = {index: [] for index in range(4)}
        session = NEW_SESSION
        changed = set(offsets)
        for round_number in range(15):
            if round_number < 10:
                for _ in range(chance.randrange(3)):
                    index = chance.randrange(4)
                    value = chance.randbytes(chance.randrange(1, 300))
                    append(running, value, name="many", index=index)
                    sent[index].append(value)
            asked = topic("many", *(position(index, offsets[index], max_bytes=400) for index in sorted(changed)))
            pending = send(running, request(asked, session=session, max_bytes=500, max_wait_ms=5))
            while isinstance(pending, Deferred):
                await trio.sleep(0.001)
                if pending.done:
                    pending = pending.response
            assert pending.error_code == 0
            session = (pending.session_id, session[1] + 1)
            changed = set()
            for data in told(pending):
                found = values(data)
                seen[data.partition_index] += found
                offsets[data.partition_index] += len(found)
                if found:
                    changed.add(data.partition_index)
        while any(len(seen[index]) < len(sent[index]) for index in seen):
            asked = topic("many", *(position(index, offsets[index]) for index in offsets))
            for data in told(now(running, request(asked, session=session))):
                seen[data.partition_index] += values(data)
                offsets[data.partition_index] += len(values(data))
            session = (session[0], session[1] + 1)
        assert seen == sent
        now(running, request(session=(session[0], -1)))


# Followers


def from_follower(asked: FetchTopic, *, epoch: int = -1) -> FetchRequest:
    made = request(asked, session=NO_SESSION, max_wait_ms=500)
    made.replica_state = ReplicaState(replica_id=1, replica_epoch=epoch)
    return made


@pytest.mark.parametrize("version", [11, 17])
async def test_a_followers_fetch_reads_to_the_log_end_and_commits(running: House, version: int) -> None:
    running.lead("two", isr=[BROKER, 1], replicas=[BROKER, 1])
    partition = append(running, b"a", name="two")
    consumer = waits(running, request(topic("two", position(0, 0))))

    def follow(offset: int) -> Answer:
        asked = topic("two", position(0, offset))
        made = request(asked, replica_id=1) if version < 15 else from_follower(asked)
        return send(running, made, version)

    first = follow(0)
    assert isinstance(first, FetchResponse)
    assert values(told(first)[0]) == [b"a"]
    assert not consumer.done
    second = follow(1)
    assert isinstance(second, Deferred)
    assert partition.high_watermark == 1
    assert values(told(consumer.response)[0]) == [b"a"]
    append(running, b"b", name="two")
    assert values(told(second.response)[0]) == [b"b"]
    assert partition.high_watermark == 1


def test_a_client_that_poses_as_a_follower_gets_nothing(house: House) -> None:
    append(house, b"a")
    response = now(house, request(topic(TOPIC, position(0, 0)), replica_id=5), 11)
    assert codes(response) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
