"""The APIs of consumer groups, in every version, over a whole broker: from its socket to its log and back."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
import trio

from ottla.broker.net import server
from ottla.broker.net.connection import Connection
from ottla.broker.requests.authorizer import Operation
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.records.batch import iter_batches
from ottla.wire.schema import Request
from tests.broker.requests.authorization_cases import GROUP, GROUP_FAILED, TOPIC, TOPIC_FAILED, on_cluster
from tests.broker.requests.test_authorization import guarded
from tests.broker.support.client import Client, client
from tests.broker.test_node import config, create, running

R = TypeVar("R")
CONSUMER = "consumer"
RANGE = "range"
GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Versions(NamedTuple):
    """One version of each API."""

    find: int = 6
    join: int = 9
    sync: int = 5
    beat: int = 4
    commit: int = 9
    fetch: int = 9
    describe: int = 5
    list: int = 5
    leave: int = 5
    delete: int = 2


LATEST = Versions()
# From the oldest to the latest versions. Each version of each API is there at least once.
ALL = [
    Versions(
        *(max(lowest, highest - back) for lowest, highest in zip((0, 0, 0, 0, 2, 1, 0, 0, 0, 0), LATEST, strict=True))
    )
    for back in range(10)
]


async def ask(one: Client, request: Request, version: int, kind: type[R]) -> R:
    response = await one.ask(request, version)
    assert isinstance(response, kind)
    return response


async def find(one: Client, group: str = "g", version: int = LATEST.find) -> None:
    """Look for the coordinator until this broker is it."""
    request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
    port = one.stream.socket.getpeername()[1]
    with trio.fail_after(120):
        while True:
            response = await ask(one, request, version, FindCoordinatorResponse)
            found: Any = response if version < 4 else response.coordinators[0]
            if found.error_code == ErrorCode.NONE:
                assert (found.host, found.port) == ("127.0.0.1", port)
                return
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await trio.sleep(0.005)


async def join(one: Client, version: int = LATEST.join, group: str = "g") -> JoinGroupResponse:
    def request(member: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member,
            protocol_type=CONSUMER,
            protocols=[JoinGroupRequestProtocol(name=RANGE, metadata=b"me")],
        )

    response = await ask(one, request(""), version, JoinGroupResponse)
    if version >= 4:
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        response = await ask(one, request(response.member_id), version, JoinGroupResponse)
    assert response.error_code == ErrorCode.NONE
    return response


def offsets(*places: tuple[str, int, int]) -> list[OffsetCommitRequestTopic]:
    found: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic, index, offset in places:
        partition = OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata="text"
        )
        found.setdefault(topic, []).append(partition)
    return [OffsetCommitRequestTopic(name=name, partitions=each) for name, each in found.items()]


async def commit(
    one: Client, *places: tuple[str, int, int], group: str = "g", version: int = LATEST.commit, **fields: Any
) -> dict[tuple[str, int], int]:
    request = OffsetCommitRequest(group_id=group, topics=offsets(*places), **fields)
    response = await ask(one, request, version, OffsetCommitResponse)
    return {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    }


async def fetch(one: Client, *topics: str, version: int = LATEST.fetch, group: str = "g") -> dict[str, tuple[int, int]]:
    """Offset and error of the first partition of each topic; without topics: of all topics."""
    if version >= 8:
        named = [OffsetFetchRequestTopics(name=each, partition_indexes=[0]) for each in topics]
        of_group = OffsetFetchRequestGroup(group_id=group, topics=named or None)
        whole = await ask(one, OffsetFetchRequest(groups=[of_group]), version, OffsetFetchResponse)
        answer: Any = whole.groups[0]
    else:
        one_group = [OffsetFetchRequestTopic(name=each, partition_indexes=[0]) for each in topics]
        answer = await ask(
            one, OffsetFetchRequest(group_id=group, topics=one_group or None), version, OffsetFetchResponse
        )
    assert answer.error_code == ErrorCode.NONE
    return {
        topic.name: (topic.partitions[0].committed_offset, topic.partitions[0].error_code) for topic in answer.topics
    }


def quick(folder: Path) -> Any:
    return config(folder, group_initial_rebalance_delay_ms="0")


@pytest.mark.parametrize("versions", ALL, ids=lambda versions: f"join{versions.join}")
async def test_a_member_joins_commits_and_leaves_in_every_version(tmp_path: Path, versions: Versions) -> None:
    async with running(quick(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        await find(one, version=versions.find)
        joined = await join(one, versions.join)
        assert (joined.leader, joined.generation_id, joined.protocol_name) == (joined.member_id, 1, RANGE)
        assert [(each.member_id, each.metadata) for each in joined.members] == [(joined.member_id, b"me")]
        mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        request = SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id=joined.member_id,
            protocol_type=CONSUMER,
            protocol_name=RANGE,
            assignments=[mine],
        )
        synced = await ask(one, request, versions.sync, SyncGroupResponse)
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"all")
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert (await ask(one, beat, versions.beat, HeartbeatResponse)).error_code == ErrorCode.NONE
        fields: Any = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
        assert await commit(one, ("t", 0, 5), version=versions.commit, **fields) == {("t", 0): 0}
        assert await fetch(one, "t", version=versions.fetch) == {"t": (5, 0)}
        described = await ask(one, DescribeGroupsRequest(groups=["g"]), versions.describe, DescribeGroupsResponse)
        (group,) = described.groups
        assert (group.group_state, group.protocol_data, len(group.members)) == ("Stable", RANGE, 1)
        (member,) = group.members
        assert (member.client_id, member.client_host, member.member_assignment) == ("test", "/127.0.0.1", b"all")
        listed = await ask(one, ListGroupsRequest(), versions.list, ListGroupsResponse)
        assert [(each.group_id, each.protocol_type) for each in listed.groups] == [("g", CONSUMER)]
        leave = LeaveGroupRequest(
            group_id="g", member_id=joined.member_id, members=[MemberIdentity(member_id=joined.member_id)]
        )
        assert (await ask(one, leave, versions.leave, LeaveGroupResponse)).error_code == ErrorCode.NONE
        deleted = await ask(one, DeleteGroupsRequest(groups_names=["g"]), versions.delete, DeleteGroupsResponse)
        assert [(each.group_id, each.error_code) for each in deleted.results] == [("g", ErrorCode.NONE)]
        assert await fetch(one, "t", version=versions.fetch) == {"t": (-1, 0)}


async def test_commits_of_one_turn_are_one_batch_and_later_requests_see_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One turn takes all requests, however slow the machine is.
    monkeypatch.setattr(server, "Connection", partial(Connection, turn_clock=lambda: 0.0))
    async with running(quick(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        await find(one)
        commits = [OffsetCommitRequest(group_id="g", topics=offsets(("t", 0, offset))) for offset in range(5)]
        unknown = OffsetCommitRequest(group_id="g", topics=offsets(("nowhere", 0, 9)))
        look = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)], require_stable=True)
        requests = [*commits, unknown, commits[1]]
        *committed, found, last = await one.ask_all(
            *((each, LATEST.commit) for each in requests), (look, LATEST.fetch), (commits[3], LATEST.commit)
        )
        codes = [each.topics[0].partitions[0].error_code for each in [*committed, last]]  # type: ignore[attr-defined]
        assert codes == [0] * 5 + [GONE] + [0, 0]
        assert isinstance(found, OffsetFetchResponse)
        assert found.groups[0].topics[0].partitions[0].committed_offset == 1
    (segment,) = (each for each in tmp_path.glob("__consumer_offsets-*/*.log") if each.stat().st_size)
    counts = [header.record_count for header, _ in iter_batches(memoryview(segment.read_bytes()))]
    assert counts == [5, 1, 1]


async def test_a_sync_of_version_5_must_name_the_protocol(tmp_path: Path) -> None:
    async with running(quick(tmp_path)) as bootstrap, client(bootstrap) as one:
        await find(one)
        request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=())
        assert (await ask(one, request, 5, SyncGroupResponse)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await ask(one, request, 4, SyncGroupResponse)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_the_offsets_topic_is_internal_and_has_50_partitions(tmp_path: Path) -> None:
    async with running(quick(tmp_path)) as bootstrap, client(bootstrap) as one:
        await find(one)
        response = await ask(one, MetadataRequest(topics=None), 12, MetadataResponse)
        assert [(each.name, each.is_internal, len(each.partitions)) for each in response.topics] == [
            ("__consumer_offsets", True, 50)
        ]


async def test_a_commit_is_refused_only_for_its_unknown_partitions(tmp_path: Path) -> None:
    async with running(quick(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        # As in Kafka, the group is not looked up if all partitions are unknown.
        assert await commit(one, ("u", 0, 1), ("t", 1, 1)) == {("u", 0): GONE, ("t", 1): GONE}
        await find(one)
        assert await commit(one, ("t", 0, 7), ("t", 9, 1), ("u", 0, 1)) == {("t", 9): GONE, ("u", 0): GONE, ("t", 0): 0}
        assert await fetch(one) == {"t": (7, 0)}


async def test_a_topic_named_twice_is_answered_once_and_a_topic_without_partitions_not_at_all(
    tmp_path: Path,
) -> None:
    async def answered(one: Client, text: str, **fields: Any) -> list[tuple[str, list[int]]]:
        twice = offsets(("t", 0, 1)) + offsets(("t", 0, 2))
        for topic in twice:
            topic.partitions[0].committed_metadata = text
        empty = OffsetCommitRequestTopic(name="t", partitions=())
        request = OffsetCommitRequest(group_id="g", topics=[*twice, empty], **fields)
        response = await ask(one, request, 9, OffsetCommitResponse)
        return [(topic.name, [each.error_code for each in topic.partitions]) for topic in response.topics]

    async with running(quick(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        assert await answered(one, "") == [("t", [ErrorCode.NOT_COORDINATOR])]
        await find(one)
        assert await answered(one, "") == [("t", [0])]
        assert await fetch(one) == {"t": (2, 0)}
        assert await answered(one, "x" * 5000) == [("t", [ErrorCode.OFFSET_METADATA_TOO_LARGE])]
        empty = OffsetDeleteRequestTopic(name="t", partitions=())
        deleted = await ask(one, OffsetDeleteRequest(group_id="g", topics=[empty]), 0, OffsetDeleteResponse)
        assert (deleted.error_code, list(deleted.topics)) == (ErrorCode.NONE, [])


async def test_offsets_are_deleted_partition_by_partition(tmp_path: Path) -> None:
    def request(group: str = "g") -> OffsetDeleteRequest:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9)]
        topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("t", "u")]
        return OffsetDeleteRequest(group_id=group, topics=topics)

    async with running(quick(tmp_path)) as bootstrap, client(bootstrap) as one:
        for topic in ("t", "other"):
            await create(one, topic)
        await find(one)
        await commit(one, ("t", 0, 7), ("other", 0, 8))
        response = await ask(one, request(), 0, OffsetDeleteResponse)
        assert response.error_code == ErrorCode.NONE
        assert {
            topic.name: [(each.partition_index, each.error_code) for each in topic.partitions]
            for topic in response.topics
        } == {
            "u": [(0, GONE), (9, GONE)],
            "t": [(9, GONE), (0, ErrorCode.NONE)],
        }
        assert await fetch(one) == {"other": (8, 0)}
        unknown = await ask(one, request("unknown"), 0, OffsetDeleteResponse)
        assert (unknown.error_code, list(unknown.topics)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


async def test_a_deletion_named_twice_is_answered_once_and_an_unknown_topic_without_partitions_too(
    tmp_path: Path,
) -> None:
    twice = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)] * 2)
    nothing = OffsetDeleteRequestTopic(name="u", partitions=())
    async with running(quick(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        await find(one)
        await commit(one, ("t", 0, 7))
        request = OffsetDeleteRequest(group_id="g", topics=[twice, nothing, twice])
        response = await ask(one, request, 0, OffsetDeleteResponse)
        assert [
            (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
            for topic in response.topics
        ] == [("u", []), ("t", [(0, ErrorCode.NONE)])]


async def test_the_offsets_of_a_deleted_topic_do_not_come_back(tmp_path: Path) -> None:
    settings = quick(tmp_path)
    async with running(settings) as bootstrap, client(bootstrap) as one:
        for topic in ("t", "other"):
            await create(one, topic)
        await find(one)
        await commit(one, ("t", 0, 7), ("other", 0, 8))
        await one.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000), 6)
        assert await fetch(one) == {"other": (8, 0)}
        await create(one, "t")
        assert await fetch(one, "t", "other") == {"t": (-1, 0), "other": (8, 0)}
    async with running(settings) as bootstrap, client(bootstrap) as one:
        await serving(one)
        assert await fetch(one) == {"other": (8, 0)}


async def serving(one: Client) -> None:
    """Wait until all partitions are loaded."""
    with trio.fail_after(120):
        while (await ask(one, ListGroupsRequest(), 4, ListGroupsResponse)).error_code != ErrorCode.NONE:
            await trio.sleep(0.005)


async def test_groups_and_offsets_outlive_the_broker(tmp_path: Path) -> None:
    settings = quick(tmp_path)
    async with running(settings) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        await find(one)
        for number in range(100):
            await commit(one, ("t", 0, number), group=f"g{number}")
    async with running(settings) as bootstrap, client(bootstrap) as one:
        await serving(one)
        listed = await ask(one, ListGroupsRequest(states_filter=["Empty"]), 4, ListGroupsResponse)
        assert sorted(each.group_id for each in listed.groups) == sorted(f"g{number}" for number in range(100))
        for number in (0, 99):
            assert await fetch(one, group=f"g{number}") == {"t": (number, 0)}


async def test_deleting_the_offsets_topic_deletes_its_groups(tmp_path: Path) -> None:
    async with running(quick(tmp_path)) as bootstrap, client(bootstrap) as one:
        await create(one, "t")
        await find(one)
        await commit(one, ("t", 0, 7))
        await one.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="__consumer_offsets")], timeout_ms=10_000), 6)
        assert await commit(one, ("t", 0, 7)) == {("t", 0): ErrorCode.NOT_COORDINATOR}
        await find(one)
        assert await fetch(one) == {}


async def test_parked_joins_are_answered_when_the_broker_stops(tmp_path: Path) -> None:
    settings = config(tmp_path, group_initial_rebalance_delay_ms="60000")
    answers: list[int] = []

    async def wait(bootstrap: str) -> None:
        protocols = [JoinGroupRequestProtocol(name=RANGE, metadata=b"")]
        request = JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, member_id="", protocol_type=CONSUMER, protocols=protocols
        )
        async with client(bootstrap) as member:
            answers.append((await ask(member, request, 3, JoinGroupResponse)).error_code)

    async with trio.open_nursery() as nursery, running(settings) as bootstrap, client(bootstrap) as one:
        await find(one)
        nursery.start_soon(wait, bootstrap)
        while not (await ask(one, ListGroupsRequest(), 4, ListGroupsResponse)).groups:
            await trio.lowlevel.checkpoint()
    assert answers == [ErrorCode.NOT_COORDINATOR]


# What an authorizer hides


async def test_offsets_of_topics_that_a_client_may_not_describe_are_hidden(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        await find(one)
        await commit(one, ("open", 0, 1), ("secret", 0, 2))
        for version in (5, 9):
            rules.denied = {(Operation.DESCRIBE, TOPIC, "secret")}
            assert await fetch(one, version=version) == {"open": (1, 0)}
            assert await fetch(one, "secret", "open", version=version) == {"open": (1, 0), "secret": (-1, TOPIC_FAILED)}
            rules.denied = {(Operation.DESCRIBE, GROUP, "g")}
            assert await refused_fetch(one, version) == GROUP_FAILED
        rules.denied = {(Operation.DESCRIBE, GROUP, "g")}
        assert await refused_fetch(one, 1) == GROUP_FAILED


async def refused_fetch(one: Client, version: int) -> int:
    request = OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequestTopic(name="open", partition_indexes=[0])],
        groups=[OffsetFetchRequestGroup(group_id="g", topics=None)],
    )
    response = await ask(one, request, version, OffsetFetchResponse)
    if version < 2:
        return response.topics[0].partitions[0].error_code
    return response.error_code if version < 8 else response.groups[0].error_code


async def test_groups_that_a_client_may_not_describe_are_not_listed(tmp_path: Path) -> None:
    async def listed(one: Client) -> list[str]:
        response = await ask(one, ListGroupsRequest(), 4, ListGroupsResponse)
        return sorted(each.group_id for each in response.groups)

    async with guarded(tmp_path) as (one, rules):
        await find(one)
        for group in ("mine", "yours"):
            await commit(one, ("open", 0, 1), group=group)
        rules.denied = {(Operation.DESCRIBE, GROUP, "yours")}
        assert await listed(one) == ["mine", "yours"]
        rules.denied |= on_cluster(Operation.DESCRIBE)
        assert await listed(one) == ["mine"]


async def test_offsets_are_deleted_only_of_topics_that_a_client_may_read(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        await find(one)
        await commit(one, ("open", 0, 1), ("secret", 0, 2))
        rules.denied = {(Operation.READ, TOPIC, "secret")}
        partitions = [OffsetDeleteRequestPartition(partition_index=0)]
        topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("open", "secret")]
        response = await ask(one, OffsetDeleteRequest(group_id="g", topics=topics), 0, OffsetDeleteResponse)
        assert {each.name: each.partitions[0].error_code for each in response.topics} == {
            "open": 0,
            "secret": TOPIC_FAILED,
        }
        assert await fetch(one) == {"secret": (2, 0)}


async def test_a_description_lists_the_operations_that_a_client_may_do(tmp_path: Path) -> None:
    async def operations(one: Client, *, asked: bool = True) -> int:
        request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=asked)
        return (await ask(one, request, 5, DescribeGroupsResponse)).groups[0].authorized_operations

    async with guarded(tmp_path) as (one, rules):
        await find(one)
        assert await operations(one, asked=False) == -(2**31)
        assert await operations(one) == 1 << 3 | 1 << 6 | 1 << 8
        rules.denied = {(Operation.DELETE, GROUP, "g")}
        assert await operations(one) == 1 << 3 | 1 << 8
