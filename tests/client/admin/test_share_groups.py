"""Share and streams groups: descriptions, and requests to a broker without such groups."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from ottla.client.admin.groups.share import (
    ShareOffset,
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_groups,
    share_group_offsets,
)
from ottla.client.admin.groups.streams import describe_streams_groups
from ottla.client.cluster import Client, open_client
from ottla.client.config import ClientConfig
from ottla.client.errors import UnsupportedRequestError
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import alter_share_group_offsets as alter
from ottla.wire.messages import delete_share_group_offsets as delete
from ottla.wire.messages import describe_share_group_offsets as offsets
from ottla.wire.messages import streams_group_describe as streams
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Request, Response
from ottla.wire.types import TopicPartition
from tests.client.scripted import ScriptedBroker, listening, metadata

Partition = offsets.DescribeShareGroupOffsetsResponsePartition
ONE, TWO, THREE = (TopicPartition("orders", number) for number in (1, 2, 3))
TOPIC_ID = bytes(16)


@asynccontextmanager
async def cluster(answers: Mapping[type[Request], Response]) -> AsyncIterator[tuple[Client, ScriptedBroker]]:
    """Yield a client of one broker that coordinates all groups, and offers only the requests in `answers`."""

    async def answer(header: RequestHeader, request: Request) -> Response | None:
        if isinstance(request, MetadataRequest):
            return metadata([broker])
        if isinstance(request, FindCoordinatorRequest):
            found = [
                Coordinator(key=key, node_id=1, host=broker.host, port=broker.port, error_code=0, error_message=None)
                for key in request.coordinator_keys
            ]
            return FindCoordinatorResponse(coordinators=found)
        return answers[type(request)]

    broker = ScriptedBroker(answer)
    for key in (ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE):
        if key not in {each.api_key for each in answers}:
            del broker.versions[key]
    async with listening(broker), open_client(ClientConfig({"bootstrap.servers": broker.bootstrap})) as client:
        yield client, broker


@pytest.mark.parametrize("groups", [["a"], ["a", "b"]])
async def test_a_broker_without_such_groups_raises_one_plain_error(groups: list[str]) -> None:
    async with cluster({}) as (client, _):
        with pytest.raises(UnsupportedRequestError):
            await describe_share_groups(client, groups)
        with pytest.raises(UnsupportedRequestError):
            await describe_streams_groups(client, groups)


async def test_a_partition_without_start_has_no_offset_and_one_with_an_error_is_left_out() -> None:
    def partition(index: int, start: int, epoch: int, lag: int, code: int = 0) -> Partition:
        return Partition(
            partition_index=index, start_offset=start, leader_epoch=epoch, lag=lag, error_code=code, error_message=None
        )

    topic = offsets.DescribeShareGroupOffsetsResponseTopic(
        topic_name="orders",
        topic_id=TOPIC_ID,
        partitions=[partition(1, 5, 0, 7), partition(2, -1, -1, -1), partition(3, 0, 0, 0, ErrorCode.UNKNOWN_TOPIC_ID)],
    )
    group = offsets.DescribeShareGroupOffsetsResponseGroup(
        group_id="g", topics=[topic], error_code=0, error_message=None
    )
    answer = offsets.DescribeShareGroupOffsetsResponse(groups=[group])
    async with cluster({offsets.DescribeShareGroupOffsetsRequest: answer}) as (client, _):
        assert await share_group_offsets(client, "g") == {ONE: ShareOffset(5, 0, 7), TWO: None}


async def test_an_error_of_the_whole_group_is_the_error_of_each_partition() -> None:
    altered = alter.AlterShareGroupOffsetsResponse(
        error_code=ErrorCode.NON_EMPTY_GROUP, error_message="busy", responses=[]
    )
    deleted = delete.DeleteShareGroupOffsetsResponse(
        error_code=ErrorCode.NON_EMPTY_GROUP, error_message="busy", responses=[]
    )
    answers: dict[type[Request], Response] = {
        alter.AlterShareGroupOffsetsRequest: altered,
        delete.DeleteShareGroupOffsetsRequest: deleted,
    }
    async with cluster(answers) as (client, broker):
        found = await alter_share_group_offsets(client, "g", {ONE: 5, TWO: 6})
        assert [(each.code, each.detail) for each in found.values() if each] == [
            (ErrorCode.NON_EMPTY_GROUP, "busy")
        ] * 2
        (request,) = (each for each in broker.requests if isinstance(each, alter.AlterShareGroupOffsetsRequest))
        (topic,) = request.topics
        assert [(each.partition_index, each.start_offset) for each in topic.partitions] == [(1, 5), (2, 6)]
        with pytest.raises(KafkaError, match="busy"):
            await delete_share_group_offsets(client, "g", ["orders"])


async def test_source_and_internal_topics_of_a_streams_group_are_distinct() -> None:
    def made(name: str) -> streams.TopicInfo:
        return streams.TopicInfo(name=name, partitions=0, replication_factor=1, topic_configs=[])

    subtopology = streams.Subtopology(
        subtopology_id="0",
        source_topics=["orders"],
        repartition_sink_topics=[],
        state_changelog_topics=[made("g-store-changelog"), made("orders")],
        repartition_source_topics=[made("g-x-repartition")],
    )
    group = streams.DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        group_epoch=2,
        assignment_epoch=2,
        topology=streams.Topology(epoch=1, subtopologies=[subtopology]),
        members=[],
    )
    answer = streams.StreamsGroupDescribeResponse(groups=[group])
    async with cluster({streams.StreamsGroupDescribeRequest: answer}) as (client, _):
        found = (await describe_streams_groups(client, ["g"]))["g"]
    assert not isinstance(found, KafkaError)
    assert (found.coordinator.id, found.topology_epoch) == (1, 1)
    assert found.source_topics(with_repartition=False) == {"orders"}
    assert found.source_topics(with_repartition=True) == {"orders", "g-x-repartition"}
    assert found.internal_topics() == ["g-x-repartition", "g-store-changelog"]
    tasks = [streams.TaskIds(subtopology_id="0", partitions=[3])]
    assert found.partitions_of(tasks) == {THREE, TopicPartition("g-x-repartition", 3)}
