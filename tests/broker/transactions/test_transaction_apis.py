"""The APIs of transactions over a whole broker: from its socket to its logs and back."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
import trio

from ottla.broker.transactions.markers import MarkerSender
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.records.batch import NewRecord, build_batch, iter_batches, iter_records
from ottla.wire.schema import Request
from ottla.wire.types import TopicPartition
from tests.broker.support.client import Client, client
from tests.broker.test_node import config, create, running

R = TypeVar("R")
NAME, GROUP = "tx", "readers"
READ_COMMITTED = 1


class Versions(NamedTuple):
    """One version of each API."""

    find: int = 6
    init: int = 5
    add: int = 3
    add_offsets: int = 4
    commit_offsets: int = 4
    end: int = 4
    produce: int = 11


LATEST = Versions()
# Each version of each API is there at least once, but for those of FindCoordinator and Produce below.
ALL = [
    Versions(*(max(lowest, highest - back) for lowest, highest in zip((1, 0, 0, 0, 0, 0, 3), LATEST, strict=True)))
    for back in range(9)
]


class Producer:
    """A transactional producer over one connection."""

    def __init__(self, one: Client, versions: Versions = LATEST) -> None:
        self.one = one
        self.versions = versions
        self.producer_id = self.epoch = -1
        self.sequences: dict[TopicPartition, int] = {}

    async def ask(self, request: Request, version: int, kind: type[R]) -> R:
        response = await self.one.ask(request, version)
        assert isinstance(response, kind)
        return response

    async def init(self) -> None:
        """Wait for the coordinator, and get a producer id and an epoch."""
        request = FindCoordinatorRequest(key=NAME, key_type=1, coordinator_keys=[NAME])

        async def is_found() -> bool:
            response = await self.ask(request, self.versions.find, FindCoordinatorResponse)
            found: Any = response if self.versions.find < 4 else response.coordinators[0]
            return not found.error_code

        async def is_given() -> bool:
            asked = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
            given = await self.ask(asked, self.versions.init, InitProducerIdResponse)
            self.producer_id, self.epoch = given.producer_id, given.producer_epoch
            return not given.error_code

        await until(is_found)
        await until(is_given)
        self.sequences = {}

    async def add(self, *partitions: TopicPartition) -> set[int]:
        """Put partitions into the transaction; return the errors."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=NAME,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[each]) for topic, each in partitions],
        )
        response = await self.ask(request, self.versions.add, AddPartitionsToTxnResponse)
        return {
            each.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }

    def records(self, *where: tuple[TopicPartition, bytes]) -> ProduceRequest:
        """Return a Produce with the next sequence numbers."""
        topics = []
        for partition, value in where:
            sequence = self.sequences.get(partition, 0)
            self.sequences[partition] = sequence + 1
            batch = build_batch(
                [NewRecord(value=value, timestamp=time.time_ns() // 1_000_000)],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                transactional=True,
            )
            data = [PartitionProduceData(index=partition.partition, records=batch)]
            topics.append(TopicProduceData(name=partition.topic, partition_data=data))
        return ProduceRequest(transactional_id=NAME, acks=-1, timeout_ms=10_000, topic_data=topics)

    async def produce(self, *where: tuple[TopicPartition, bytes], acks: int = -1) -> list[tuple[int, int]]:
        """Send records; return error and offset of each partition."""
        request = self.records(*where)
        request.acks = acks
        (found,) = await self.produce_at_once(request)
        return found

    async def produce_at_once(self, *requests: ProduceRequest) -> list[list[tuple[int, int]]]:
        """Send several requests before the first response."""
        responses = await self.one.ask_all(*((each, self.versions.produce) for each in requests))
        assert all(isinstance(each, ProduceResponse) for each in responses)
        return [
            [
                (each.error_code, each.base_offset)
                for topic in response.responses  # type: ignore[attr-defined]
                for each in topic.partition_responses
            ]
            for response in responses
        ]

    async def end(self, *, is_commit: bool = True) -> int:
        """Commit or abort; return the error."""
        request = EndTxnRequest(
            transactional_id=NAME, producer_id=self.producer_id, producer_epoch=self.epoch, committed=is_commit
        )
        return (await self.ask(request, self.versions.end, EndTxnResponse)).error_code

    async def state(self) -> str:
        """Return the state of the transactional id."""
        request = DescribeTransactionsRequest(transactional_ids=[NAME])
        (found,) = (await self.ask(request, 0, DescribeTransactionsResponse)).transaction_states
        return found.transaction_state

    async def is_complete(self) -> bool:
        """Return whether all partitions have their marker."""
        return (await self.state()).startswith("Complete")

    async def add_offsets(self) -> None:
        """Put the group's partition of __consumer_offsets into the transaction, which may have to be created."""
        request = AddOffsetsToTxnRequest(
            transactional_id=NAME, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=GROUP
        )

        async def is_added() -> bool:
            response = await self.ask(request, self.versions.add_offsets, AddOffsetsToTxnResponse)
            assert response.error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return not response.error_code

        await until(is_added)

    async def commit_offset(self, offset: int) -> None:
        """Commit an offset of the group in the transaction, once the group has a coordinator."""
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=NAME,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )

        async def is_committed() -> bool:
            response = await self.ask(request, self.versions.commit_offsets, TxnOffsetCommitResponse)
            code = response.topics[0].partitions[0].error_code
            assert code in (0, ErrorCode.NOT_COORDINATOR, 14, 15)
            return not code

        await until(is_committed)

    async def offset(self) -> tuple[int, int]:
        """Return the group's stable offset and its error."""
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        asked = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])], require_stable=True
        )
        response = await self.ask(asked, 9, OffsetFetchResponse)
        (found,) = response.groups[0].topics[0].partitions
        return found.committed_offset, found.error_code


