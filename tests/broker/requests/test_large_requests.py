"""A request of many elements gets the response of a small one, and does not delay other requests."""

import gc
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
import trio.testing

from ottla.broker.handlers import describe_transactions, leader_and_isr
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.reply import Owed
from ottla.broker.net.session import ClientSession, RequestContext
from ottla.broker.requests.authorizer import Operation, ResourceType
from ottla.broker.requests.dispatch import Api, Apis
from ottla.broker.requests.large_requests import LargeRequests
from ottla.broker.requests.table import Row
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.errors import DecodeError, ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ottla.wire.schema import Request, Response
from tests.broker.support.toy import inline

VERSION = 1
Handle = Callable[[Any, RequestContext], Any]


def serving(handle: Handle, nursery: trio.Nursery, key: ApiKey, error_response: Any = None) -> Apis:
    api = Api(Row(key, "0-9", Operation.NONE, ResourceType.NONE), handle, error_response)
    return Apis([api], LargeRequests(inline, nursery.start_soon))


async def ask(handle: Handle, request: Request, error_response: Any = None) -> Response:
    async with trio.open_nursery() as nursery:
        owed = begin(serving(handle, nursery, request.api_key, error_response), request)
        await settled()
    return answer(owed, request)


def begin(apis: Apis, request: Request, version: int = VERSION) -> Owed:
    owed = apis.dispatch(ClientSession(), memoryview(encode_request(version, 77, "me", request))[4:])
    assert isinstance(owed, Owed)
    assert not owed.deferred.applied
    return owed


def answer(owed: Owed, request: Request) -> Response:
    owed.encode(owed.deferred.response)
    assert owed.reply is not None
    correlation_id, response = decode_response(memoryview(b"".join(owed.reply))[4:], type(request), VERSION)  # type: ignore[arg-type]
    assert correlation_id == 77
    return response


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


def offsets(**partitions: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(count)]
            )
            for name, count in partitions.items()
        ],
    )


def look_up(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, error_code=0, offset=len(topic.name)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def failed(request: ListOffsetsRequest, version: int, code: ErrorCode) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"one": 9000},
        {"a": 1, "big": 6000, "c": 3},
        {f"t{i}": 1 for i in range(5000)},
        {f"t{i}": 203 for i in range(50)},
        {"none": 0, "big": 6000, "nothing": 0},
    ],
)
async def test_parts_are_joined_to_one_response(asked: dict[str, int]) -> None:
    sizes = []

    def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        sizes.append(sum(len(topic.partitions) for topic in request.topics))
        return look_up(request, context)

    request = offsets(**asked)
    response = await ask(handle, request)
    assert response == ListOffsetsResponse.decode(look_up(request, RequestContext(2, 1)).encode(VERSION), VERSION)
    assert sum(sizes) == sum(asked.values())
    assert max(sizes) <= 400


async def test_parts_are_joined_by_name_because_a_part_may_answer_in_another_order() -> None:
    """As OffsetCommit does: it answers unknown topics first."""

    def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        response = look_up(request, context)
        response.topics = sorted(response.topics, key=lambda topic: topic.name)
        return response

    asked = {"known": 150, "alpha": 5000, "zulu": 120}
    response = await ask(handle, offsets(**asked))
    assert isinstance(response, ListOffsetsResponse)
    assert {topic.name: [each.partition_index for each in topic.partitions] for topic in response.topics} == {
        name: list(range(count)) for name, count in asked.items()
    }


async def test_partitions_of_a_client_are_put_into_its_transaction_together() -> None:
    sizes = []

    def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
        sizes.append(len(request.v3_and_below_topics))
        return AddPartitionsToTxnResponse()

    wanted = [AddPartitionsToTxnTopic(name=f"t{each}", partitions=[0]) for each in range(5000)]
    await ask(handle, AddPartitionsToTxnRequest(v3_and_below_topics=wanted))
    assert sizes == [5000]


