"""A consumer reads each partition in order from its leader."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from ottla.client.cluster import open_client
from ottla.client.config import ClientConfig
from ottla.client.consuming.consumer import EARLIEST, LATEST, Consumer, open_consumer
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import RequestHeader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.schema import Request, Response
from ottla.wire.types import TopicPartition
from tests.client.scripted import HANG_UP, Answer, ScriptedBroker, listening, metadata

PATIENCE_S = 120
TOPIC = "orders"
ONE, TWO = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
HASTY = {"retry.backoff.ms": "0", "retry.backoff.max.ms": "0", "fetch.max.wait.ms": "5"}
SESSION = 9


class Quiet(ScriptedBroker):
    """A broker that ignores a client's close during an answer."""

    async def serve(self, stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await super().serve(stream)


class Cluster:
    """Two brokers that lead a partition each; a log is a list of batches of two records."""

    def __init__(self) -> None:
        self.leaders = [1, 2]
        self.starts = {0: 0, 1: 0}
        self.logs = {0: 3, 1: 3}
        """How many batches each partition has."""
        self.codes: dict[int, list[int]] = {0: [], 1: []}
        """Errors of the next answers for a partition."""
        self.session_codes: list[int] = []
        self.hangs_up = False
        self.aborted: list[AbortedTransaction] = []
        self.sessions: dict[int, dict[tuple[str, int], int]] = {1: {}, 2: {}}
        self.fetches: list[tuple[int, FetchRequest]] = []
        self.brokers = [Quiet(self._answering(number), number) for number in (1, 2)]
        for each in self.brokers:
            each.versions |= {ApiKey.FETCH: (4, 12), ApiKey.LIST_OFFSETS: (1, 6)}

    def _answering(self, node_id: int) -> Answer:
        async def answer(header: RequestHeader, request: Request) -> Response | None:
            if isinstance(request, MetadataRequest):
                return metadata(self.brokers, self.leaders, topic=TOPIC)
            if isinstance(request, ListOffsetsRequest):
                return self._offsets(request)
            assert isinstance(request, FetchRequest)
            if self.hangs_up:
                self.hangs_up = False
                return HANG_UP
            self.fetches.append((node_id, request))
            await trio.sleep(0)
            return self._fetched(node_id, request, header.api_version)

        return answer

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        found = []
        for each in request.topics[0].partitions:
            index = each.partition_index
            offset = self.starts[index] if each.timestamp == EARLIEST else 2 * self.logs[index]
            found.append(ListOffsetsPartitionResponse(partition_index=index, error_code=0, offset=offset))
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=found)])

    def _fetched(self, node_id: int, request: FetchRequest, version: int) -> FetchResponse:
        if self.session_codes:
            self.sessions[node_id].clear()
            return FetchResponse(error_code=self.session_codes.pop(), responses=[])
        wanted = {
            (topic.topic, each.partition): each.fetch_offset for topic in request.topics for each in topic.partitions
        }
        if request.session_epoch > 0:
            for topic in request.forgotten_topics_data:
                for index in topic.partitions:
                    self.sessions[node_id].pop((topic.topic, index), None)
            self.sessions[node_id] |= wanted
            wanted = self.sessions[node_id]
        else:
            self.sessions[node_id] = dict(wanted)
        partitions = [self._data(node_id, index, offset) for (_, index), offset in wanted.items()]
        session_id = SESSION if request.session_epoch >= 0 and version >= 7 else 0
        response = FetchableTopicResponse(topic=TOPIC, partitions=partitions)
        return FetchResponse(session_id=session_id, responses=[response] if partitions else [])

    def _data(self, node_id: int, index: int, offset: int) -> PartitionData:
        end = 2 * self.logs[index]
        code = 0
        if self.codes[index]:
            code = self.codes[index].pop()
        elif self.leaders[index] != node_id:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.starts[index] <= offset <= end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        records = b"" if code or offset >= end else bytes(batch(index, offset // 2))
        return PartitionData(
            partition_index=index,
            error_code=code,
            high_watermark=end,
            last_stable_offset=end,
            aborted_transactions=self.aborted,
            records=records,
        )

    @asynccontextmanager
    async def consumer(self, *, reset: str | None = None, **properties: str) -> AsyncIterator[Consumer]:
        more = {key.replace("_", "."): value for key, value in properties.items()}
        with trio.fail_after(PATIENCE_S):
            async with listening(*self.brokers):
                config = ClientConfig({**HASTY, "bootstrap.servers": self.brokers[0].bootstrap, **more})
                async with open_client(config) as client, open_consumer(client, reset=reset) as consumer:
                    yield consumer


def batch(index: int, number: int) -> bytearray:
    values = [b"%d:%d" % (index, 2 * number + each) for each in range(2)]
    records = [NewRecord(value=value, timestamp=1) for value in values]
    return build_batch(records, base_offset=2 * number, producer_id=number, transactional=True)


async def read(consumer: Consumer, count: int) -> Mapping[int, list[bytes]]:
    """Return the values of so many records, by partition."""
    found: dict[int, list[bytes]] = {0: [], 1: []}
    while sum(map(len, found.values())) < count:
        chunk = await consumer.next()
        found[chunk.partition.partition] += [record.value or b"" for _, record in chunk.records()]
    return found


def values(index: int, first: int, behind: int) -> list[bytes]:
    return [b"%d:%d" % (index, offset) for offset in range(first, behind)]


@pytest.mark.parametrize("newest_fetch", [6, 12])
async def test_partitions_of_several_leaders_are_read_in_their_order(newest_fetch: int) -> None:
    cluster = Cluster()
    for each in cluster.brokers:
        each.versions |= {ApiKey.FETCH: (4, newest_fetch)}
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: EARLIEST, TWO: 3})
        assert await read(consumer, 9) == {0: values(0, 0, 6), 1: values(1, 3, 6)}
        assert consumer.begun() == {ONE: 0, TWO: 3}
        cluster.logs[1] += 1
        assert await read(consumer, 2) == {0: [], 1: values(1, 6, 8)}
    epochs = {request.session_epoch for _, request in cluster.fetches}
    assert (epochs == {-1}) is (newest_fetch == 6)