async def until(is_so: Callable[[], Any]) -> None:
    """Return when it is so."""
    while not await is_so():
        await trio.sleep(0.005)


async def committed(one: Client, topic: str = "t", index: int = 0) -> list[bytes]:
    """Return the records that a consumer of committed ones gets, without those of aborted transactions."""
    partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=1,
        min_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    response = await one.ask(request, 12)
    assert isinstance(response, FetchResponse)
    (found,) = response.responses[0].partitions
    assert isinstance(found.records, memoryview)
    aborted = {each.producer_id for each in found.aborted_transactions or ()}
    return [
        bytes(record.value or b"")
        for header, batch in iter_batches(found.records)
        if not header.is_control
        for record in iter_records(batch)
        if not (header.producer_id in aborted and (record.value or b"").startswith(b"aborted"))
    ]


async def until_read(one: Client, topic: str, *expected: bytes) -> None:
    """Return when these are the committed records: a log found on the disk is checked before it is read."""

    async def is_read() -> bool:
        found = await committed(one, topic)
        assert found in ([], list(expected))
        return bool(found)

    await until(is_read)


async def last_stable_offset(one: Client, topic: str = "t") -> int:
    latest = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    response: Any = await one.ask(ListOffsetsRequest(replica_id=-1, isolation_level=READ_COMMITTED, topics=[latest]), 7)
    return int(response.topics[0].partitions[0].offset)


@asynccontextmanager
async def serving(folder: Path, **settings: str) -> AsyncIterator[Client]:
    """A broker with a topic, and a client of it."""
    with_few_partitions = config(folder, transaction_state_log_num_partitions="5", **settings)
    async with running(with_few_partitions) as bootstrap, client(bootstrap) as one:
        yield one


T0 = TopicPartition("t", 0)
U0 = TopicPartition("u", 0)


@pytest.mark.parametrize("versions", ALL, ids=lambda versions: f"init{versions.init}")
async def test_transactions_are_committed_and_aborted_in_every_version(tmp_path: Path, versions: Versions) -> None:
    async with serving(tmp_path) as one:
        for topic in ("t", "u"):
            await create(one, topic)
        producer = Producer(one, versions)
        await producer.init()
        assert await producer.add(T0, U0) == {0}
        # The second request is sent before the coordinator was asked for the first one.
        requests = [producer.records((T0, b"a"), (U0, b"x")), producer.records((T0, b"b"))]
        assert await producer.produce_at_once(*requests) == [[(0, 0), (0, 0)], [(0, 1)]]
        assert (await committed(one), await last_stable_offset(one)) == ([], 0)
        assert await producer.end() == 0
        await until(producer.is_complete)
        assert (await committed(one), await committed(one, "u")) == ([b"a", b"b"], [b"x"])
        assert await producer.add(T0) == {0}
        assert await producer.produce((T0, b"aborted")) == [(0, 3)]
        assert await producer.end(is_commit=False) == 0
        await until(producer.is_complete)
        assert (await committed(one), await last_stable_offset(one)) == ([b"a", b"b"], 5)