async def test_requests_about_many_transactions_are_cut_into_transactions() -> None:
    described: list[int] = []

    def describe(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
        described.append(len(request.transactional_ids))
        return describe_transactions.error_response(request, context.api_version, ErrorCode.NOT_COORDINATOR)

    names = [f"tx-{each}" for each in range(5000)]
    request = DescribeTransactionsRequest(transactional_ids=names)
    async with trio.open_nursery() as nursery:
        owed = begin(serving(describe, nursery, ApiKey.DESCRIBE_TRANSACTIONS), request, 0)
        await settled()
    whole = owed.deferred.response
    _, response = decode_response(memoryview(b"".join(whole))[4:], DescribeTransactionsRequest, 0)
    assert isinstance(response, DescribeTransactionsResponse)
    assert [each.transactional_id for each in response.transaction_states] == names
    assert described == [200] * 25


async def test_questions_of_a_broker_are_answered_for_each_transaction() -> None:
    sizes = []

    def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
        sizes.append(len(request.transactions))
        results = [
            AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=())
            for each in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    names = [f"tx-{each}" for each in range(2000)]
    topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(transactional_id=name, producer_id=1, producer_epoch=0, topics=topics)
            for name in names
        ]
    )
    async with trio.open_nursery() as nursery:
        owed = begin(serving(handle, nursery, ApiKey.ADD_PARTITIONS_TO_TXN), request, 5)
        await settled()
    whole = owed.deferred.response
    _, response = decode_response(memoryview(b"".join(whole))[4:], AddPartitionsToTxnRequest, 5)
    assert isinstance(response, AddPartitionsToTxnResponse)
    assert [each.transactional_id for each in response.results_by_transaction] == names
    assert sizes == [20] * 100


async def test_fields_of_the_whole_response_come_once() -> None:
    def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
        assert request.topics is not None
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="here", port=2)],
            topics=[MetadataResponseTopic(error_code=3, name=each.name, partitions=()) for each in request.topics],
        )

    names = [f"topic-{number}" for number in range(7000)]
    found = await ask(handle, MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]))
    response = cast(MetadataResponse, found)
    assert len(response.brokers) == 1
    assert [topic.name for topic in response.topics] == names


async def test_a_part_that_fails_is_answered_with_its_error_and_the_others_are_not() -> None:
    def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        if request.topics[0].partitions[0].partition_index == 200:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return look_up(request, context)

    response = cast(ListOffsetsResponse, await ask(handle, offsets(one=9000), failed))
    found = [each.error_code for each in response.topics[0].partitions]
    assert found == [0] * 200 + [ErrorCode.NOT_CONTROLLER] * 200 + [0] * 8600


async def test_deferred_parts_are_handled_one_after_the_other() -> None:
    waiting: list[tuple[Deferred[ListOffsetsResponse], ListOffsetsRequest]] = []

    def handle(request: ListOffsetsRequest, context: RequestContext) -> Deferred[ListOffsetsResponse]:
        reply: Deferred[ListOffsetsResponse] = Deferred(applied=False)
        waiting.append((reply, request))
        return reply

    async with trio.open_nursery() as nursery:
        request = offsets(one=5000)
        owed = begin(serving(handle, nursery, request.api_key), request)
        for number in range(25):
            await settled()
            assert len(waiting) == number + 1
            assert not owed.deferred.done
            reply, part = waiting[-1]
            reply.complete(look_up(part, RequestContext(2, 1)))
        await settled()
    assert len(cast(ListOffsetsResponse, answer(owed, request)).topics[0].partitions) == 5000


async def test_an_abandoned_request_abandons_its_part() -> None:
    abandoned = []

    def handle(request: ListOffsetsRequest, context: RequestContext) -> Deferred[ListOffsetsResponse]:
        return Deferred(applied=False, on_abandon=lambda: abandoned.append(True))

    async with trio.open_nursery() as nursery:
        owed = begin(serving(handle, nursery, ApiKey.LIST_OFFSETS), offsets(one=5000))
        await settled()
        owed.deferred.abandon()
    assert abandoned == [True]


