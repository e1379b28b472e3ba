import pytest

from ottla.broker.handlers import fetch
from ottla.broker.loop.deferred import Deferred
from ottla.log.segments.open_files import FileRegion
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from ottla.wire.records.batch import ControlType, ProducedBatch, build_control_batch, parse_header, validate_produced
from tests.broker.handlers.fetching import (
    IDS,
    NAMES,
    NEW_SESSION,
    NO_SESSION,
    Answer,
    Session,
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
from tests.broker.support.hosted import BROKER, NOW_MS, TOPIC, House, batch, context, topic_id

# Answered at once


@pytest.mark.parametrize("version", range(4, 18))
def test_records_come_with_the_offsets_around_them(house: House, version: int) -> None:
    append(house, b"a", b"b")
    response = now(house, request(topic(TOPIC, position(0, 0))), version)
    (data,) = told(response)
    assert (data.partition_index, data.error_code) == (0, 0)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (2, 2, 0)
    assert (data.aborted_transactions, data.preferred_read_replica) == (None, -1)
    assert values(data) == [b"a", b"b"]
    assert (response.session_id, response.error_code) == (0, 0)
    assert response.responses[0].topic_id == topic_id(TOPIC)


def test_a_response_of_many_partitions_holds_few_bytes_in_memory(house: House) -> None:
    house.lead("wide", range(100))
    for index in range(100):
        append(house, bytes(10_000), name="wide", index=index)
    response = now(house, request(topic("wide", *(position(index, 0) for index in range(100)))))
    copied = [data for data in told(response) if not isinstance(data.records, FileRegion)]
    assert 20 < len(copied) < 30
    assert all(values(data) == [bytes(10_000)] for data in told(response))


def test_read_committed_without_aborted_transactions_has_an_empty_list(house: House) -> None:
    append(house, b"a")
    response = now(house, request(topic(TOPIC, position(0, 0), position(1, 0)), isolation_level=1))
    assert [data.aborted_transactions for data in told(response)] == [[], ()]


def test_read_committed_has_the_aborted_transactions(house: House) -> None:
    partition = append(house, b"a")
    for each in (
        batch(b"t", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        memoryview(
            build_control_batch(
                ControlType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
            )
        ),
    ):
        produced = ProducedBatch(parse_header(each), each, NOW_MS)
        house.replicas.append(partition, produced, 1, NOW_MS)
    (committed,) = told(now(house, request(topic(TOPIC, position(0, 0)), isolation_level=1)))
    assert committed.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=1)]
    assert committed.last_stable_offset == 3
    (everything,) = told(now(house, request(topic(TOPIC, position(0, 0)))))
    assert everything.aborted_transactions is None


@pytest.mark.parametrize("level", [-1, 2])
def test_an_unknown_isolation_level_is_refused(house: House, level: int) -> None:
    with pytest.raises(KafkaError) as refused:
        send(house, request(topic(TOPIC, position(0, 0)), isolation_level=level))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_open_transaction_hides_later_records_from_read_committed(house: House) -> None:
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
def test_a_partition_has_its_own_error_at_once(
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


def test_the_response_names_the_new_leader_before_the_metadata_does(house: House) -> None:
    house.lead(epoch=5)
    house.tell(TOPIC, [0], epoch=4, topic_id=topic_id(TOPIC))
    (data,) = told(now(house, request(topic(TOPIC, position(0, 0, epoch=4))), 16))
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (BROKER, 5)


def test_an_old_consumer_reads_from_leaders_only(house: House) -> None:
    append(house, b"a")
    house.lead(leader=1, isr=[1], replicas=[BROKER, 1], epoch=1)
    assert codes(now(house, request(topic(TOPIC, position(0, 0))), 10)) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert codes(now(house, request(topic(TOPIC, position(0, 0))), 11)) == [(0, ErrorCode.NONE)]


def test_a_diverging_reader_gets_the_offset_to_truncate_to_and_does_not_wait(house: House) -> None:
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
    beyond = request(topic("packed", position(0, 99)))
    assert codes(now(house, beyond, 9)) == [(0, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)]
    assert codes(now(house, beyond, 10)) == [(0, ErrorCode.OFFSET_OUT_OF_RANGE)]


def test_a_failed_disk_is_not_leader_or_follower_before_version_6(house: House) -> None:
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


def test_a_negative_number_of_bytes_fails_the_first_partition_that_is_read_alone(house: House) -> None:
    for index in (0, 1):
        append(house, b"a", index=index)
    nobodys = topic("nobodys", position(0, 0))
    asked = request(nobodys, topic(TOPIC, position(0, 0), position(1, 0)), max_bytes=-1, max_wait_ms=0)
    assert [data.error_code for data in told(now(house, asked))] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NONE,
    ]
    at_the_end = request(topic(TOPIC, position(0, 1), position(1, 0)), max_bytes=-1, max_wait_ms=0)
    assert [len(data.records or b"") > 0 for data in told(now(house, at_the_end))] == [False, True]