@pytest.mark.parametrize("versions", [LATEST, ALL[-1]], ids=["latest", "oldest"])
async def test_offsets_of_a_transaction_count_when_it_is_committed(tmp_path: Path, versions: Versions) -> None:
    async with serving(tmp_path) as one:
        await create(one, "t")
        producer = Producer(one, versions)
        await producer.init()
        for is_commit, offset in ((True, 5), (False, 7)):
            # No consumer has created the topic of offsets.
            await producer.add_offsets()
            await producer.commit_offset(offset)
            assert await producer.offset() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            assert await producer.end(is_commit=is_commit) == 0
            await until(producer.is_complete)
            assert await producer.offset() == (5, 0)


async def test_a_newer_producer_aborts_what_the_older_one_has_begun_and_fences_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as one:
        await create(one, "t")
        older, newer = Producer(one), Producer(one)
        await older.init()
        await older.add(T0)
        await older.produce((T0, b"aborted"))
        await newer.init()
        assert (newer.producer_id, newer.epoch) == (older.producer_id, older.epoch + 2)
        assert await last_stable_offset(one) == 2
        assert await older.add(T0) == {ErrorCode.PRODUCER_FENCED}
        assert await older.produce((T0, b"late")) == [(ErrorCode.INVALID_PRODUCER_EPOCH, -1)]
        assert await older.end() == ErrorCode.PRODUCER_FENCED
        assert await newer.add(T0) == {0}
        assert await newer.produce((T0, b"new")) == [(0, 2)]
        assert await newer.end() == 0
        await until(newer.is_complete)
        assert await committed(one) == [b"new"]


async def test_records_of_a_partition_that_was_not_added_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as one:
        await create(one, "t")
        for version, code in ((11, ErrorCode.TRANSACTION_ABORTABLE), (10, ErrorCode.INVALID_TXN_STATE)):
            producer = Producer(one, LATEST._replace(produce=version))
            await producer.init()
            assert await producer.produce((T0, b"a")) == [(code, -1)]
        assert await last_stable_offset(one) == 0


async def test_transactions_are_listed_and_an_administrator_ends_one_that_hangs(tmp_path: Path) -> None:
    # Without verification a transaction may hang: its coordinator does not know the partition.
    async with serving(tmp_path, transaction_partition_verification_enable="false") as one:
        await create(one, "t")
        producer = Producer(one)
        await producer.init()
        assert await producer.produce((T0, b"aborted")) == [(0, 0)]
        listed = await producer.ask(
            ListTransactionsRequest(state_filters=["Empty"], producer_id_filters=()), 1, ListTransactionsResponse
        )
        assert [(each.transactional_id, each.producer_id) for each in listed.transaction_states] == [
            (NAME, producer.producer_id)
        ]
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=-1,
        )
        written = await producer.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
        assert written.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE
        assert (await committed(one), await last_stable_offset(one)) == ([], 2)


async def test_a_transaction_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as one:
        await create(one, "t")
        producer = Producer(one)
        await producer.init()
        await producer.add(T0)
        await producer.produce((T0, b"a"))
    async with serving(tmp_path) as one:
        producer.one = one
        await until_loaded(producer)
        assert await producer.state() == "Ongoing"
        assert await producer.produce((T0, b"b")) == [(0, 1)]
        assert await producer.end() == 0
        await until(producer.is_complete)
        await until_read(one, "t", b"a", b"b")


async def test_a_decided_transaction_gets_its_markers_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before_markers:
        before_markers.setattr(MarkerSender, "send", lambda *arguments: None)
        async with serving(tmp_path) as one:
            for topic in ("t", "u"):
                await create(one, topic)
            producer = Producer(one)
            await producer.init()
            await producer.add(T0, U0)
            await producer.produce((T0, b"a"), (U0, b"x"))
            assert await producer.end() == 0
            assert (await producer.state(), await committed(one)) == ("PrepareCommit", [])
    async with serving(tmp_path) as one:
        producer.one = one
        await until(producer.is_complete)
        await until_read(one, "t", b"a")
        await until_read(one, "u", b"x")


async def until_loaded(producer: Producer) -> None:
    """Return when the broker coordinates the transactional id again."""
    request = DescribeTransactionsRequest(transactional_ids=[NAME])

    async def is_loaded() -> bool:
        (found,) = (await producer.ask(request, 0, DescribeTransactionsResponse)).transaction_states
        return not found.error_code

    await until(is_loaded)