async def test_a_handler_that_closes_the_connection_closes_it() -> None:
    def handle(request: ListOffsetsRequest, context: RequestContext) -> None:
        raise CloseConnection("no")

    async with trio.open_nursery() as nursery:
        owed = begin(serving(handle, nursery, ApiKey.LIST_OFFSETS), offsets(one=5000))
        await settled()
    with pytest.raises(CloseConnection):
        _ = owed.deferred.response


async def test_a_response_that_cannot_be_encoded_ends_only_its_connection() -> None:
    def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        partition = ListOffsetsPartitionResponse(partition_index=1 << 40, error_code=0, timestamp=-1, offset=0)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="one", partitions=[partition])])

    async with trio.open_nursery() as nursery:
        owed = begin(serving(handle, nursery, ApiKey.LIST_OFFSETS), offsets(one=5000))
        await settled()
    with pytest.raises(CloseConnection):
        _ = owed.deferred.response


async def test_a_request_that_is_broken_behind_many_elements_closes_the_connection() -> None:
    def handle(request: ListOffsetsRequest, context: RequestContext) -> None:
        raise AssertionError

    frame = encode_request(VERSION, 77, "me", offsets(**{f"t{i}": 1 for i in range(5000)}))[4:-3]
    async with trio.open_nursery() as nursery:
        owed = serving(handle, nursery, ApiKey.LIST_OFFSETS).dispatch(ClientSession(), memoryview(frame))
        assert isinstance(owed, Owed)
        await settled()
    with pytest.raises(CloseConnection, match="announces more than there is"):
        _ = owed.deferred.response


async def test_large_requests_take_turns_and_other_tasks_run_between_parts() -> None:
    log: list[str] = []

    def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        log.append(request.topics[0].name)
        return look_up(request, context)

    async with trio.open_nursery() as nursery:
        apis = serving(handle, nursery, ApiKey.LIST_OFFSETS)
        begin(apis, offsets(one=5000))
        begin(apis, offsets(two=5000))
        for _ in range(200):
            await trio.lowlevel.checkpoint()
            log.append("other")
    handled = [entry for entry in log if entry != "other"]
    assert handled[:25] == [handled[0]] * 25
    assert sorted(handled) == ["one"] * 25 + ["two"] * 25
    assert max(len(run.split()) for run in " ".join(log).split("other")) <= 2


async def test_members_that_wait_for_their_group_delay_no_other_large_request() -> None:
    waiting: list[Deferred[JoinGroupResponse]] = []

    def handle(request: Request, context: RequestContext) -> Any:
        if isinstance(request, ListOffsetsRequest):
            return look_up(request, context)
        waiting.append(Deferred(applied=False))
        return waiting[0]

    protocols = [JoinGroupRequestProtocol(name=f"p{i}", metadata=b"") for i in range(5000)]
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=protocols
    )
    async with trio.open_nursery() as nursery:
        apis = Apis(
            [
                Api(Row(key, "0-9", Operation.NONE, ResourceType.NONE), handle)
                for key in (ApiKey.JOIN_GROUP, ApiKey.LIST_OFFSETS)
            ],
            LargeRequests(inline, nursery.start_soon),
        )
        parked = begin(apis, join)
        await settled()
        other = begin(apis, offsets(one=5000))
        await settled()
        assert other.deferred.done
        assert not parked.deferred.done
        waiting[0].complete(JoinGroupResponse(error_code=16, protocol_name="", leader="", member_id="", members=()))
        await settled()
    assert cast(JoinGroupResponse, answer(parked, join)).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(("version", "most_at_once"), [(4, 3008), (7, 203)])