def test_read_committed_has_no_transactions_if_no_batch_fits(house: House) -> None:
    for index in (0, 1):
        append(house, b"a", index=index)
    asked = request(topic(TOPIC, position(0, 0), position(1, 0, max_bytes=1)), isolation_level=1)
    first, second = told(now(house, asked))
    assert (first.aborted_transactions, second.aborted_transactions) == ([], None)
    assert len(second.records or b"") == 0
    (nothing_asked,) = told(now(house, request(topic(TOPIC, position(0, 0, max_bytes=0)), isolation_level=1)))
    assert nothing_asked.aborted_transactions == []


def test_an_error_of_a_partition_that_was_not_read_comes_with_no_transactions_rather_than_null(house: House) -> None:
    house.configs["packed"] = {"compression.type": "zstd"}
    for name in ("packed", "diverging"):
        house.lead(name)
        append(house, b"a", name=name)
    house.lead("diverging", epoch=2)
    append(house, b"b", name="diverging")
    asked = request(
        topic("packed", position(0, 0)),
        topic("nowhere", position(0, 0)),
        topic(TOPIC, position(0, 9)),
        topic("diverging", position(0, 2, last_epoch=0)),
        isolation_level=1,
    )
    packed, nowhere, out_of_range, _ = told(now(house, asked, 9))
    assert (packed.error_code, packed.aborted_transactions, packed.records) == (76, (), None)
    assert (nowhere.error_code, nowhere.aborted_transactions, nowhere.records) == (3, (), b"")
    assert (out_of_range.error_code, out_of_range.aborted_transactions, out_of_range.records) == (1, None, b"")
    *_, diverging = told(now(house, asked, NAMES))
    assert (diverging.diverging_epoch.end_offset, diverging.aborted_transactions) == (1, None)


def test_the_response_is_limited_by_fetch_max_bytes(house: House) -> None:
    for _ in range(3):
        append(house, b"a" * 1000)
    answer = fetch.handle(
        request(topic(TOPIC, position(0, 0))),
        context(ApiKey.FETCH, NAMES),
        replicas=house.replicas,
        sessions=house.sessions,
        metadata=house.metadata,
        clock=house.clock,
        start_soon=house.start_soon,
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


def test_a_request_without_partitions_gets_a_response_at_once(house: House) -> None:
    for session in (NO_SESSION, NEW_SESSION):
        assert now(house, request(session=session)).responses == []


@pytest.mark.parametrize(("version", "topics"), [(12, 1), (13, 0)])
def test_an_error_of_the_whole_request_names_partitions_before_version_13(version: int, topics: int) -> None:
    response = fetch.error_response(request(topic(TOPIC, position(3, 0))), version, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert response.error_code == -1
    assert [(data.partition_index, data.error_code, data.records) for data in told(response)] == [
        (3, -1, None)
    ] * topics


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


def test_a_client_that_poses_as_a_follower_gets_no_records(house: House) -> None:
    append(house, b"a")
    response = now(house, request(topic(TOPIC, position(0, 0)), replica_id=5), 11)
    assert codes(response) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
