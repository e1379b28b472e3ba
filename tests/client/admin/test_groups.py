"""Requests about groups: one for each coordinator, and another one for a group that moved."""

from collections.abc import Mapping
from functools import partial

import pytest
import trio

from ottla.client.admin.groups.committed_offsets import Committed
from ottla.client.admin.groups.descriptions import GroupDescription, delete_groups, describe_groups
from ottla.client.admin.groups.offset_changes import Change, undo_of
from ottla.client.cluster import open_client
from ottla.client.config import ClientConfig
from ottla.client.gather import gather
from ottla.wire.codec import RequestHeader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Request, Response
from ottla.wire.types import TopicPartition
from tests.client.scripted import ScriptedBroker, listening, metadata

PATIENCE_S = 120
HASTY = {"retry.backoff.ms": "0", "retry.backoff.max.ms": "0"}
ONE, TWO, THREE = (TopicPartition("orders", each) for each in range(3))


class Groups:
    """Two brokers and their groups. The coordinator of `moved` is the first one until the first request about it."""

    def __init__(self, coordinators: Mapping[str, int], consumers: tuple[str, ...] = (), moved: str = "") -> None:
        self.coordinators = dict(coordinators)
        self.consumers = consumers
        self.moved = moved
        self.brokers = [ScriptedBroker(partial(self.answer, each), each) for each in (1, 2)]

    async def answer(self, broker_id: int, header: RequestHeader, request: Request) -> Response | None:
        match request:
            case MetadataRequest():
                return metadata(self.brokers)
            case FindCoordinatorRequest():
                return FindCoordinatorResponse(coordinators=[self.found(each) for each in request.coordinator_keys])
            case ConsumerGroupDescribeRequest():
                return ConsumerGroupDescribeResponse(
                    throttle_time_ms=0, groups=[self.consumer_group(each) for each in request.group_ids]
                )
            case DescribeGroupsRequest():
                return DescribeGroupsResponse(groups=[self.classic_group(broker_id, each) for each in request.groups])
            case DeleteGroupsRequest():
                results = [DeletableGroupResult(group_id=each, error_code=0) for each in request.groups_names]
                return DeleteGroupsResponse(results=results)
        raise AssertionError(request)

    def found(self, group: str) -> Coordinator:
        broker = self.brokers[0 if group == self.moved else self.coordinators[group] - 1]
        return Coordinator(
            key=group, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=0, error_message=None
        )

    def consumer_group(self, group: str) -> ConsumerGroup:
        code = ErrorCode.NONE if group in self.consumers else ErrorCode.GROUP_ID_NOT_FOUND
        return ConsumerGroup(
            error_code=code,
            group_id=group,
            group_state="Empty",
            group_epoch=3,
            assignment_epoch=2,
            assignor_name="uniform",
            members=[],
        )

    def classic_group(self, broker_id: int, group: str) -> DescribedGroup:
        code = ErrorCode.NONE if self.coordinators[group] == broker_id else ErrorCode.NOT_COORDINATOR
        if group == self.moved:
            self.moved = ""
        return DescribedGroup(
            error_code=code, group_id=group, group_state="Empty", protocol_type="", protocol_data="", members=[]
        )

    def asked(self, kind: type[Request]) -> list[int]:
        return [broker.asked(kind) for broker in self.brokers]


async def described(groups: Groups, *names: str) -> dict[str, GroupDescription | KafkaError]:
    async with listening(*groups.brokers):
        with trio.fail_after(PATIENCE_S):
            config = ClientConfig({"bootstrap.servers": groups.brokers[0].bootstrap, **HASTY})
            async with open_client(config) as client:
                return await describe_groups(client, names)


async def test_many_groups_need_one_request_to_each_coordinator() -> None:
    groups = Groups({f"group-{number}": number % 2 + 1 for number in range(40)})
    found = await described(groups, *groups.coordinators)
    assert list(found) == list(groups.coordinators)
    assert all(isinstance(each, GroupDescription) for each in found.values())
    assert groups.asked(DescribeGroupsRequest) == [1, 1]


async def test_a_group_whose_coordinator_moved_is_requested_from_the_new_one() -> None:
    groups = Groups({"one": 1, "two": 2, "three": 2}, moved="two")
    found = await described(groups, "one", "two", "three")
    moved = found["two"]
    assert isinstance(moved, GroupDescription)
    assert moved.coordinator.id == 2


async def test_groups_of_both_protocols_are_described() -> None:
    groups = Groups({"new": 1, "old": 1}, consumers=("new",))
    found = await described(groups, "new", "old")
    new, old = found["new"], found["old"]
    assert isinstance(new, GroupDescription)
    assert isinstance(old, GroupDescription)
    assert (new.type, new.epoch, new.assignment_epoch, new.assignor) == ("Consumer", 3, 2, "uniform")
    assert (old.type, old.epoch) == ("Classic", None)
    assert groups.asked(DescribeGroupsRequest) == [1, 0]


async def test_a_deleted_group_is_not_requested_again() -> None:
    groups = Groups({"one": 1, "two": 2})
    async with listening(*groups.brokers):
        config = ClientConfig({"bootstrap.servers": groups.brokers[0].bootstrap, **HASTY})
        async with open_client(config) as client:
            assert await delete_groups(client, ["one", "two"]) == {"one": None, "two": None}
    assert groups.asked(DeleteGroupsRequest) == [1, 1]


async def test_the_first_error_cancels_the_other_calls() -> None:
    async def fail() -> None:
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    with pytest.raises(KafkaError):
        await gather([trio.sleep_forever, fail])


# Undo


def test_undo_restores_offsets_that_have_not_changed_since() -> None:
    changes = {
        ONE: Change(Committed(5, 2, "kept"), Committed(0)),
        TWO: Change(None, Committed(0)),
        THREE: Change(Committed(7), None),
    }
    now = {ONE: Committed(0), TWO: Committed(0)}
    undo = undo_of(changes, now.get)
    assert undo.conflicts == {}
    assert undo.changes == {
        ONE: Change(Committed(0), Committed(5, 2, "kept")),
        TWO: Change(Committed(0), None),
        THREE: Change(None, Committed(7)),
    }


def test_a_commit_since_the_change_is_a_conflict_even_at_the_same_offset() -> None:
    changes = {ONE: Change(Committed(5), Committed(0)), TWO: Change(Committed(5), Committed(0))}
    now = {ONE: Committed(1), TWO: Committed(0, 4)}
    undo = undo_of(changes, now.get)
    assert undo.changes == {}
    assert undo.conflicts == {ONE: Change(Committed(1), Committed(5)), TWO: Change(Committed(0, 4), Committed(5))}


def test_a_partition_with_its_old_offset_needs_no_undo() -> None:
    assert undo_of({ONE: Change(Committed(5), Committed(0))}, {ONE: Committed(5)}.get) == ({}, {})