async def test_the_controller_does_not_wait_for_large_requests_of_clients(version: int, most_at_once: int) -> None:
    waiting: list[Deferred[ListOffsetsResponse]] = []
    sizes: list[int] = []

    def handle(request: Request, context: RequestContext) -> Any:
        if isinstance(request, LeaderAndIsrRequest):
            sizes.append(sum(len(topic.partition_states) for topic in request.topic_states))
            return leader_and_isr.error_response(request, context.api_version, ErrorCode.NONE)
        waiting.append(Deferred(applied=False))
        return waiting[0]

    topics = [
        LeaderAndIsrTopicState(
            topic_name=f"t{number}",
            topic_id=number.to_bytes(16, "big"),
            partition_states=[
                LeaderAndIsrPartitionState(
                    partition_index=each,
                    controller_epoch=1,
                    leader=1,
                    leader_epoch=1,
                    isr=[1],
                    partition_epoch=0,
                    replicas=[1],
                )
                for each in range(count)
            ],
        )
        for number, count in ((1, 3), (2, 3000), (3, 5))
    ]
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=topics, live_leaders=())
    async with trio.open_nursery() as nursery:
        apis = Apis(
            [
                Api(Row(key, "0-7", Operation.NONE, ResourceType.NONE), handle)
                for key in (ApiKey.LIST_OFFSETS, ApiKey.LEADER_AND_ISR)
            ],
            LargeRequests(inline, nursery.start_soon),
        )
        stuck = begin(apis, offsets(one=5000))
        await settled()
        roles = begin(apis, request, version)
        await settled()
        assert waiting
        assert not stuck.deferred.done
        assert roles.deferred.done
        assert max(sizes) == most_at_once
        stuck.deferred.abandon()
    roles.encode(roles.deferred.response)
    frame = memoryview(b"".join(cast(list[bytes], roles.reply)))[4:]
    response = cast(LeaderAndIsrResponse, decode_response(frame, LeaderAndIsrRequest, version)[1])
    expected = leader_and_isr.error_response(request, version, ErrorCode.NONE)
    assert response == LeaderAndIsrResponse.decode(expected.encode(version), version)


async def test_null_topics_of_a_group_stay_null_in_a_part() -> None:
    found: list[tuple[str, bool]] = []

    def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        found.extend((group.group_id, group.topics is None) for group in request.groups)
        answers = [OffsetFetchResponseGroup(group_id=group.group_id, topics=()) for group in request.groups]
        return OffsetFetchResponse(groups=answers)

    groups = [OffsetFetchRequestGroup(group_id=f"g{i}", topics=None if i % 2 else ()) for i in range(5000)]
    request = OffsetFetchRequest(groups=groups)
    async with trio.open_nursery() as nursery:
        owed = begin(serving(handle, nursery, ApiKey.OFFSET_FETCH), request, 8)
        await settled()
    assert owed.deferred.done
    assert found == [(f"g{i}", i % 2 == 1) for i in range(5000)]


def test_without_large_requests_many_elements_close_the_connection() -> None:
    row = Row(ApiKey.LIST_OFFSETS, "0-9", Operation.NONE, ResourceType.NONE)
    apis = Apis([Api(row, lambda request, context: None)])
    with pytest.raises(DecodeError):
        apis.dispatch(ClientSession(), memoryview(encode_request(VERSION, 1, "me", offsets(one=5000)))[4:])


@pytest.mark.parametrize("first_to_end", [0, 1])
async def test_full_garbage_collections_are_off_until_the_last_of_overlapping_requests_ends(
    nursery: trio.Nursery, first_to_end: int
) -> None:
    before = gc.get_threshold()
    # Brokers of one process have one collector.
    brokers = [
        serving(lambda request, context: Deferred(applied=False), nursery, ApiKey.LIST_OFFSETS) for _ in range(2)
    ]
    owed = []
    for broker in brokers:
        owed.append(begin(broker, offsets(one=5000)))
        await settled()
        assert gc.get_threshold()[2] > 1000 * before[2]
    owed[first_to_end].deferred.abandon()
    await settled()
    assert gc.get_threshold()[2] > 1000 * before[2]
    owed[1 - first_to_end].deferred.abandon()
    await settled()
    assert gc.get_threshold() == before