async def test_a_session_names_only_what_has_changed() -> None:
    cluster = Cluster()
    cluster.leaders = [1, 1]
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: 0, TWO: LATEST})
        await read(consumer, 6)
        cluster.logs[1] += 1
        await read(consumer, 2)
    first, *others = [request for _, request in cluster.fetches]
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert [each.session_epoch for each in others] == list(range(1, len(others) + 1))
    assert {each.session_id for each in others} == {SESSION}
    assert not any(each.topics for each in others if each.session_epoch > 3 and each is not others[-1])


async def test_a_lost_session_begins_anew() -> None:
    cluster = Cluster()
    cluster.leaders = [1, 1]
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: 0})
        await consumer.next()
        cluster.session_codes = [ErrorCode.FETCH_SESSION_ID_NOT_FOUND]
        assert await read(consumer, 4) == {0: values(0, 2, 6), 1: []}
    assert [request.session_epoch for _, request in cluster.fetches].count(0) == 2


async def test_a_partition_that_is_no_longer_read_leaves_the_session() -> None:
    cluster = Cluster()
    cluster.leaders = [1, 1]
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: 0, TWO: 0})
        await read(consumer, 12)
        consumer.stop(TWO)
        cluster.logs = {0: 4, 1: 4}
        assert await read(consumer, 2) == {0: values(0, 6, 8), 1: []}
        while not (forgotten := [each for _, request in cluster.fetches for each in request.forgotten_topics_data]):
            await trio.sleep(0)
    assert [list(each.partitions) for each in forgotten] == [[1]]


async def test_reading_continues_at_the_new_leader() -> None:
    cluster = Cluster()
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: 0})
        await consumer.next()
        cluster.leaders = [2, 1]
        cluster.logs[0] = 5
        assert await read(consumer, 8) == {0: values(0, 2, 10), 1: []}
    assert cluster.fetches[-1][0] == 2


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
async def test_a_passing_error_is_retried(code: ErrorCode) -> None:
    cluster = Cluster()
    cluster.codes[0] = [code] * 3
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: 0})
        assert await read(consumer, 6) == {0: values(0, 0, 6), 1: []}


async def test_a_broken_connection_is_opened_again() -> None:
    cluster = Cluster()
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: 0})
        await consumer.next()
        cluster.hangs_up = True
        assert await read(consumer, 4) == {0: values(0, 2, 6), 1: []}


async def test_an_error_that_does_not_pass_is_raised() -> None:
    cluster = Cluster()
    cluster.codes[0] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: 0})
        with pytest.raises(KafkaError, match="orders-0"):
            await consumer.next()


async def test_a_passing_error_is_raised_after_the_timeout() -> None:
    cluster = Cluster()
    cluster.leaders = [-1, 2]
    async with cluster.consumer(default_api_timeout_ms="300") as consumer:
        consumer.assign({ONE: 0})
        with pytest.raises(KafkaError, match="orders-0") as raised:
            await consumer.next()
    assert raised.value.code == ErrorCode.LEADER_NOT_AVAILABLE


async def test_out_of_range_continues_at_the_reset() -> None:
    cluster = Cluster()
    cluster.starts[0] = 4
    async with cluster.consumer(reset="earliest") as consumer:
        consumer.assign({ONE: 1})
        assert await read(consumer, 2) == {0: values(0, 4, 6), 1: []}


async def test_out_of_range_is_an_error_without_a_reset() -> None:
    async with Cluster().consumer(auto_offset_reset="none") as consumer:
        consumer.assign({ONE: 99})
        with pytest.raises(KafkaError, match="orders-0 has no offset 99"):
            await consumer.next()


async def test_a_committed_reader_gets_no_records_of_aborted_transactions() -> None:
    cluster = Cluster()
    cluster.aborted = [AbortedTransaction(producer_id=1, first_offset=2)]
    async with cluster.consumer(isolation_level="read_committed") as consumer:
        consumer.assign({ONE: 0})
        assert await read(consumer, 4) == {0: [*values(0, 0, 2), *values(0, 4, 6)], 1: []}


async def test_chunks_of_an_earlier_assignment_are_dropped() -> None:
    cluster = Cluster()
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: 0, TWO: 0})
        await consumer.next()
        consumer.assign({TWO: 4})
        assert await read(consumer, 2) == {0: [], 1: values(1, 4, 6)}


async def test_ready_chunks_come_without_waiting() -> None:
    cluster = Cluster()
    async with cluster.consumer() as consumer:
        assert consumer.ready() is None
        consumer.assign({ONE: 0})
        first = await consumer.next()
        await trio.testing.wait_all_tasks_blocked(0.05)
        second = consumer.ready()
        assert second is not None
        assert (second.start, second.partition) == (first.next_offset, ONE)
        consumer.assign({})
        assert consumer.ready() is None


async def test_fetching_stops_until_the_caller_takes_chunks() -> None:
    cluster = Cluster()
    cluster.logs[0] = 100
    async with cluster.consumer() as consumer:
        consumer.assign({ONE: 0})
        await consumer.next()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(cluster.fetches) <= 4
        assert await read(consumer, 198) == {0: values(0, 2, 200), 1: []}
