import errno
import logging
import os
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.fetch.sessions import ROUND_MS, FetchSessionCache
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from ottla.wire.records.batch import validate_produced
from ottla.wire.schema import Request, Response
from tests.broker.support.hosted import NOW_MS, TOPIC, batch, inline
from tests.broker.support.replication import answered, cluster, nothing


@pytest.mark.parametrize("version", [12, 13, 15, 17])
async def test_a_follower_holds_byte_for_byte_what_its_leader_holds(
    tmp_path: Path, autojump_clock: MockClock, version: int
) -> None:
    async with cluster(tmp_path, version=version) as made:
        await made.lead(0, 1)
        made.append(0, b"a", b"b")
        await made.settle()
        made.append(0, b"c", bytes(100_000))
        await made.settle()
        leader, follower = made.partition(0), made.partition(1)
        assert made.files(1) == made.files(0) != b""
        assert leader.high_watermark == follower.high_watermark == 4
        assert {asked for _, asked, _ in made.asked} == {version}


async def test_a_fetch_carries_the_followers_position_and_epochs(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path, replica_fetch_wait_max_ms="70", replica_fetch_max_bytes="80") as made:
        await made.lead(0, 3)
        made.append(0, b"a")
        await made.settle()
        request = [request for request in made.fetches() if request.topics][-1]
        (asked,) = request.topics[0].partitions
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (70, 1, 10485760)
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 7)
        assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (1, 3, 3)
        assert asked.partition_max_bytes == 80


