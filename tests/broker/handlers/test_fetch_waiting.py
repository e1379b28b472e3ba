import random

import pytest
import trio
import trio.testing

from ottla.broker.loop.deferred import Deferred
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.stop_replica import StopReplicaRequest, StopReplicaTopicV1
from tests.broker.handlers.fetching import (
    IDS,
    NAMES,
    NEW_SESSION,
    NO_SESSION,
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
from tests.broker.support.hosted import NOW_MS, TOPIC, House
from tests.harness.measuring import AtMost

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
    assert len(running.parts.signal) == 0


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


async def test_a_reader_of_an_older_segment_does_not_wait_for_min_bytes(running: House) -> None:
    log = append(running, b"a").log
    log.roll(NOW_MS)
    append(running, b"b")
    for positions in ([position(0, 0)], [position(0, 0), position(1, 0)]):
        response = now(running, request(topic(TOPIC, *positions), min_bytes=10_000))
        assert values(told(response)[0]) == [b"a"]
    waits(running, request(topic(TOPIC, position(0, 1)), min_bytes=10_000))


async def test_a_new_segment_ends_the_wait_for_more_bytes_of_the_one_before(running: House) -> None:
    log = append(running, b"a").log
    pending = waits(running, request(topic(TOPIC, position(0, 0)), min_bytes=10_000))
    append(running, b"b")
    assert not pending.done
    log.roll(NOW_MS)
    append(running, b"c")
    assert values(told(pending.response)[0]) == [b"a", b"b"]


async def test_bytes_of_one_partition_are_not_counted_twice(running: House) -> None:
    size = append(running, b"a" * 100).log.size
    pending = waits(running, request(topic(TOPIC, position(0, 0)), min_bytes=4 * size))
    for _ in range(2):
        append(running, b"a" * 100)
        assert not pending.done
    append(running, b"a" * 100)
    assert pending.done


async def test_a_fetch_gets_the_available_records_after_max_wait_ms(running: House, at_most: AtMost) -> None:
    append(running, b"a")
    began = trio.current_time()
    pending = waits(running, request(topic(TOPIC, position(0, 0), position(1, 0)), min_bytes=5000, max_wait_ms=300))
    while not pending.done:
        await trio.sleep(0.01)
    # Late by as much as the machine is busy, but never early.
    took = trio.current_time() - began
    assert took >= 0.3
    at_most(took, 2)
    assert [values(data) for data in told(pending.response)] == [[b"a"], []]
    assert len(running.parts.signal) == 0


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
    stopping = StopReplicaRequest(
        controller_id=0,
        controller_epoch=1,
        delete_partitions=True,
        topics=[StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])],
    )
    running.now(running.replicas.stop_replica(stopping))
    assert codes(pending.response) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


async def test_an_abandoned_fetch_leaves_no_watcher_and_no_session(running: House) -> None:
    for session in (NO_SESSION, NEW_SESSION):
        pending = waits(running, request(topic(TOPIC, position(0, 0)), session=session))
        pending.abandon()
        assert len(running.parts.signal) == 0
    await trio.sleep(1)
    append(running, b"a")
    assert len(running.sessions) == 0


# Sessions


async def test_a_session_gets_partitions_that_moved_and_keeps_waiting_for_the_others(running: House) -> None:
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


async def test_a_session_gets_partitions_that_moved_between_two_requests(running: House) -> None:
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


async def test_a_forgotten_partition_completes_no_fetch(running: House) -> None:
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
    stopping = StopReplicaRequest(
        controller_id=0,
        controller_epoch=1,
        delete_partitions=True,
        topics=[StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])],
    )
    running.now(running.replicas.stop_replica(stopping))
    running.lead(topic_id=bytes(15) + b"\7")
    response = now(running, request(session=(session, 1)), IDS)
    assert codes(response) == [(0, ErrorCode.INCONSISTENT_TOPIC_ID)]


@pytest.mark.trials(few=10, soak=50)
@pytest.mark.once
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