async def test_a_topic_without_an_id_is_fetched_by_its_name(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        for house in made.houses:
            request = house.request(leader=0, replicas=[0, 1], isr=[0, 1], topic_id=bytes(16))
            await answered(house.replicas.become_leader_or_follower(request))
        made.append(0, b"a")
        await made.settle()
        assert made.values(1) == [b"a"]
        assert {version for _, version, _ in made.asked} == {12}


async def test_a_new_leaders_records_replace_those_it_never_had(tmp_path: Path, autojump_clock: MockClock) -> None:
    # What KIP-101 begins with: truncation to the high watermark would have kept, or lost, the wrong ones.
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        made.append(0, b"a")
        await made.settle()
        made.down.add(0)
        made.append(0, b"lost")
        await made.lead(1, 2, brokers=[1])
        made.append(1, b"b")
        await made.lead(1, 2, brokers=[0])
        await made.settle()
        assert made.values(0) == made.values(1) == [b"a", b"b"]
        assert made.files(0) == made.files(1)


async def test_logs_that_parted_several_times_become_one(tmp_path: Path, autojump_clock: MockClock) -> None:
    # KIP-279: each led an epoch that the other one knows nothing of.
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        made.append(0, b"a")
        await made.settle()
        made.down |= {0, 1}
        made.append(0, b"0.1", b"0.1")
        await made.lead(1, 2, brokers=[1])
        made.append(1, b"1.2")
        await made.lead(0, 3, brokers=[0])
        made.append(0, b"0.3")
        await made.lead(1, 4, brokers=[1])
        made.append(1, b"1.4", b"1.4", b"1.4")
        made.down.clear()
        await made.lead(0, 5)
        made.append(0, b"0.5")
        await made.settle()
        assert made.values(0) == made.values(1) == [b"a", b"0.1", b"0.1", b"0.3", b"0.5"]
        assert made.files(0) == made.files(1)
        assert made.partition(1).log.leader_epochs.entries == made.partition(0).log.leader_epochs.entries


async def test_a_follower_behind_the_leaders_log_start_begins_there(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        made.append(0, b"a")
        await made.settle()
        made.down.add(0)
        await made.settle()
        await made.lead(0, 2, brokers=[0], isr=[0])
        made.append(0, b"b", b"c", b"d")
        made.partition(0).delete_records(3)
        made.down.clear()
        await made.lead(0, 2, brokers=[1])
        await made.settle()
        log = made.partition(1).log
        assert made.records(1) == [(3, b"d")]
        assert (log.log_start_offset, log.log_end_offset, made.partition(1).high_watermark) == (3, 4, 4)


async def test_deleted_records_are_deleted_at_followers_too(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        made.append(0, b"a", b"b", b"c")
        await made.settle()
        made.partition(0).delete_records(2)
        made.append(0, b"d")
        await made.settle()
        assert made.partition(1).log.log_start_offset == 2
        assert made.partition(0).followers[1].log_start_offset == 2


async def test_a_log_may_begin_within_a_batch(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1, brokers=[0], isr=[0])
        leader = made.partition(0)
        for values in ((b"a", b"b", b"c"), (b"d",)):
            produced = validate_produced(batch(*values), api_version=9, rules=leader.rules, now_ms=NOW_MS)
            made.houses[0].replicas.append(leader, produced, 1, NOW_MS)
        leader.delete_records(2)
        await made.lead(0, 1, brokers=[1])
        await made.settle()
        assert made.records(1) == [(2, b"c"), (3, b"d")]
        assert made.files(1) == made.files(0)


async def test_an_answer_from_an_earlier_epoch_changes_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        await made.settle()

        async def too_late(request: Request, response: Response) -> None:
            if isinstance(response, FetchResponse) and response.responses[0].partitions[0].records:
                made.on_the_way = nothing
                await made.lead(0, 2, brokers=[1])

        made.on_the_way = too_late
        made.append(0, b"a")
        await made.settle()
        assert made.on_the_way is nothing
        assert made.values(1) == []
        await made.lead(0, 2, brokers=[0])
        await made.settle()
        assert made.values(1) == [b"a"]


async def test_a_follower_rests_until_its_leader_can_be_reached_and_leads(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with cluster(tmp_path, replica_fetch_backoff_ms="250") as made:
        await made.lead(0, 1, brokers=[1])
        made.down.add(0)
        await trio.sleep(10)
        assert 30 < len(made.asked) < 45
        made.down.clear()
        await trio.sleep(10)
        assert 60 < len(made.asked) < 90
        await made.lead(0, 1, brokers=[0])
        made.append(0, b"a")
        await made.settle()
        assert made.values(1) == [b"a"]


async def test_a_fenced_follower_waits_for_the_controller(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        await made.lead(0, 2, brokers=[0])
        made.append(0, b"a")
        await made.settle()
        asked = len(made.asked)
        await made.settle()
        assert len(made.asked) == asked
        assert made.values(1) == []
        await made.lead(0, 2, brokers=[1])
        await made.settle()
        assert made.values(1) == [b"a"]


async def test_a_batch_that_broke_on_the_way_is_fetched_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        await made.settle()

        async def broken(request: Request, response: Response) -> None:
            if isinstance(response, FetchResponse) and response.responses[0].partitions[0].records:
                made.on_the_way = nothing
                (data,) = response.responses[0].partitions
                assert isinstance(data.records, memoryview)
                changed = bytearray(data.records)
                changed[-1] ^= 1
                data.records = memoryview(changed)

        made.on_the_way = broken
        made.append(0, b"a", b"b")
        await made.settle()
        assert made.on_the_way is nothing
        assert made.files(1) == made.files(0)


async def test_a_replica_whose_disk_fails_goes_offline_and_those_of_other_directories_go_on(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path, more=[tmp_path / "more", tmp_path / "even"]) as made:
        for house in made.houses:
            request = house.request("other", leader=0, replicas=[0, 1], isr=[0, 1])
            await answered(house.replicas.become_leader_or_follower(request))
        await made.lead(0, 1)
        await made.settle()
        follower = made.partition(1)

        pwrite = os.pwrite

        def fails(fd: int, data: bytes, position: int) -> int:
            if Path(f"/proc/self/fd/{fd}").readlink().parent == follower.log.directory:
                raise OSError(errno.EIO, "the disk is gone")
            return pwrite(fd, data, position)

        monkeypatch.setattr(os, "pwrite", fails)
        made.append(0, b"a")
        await made.settle()
        monkeypatch.undo()
        assert follower.is_offline
        assert not made.houses[1].replicas.partition("other", 0).is_offline
        asked = len(made.asked)
        await made.settle()
        assert len(made.asked) > asked
        (forgotten,) = [topic for request in made.fetches() for topic in request.forgotten_topics_data]
        assert forgotten.topic_id == follower.log.topic_id


async def test_a_stopped_replica_fetches_no_more_and_its_connection_is_closed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        await made.settle()
        states = [StopReplicaPartitionState(partition_index=0, leader_epoch=1, delete_partition=False)]
        request = StopReplicaRequest(
            controller_id=0,
            controller_epoch=1,
            topic_states=[StopReplicaTopicState(topic_name=TOPIC, partition_states=states)],
        )
        response = await answered(made.houses[1].replicas.stop_replica(request))
        assert [error.error_code for error in response.partition_errors] == [ErrorCode.NONE]
        await made.settle()
        asked = len(made.asked)
        made.append(0, b"a")
        await made.settle()
        assert len(made.asked) == asked
        assert [way.is_closed for way in made.ways] == [True]
        assert len(made.fetchers[1]) == 0


async def test_another_leader_means_another_connection(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path, 3) as made:
        await made.lead(0, 1)
        made.append(0, b"a")
        await made.settle()
        await made.lead(1, 2)
        made.append(1, b"b")
        await made.settle()
        assert [made.values(broker) for broker in range(3)] == [[b"a", b"b"]] * 3
        assert {way.to for way in made.ways if not way.is_closed} == {1}
        assert [len(fetchers) for fetchers in made.fetchers] == [1, 0, 1]


async def test_partitions_share_as_many_connections_as_the_config_says(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with cluster(tmp_path, num_replica_fetchers="3") as made:
        for house in made.houses:
            request = house.request("wide", range(50), leader=0, replicas=[0, 1], isr=[0, 1])
            await answered(house.replicas.become_leader_or_follower(request))
        await made.settle()
        assert len(made.fetchers[1]) == len(made.ways) == 3
        await made.fetchers[1].reconfigured(BrokerConfig({"num.replica.fetchers": "2"}))
        await made.settle()
        assert len(made.fetchers[1]) == 2
        produced = validate_produced(
            batch(b"a"), api_version=9, rules=made.houses[0].replicas.partition("wide", 7).rules, now_ms=NOW_MS
        )
        made.houses[0].replicas.append(made.houses[0].replicas.partition("wide", 7), produced, 1, NOW_MS)
        await made.settle()
        assert made.houses[1].replicas.partition("wide", 7).high_watermark == 1


async def test_a_session_names_only_what_moved(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        for house in made.houses:
            request = house.request("wide", range(50), leader=0, replicas=[0, 1], isr=[0, 1])
            await answered(house.replicas.become_leader_or_follower(request))
        await made.settle()
        first = made.fetches()[0]
        assert (first.session_id, first.session_epoch, len(first.topics[0].partitions)) == (0, 0, 50)
        assert not any(request.topics for request in made.fetches()[1:])
        partition = made.houses[0].replicas.partition("wide", 7)
        produced = validate_produced(batch(b"a"), api_version=9, rules=partition.rules, now_ms=NOW_MS)
        made.houses[0].replicas.append(partition, produced, 1, NOW_MS)
        await made.settle()
        named = [request for request in made.fetches()[1:] if request.topics]
        assert [each.partition for request in named for topic in request.topics for each in topic.partitions] == [7]
        assert made.houses[1].replicas.partition("wide", 7).high_watermark == 1


async def test_a_leader_that_lost_the_session_is_asked_anew(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        await made.settle()
        made.houses[0].sessions = FetchSessionCache(3, made.houses[0].parts.signal, lambda: 77)
        made.append(0, b"a")
        await made.settle()
        assert made.values(1) == [b"a"]
        assert made.fetches()[-1].session_id == 77


async def test_without_a_place_for_its_session_a_follower_names_all_each_time(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with cluster(tmp_path) as made:
        made.houses[0].sessions = FetchSessionCache(0, made.houses[0].parts.signal, lambda: 77)
        await made.lead(0, 1)
        made.append(0, b"a")
        await made.settle()
        assert made.values(1) == [b"a"]
        assert {(each.session_id, each.session_epoch, len(each.topics)) for each in made.fetches()} == {(0, 0, 1)}


async def test_where_nothing_is_written_a_follower_stays_caught_up(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        await trio.sleep(600)
        caught_up_ms = made.partition(0).followers[1].last_caught_up_time_ms
        assert made.houses[0].clock.now_ms() - caught_up_ms < ROUND_MS + 1000


async def test_a_leader_elected_out_of_sync_replaces_committed_records(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        made.append(0, b"a")
        await made.settle()
        made.down.add(0)
        await made.lead(0, 2, brokers=[0], isr=[0])
        made.append(0, b"b", b"c")
        made.houses[0].now_ms += 60_000
        made.append(0, b"d")
        assert made.partition(0).high_watermark == 4
        await made.lead(1, 3, isr=[1])
        made.append(1, b"x")
        await made.settle()
        assert made.values(0) == made.values(1) == [b"a", b"x"]
        assert made.partition(0).high_watermark == 2
        assert "Truncating" in caplog.text


async def test_a_follower_keeps_its_records_through_a_restart_of_its_broker(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        made.append(0, b"a", b"b")
        await made.settle()
    async with cluster(tmp_path) as made:
        made.down.add(0)
        await made.lead(0, 2)
        await made.settle()
        assert made.values(1) == [b"a", b"b"]
        await made.lead(1, 3)
        made.append(1, b"c")
        await made.settle()
        assert made.values(0) == [b"a", b"b", b"c"]
        assert made.files(0) == made.files(1)


async def test_a_follower_fetches_on_once_its_records_are_flushed(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path) as made:
        for house in made.houses:
            house.configs[TOPIC] = {"flush.messages": "1"}
        follower = made.houses[1]
        may_sync = trio.Event()

        async def slow(job: object) -> None:
            await may_sync.wait()
            await inline(job)  # type: ignore[arg-type]

        await made.lead(0, 1)
        follower.worker = slow  # type: ignore[assignment]
        made.append(0, b"a")
        await made.settle()
        assert made.values(1) == [b"a"]
        assert made.partition(1).log.recovery_point == 0
        assert made.partition(0).high_watermark == 0
        may_sync.set()
        await made.settle()
        assert made.partition(1).log.recovery_point == 1
        assert made.partition(0).high_watermark == 1


async def test_a_follower_whose_fsync_fails_fetches_no_more(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with cluster(tmp_path, more=[tmp_path / "more", tmp_path / "even"]) as made:
        for house in made.houses:
            house.configs[TOPIC] = {"flush.messages": "1"}

        async def broken(job: object) -> None:
            raise OSError(errno.EIO, "broken")

        await made.lead(0, 1)
        made.houses[1].worker = broken  # type: ignore[assignment]
        made.append(0, b"a")
        await made.settle()
        assert made.partition(1).is_offline
        assert made.partition(0).high_watermark == 0


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the fetcher complains of, without the details of what failed."""
    found = [each for each in caplog.records if each.name == "kafka.server.ReplicaFetcherThread"]
    return [each.getMessage() for each in found if each.levelno >= logging.INFO]


async def test_the_reason_why_a_follower_cannot_follow_is_logged_only_when_it_changes(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        await made.settle()
        made.down.add(0)
        await trio.sleep(60)
        made.down.clear()
        # A leader that knows nothing of this follower's epoch: for a moment that is nothing special.
        await made.lead(0, 2, brokers=[1])
        await trio.sleep(60)
        await made.lead(0, 2, brokers=[0])
        await made.settle()
    assert warnings(caplog) == [
        "Broker 0 cannot be fetched from: went down",
        "Broker 0 cannot be fetched from: down",
        "Broker 0 can be fetched from again",
        "orders-0 cannot follow its leader for now: the leader answers UNKNOWN_LEADER_EPOCH",
        "orders-0 follows its leader again",
    ]


async def test_a_batch_that_stays_broken_is_fetched_again_and_again_and_logged_once(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path) as made:
        await made.lead(0, 1)
        await made.settle()
        broken = 0

        async def break_it(request: Request, response: Response) -> None:
            nonlocal broken
            assert isinstance(response, FetchResponse)
            for data in (each for topic in response.responses for each in topic.partitions if each.records):
                assert isinstance(data.records, memoryview)
                data.records = memoryview(bytes(data.records[:-1]) + b"?")
                broken += 1

        made.on_the_way = break_it
        made.append(0, b"a")
        await trio.sleep(60)
        assert broken > 30
        (told,) = warnings(caplog)
        assert told.startswith("orders-0 cannot follow its leader for now: what it fetched from offset 0 on is broken")
