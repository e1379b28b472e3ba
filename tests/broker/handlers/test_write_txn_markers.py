from collections.abc import Sequence

import pytest

from ottla.broker.handlers import write_txn_markers
from ottla.broker.internal_topics.committed_appends import CommittedAppends
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.partition import Partition
from ottla.coordinator.config import GroupConfig
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.records.batch import ControlType, end_transaction_marker, iter_batches, validate_produced
from tests.broker.handlers.producing import follower_has, hosted
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch, context
from tests.broker.support.transactions import Log
from tests.log.building import content

OFFSETS = "__consumer_offsets"
GROUP = "readers"
Answers = list[tuple[int, dict[tuple[str, int], int]]]


class Marking:
    """A leader of partitions, which coordinates the groups of partition 0."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.groups = GroupCoordinator(
            Log(),
            GroupConfig(),
            now_ms=lambda: house.now_ms,
            call_later=house.clock.call_later,
            partition_count=lambda: 1,
        )
        self.groups.runtime.begin_loading(0, 0)
        self.groups.runtime.loaded(0, 0)

    def send(
        self, *markers: WritableTxnMarker, version: int = 1
    ) -> WriteTxnMarkersResponse | Deferred[WriteTxnMarkersResponse]:
        request = WriteTxnMarkersRequest(markers=markers)
        return write_txn_markers.handle(
            WriteTxnMarkersRequest.decode(request.encode(version), version),
            context(ApiKey.WRITE_TXN_MARKERS, version),
            replicas=self.house.replicas,
            appends=CommittedAppends(self.house.replicas, self.house.parts),
            clock=self.house.clock,
            groups=self.groups,
        )

    def ask(self, *markers: WritableTxnMarker, version: int = 1) -> Answers:
        response = self.send(*markers, version=version)
        if isinstance(response, Deferred):
            response = response.response
        return codes(WriteTxnMarkersResponse.decode(response.encode(version), version))

    def begin(self, producer_id: int = 7, epoch: int = 3, index: int = 0) -> None:
        """Append a record of a transaction."""
        partition = hosted(self.house, index)
        records = batch(b"t", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
        produced = validate_produced(records, api_version=9, rules=partition.rules, now_ms=NOW_MS)
        self.house.replicas.append(partition, produced, 1, NOW_MS)

    def commit_offset(self, producer_id: int, offset: int) -> None:
        """Commit an offset of the group in a transaction."""
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=GROUP,
            producer_id=producer_id,
            producer_epoch=3,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        codes: list[int] = []
        self.groups.txn_offset_commit(
            request, 3, lambda response: codes.append(response.topics[0].partitions[0].error_code)
        )
        assert codes == [ErrorCode.NONE]

    def offset(self) -> int:
        """Return the offset of the group."""
        asked = OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])])
        return self.groups.offset_fetch(asked, 7).topics[0].partitions[0].committed_offset


def codes(response: WriteTxnMarkersResponse) -> Answers:
    return [
        (
            result.producer_id,
            {
                (topic.name, each.partition_index): each.error_code
                for topic in result.topics
                for each in topic.partitions
            },
        )
        for result in response.markers
    ]


def marker(
    *topics: tuple[str, Sequence[int]], producer_id: int = 7, epoch: int = 3, commit: bool = True, coordinator: int = 5
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics],
        coordinator_epoch=coordinator,
    )


def logged(partition: Partition) -> bytes:
    log = partition.log
    return content(log.read(0, 1 << 20, log.log_end_offset, min_one_message=True))


def markers_in(house: House, index: int = 0) -> list[tuple[int, int, ControlType, int]]:
    """Return producer, epoch, result and coordinator epoch of each marker in a log."""
    found = []
    for header, data in iter_batches(memoryview(logged(hosted(house, index)))):
        if header.is_control:
            end = end_transaction_marker(data)
            found.append((header.producer_id, header.producer_epoch, end.control_type, end.coordinator_epoch))
    return found


@pytest.fixture
def marking(house: House) -> Marking:
    return Marking(house)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_the_transaction_in_each_of_its_partitions(
    house: House, marking: Marking, version: int, commit: bool
) -> None:
    marking.begin(index=0)
    marking.begin(index=1)
    assert hosted(house).last_stable_offset == 0
    answers = marking.ask(marker((TOPIC, [0, 1]), commit=commit), version=version)
    assert answers == [(7, {(TOPIC, 0): 0, (TOPIC, 1): 0})]
    result = ControlType.COMMIT if commit else ControlType.ABORT
    assert [markers_in(house, index) for index in (0, 1)] == [[(7, 3, result, 5)]] * 2
    assert (hosted(house).last_stable_offset, hosted(house).high_watermark) == (2, 2)


def test_an_unknown_producer_gets_its_marker(house: House, marking: Marking) -> None:
    assert marking.ask(marker((TOPIC, [0]), producer_id=99)) == [(99, {(TOPIC, 0): 0})]
    assert markers_in(house) == [(99, 3, ControlType.COMMIT, 5)]


def test_old_epochs_are_refused_and_a_repetition_is_not(house: House, marking: Marking) -> None:
    marking.begin(epoch=3)
    old_producer, old_coordinator = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert marking.ask(marker((TOPIC, [0]), epoch=2)) == [(7, {(TOPIC, 0): old_producer})]
    assert marking.ask(marker((TOPIC, [0]))) == [(7, {(TOPIC, 0): 0})]
    assert marking.ask(marker((TOPIC, [0]))) == [(7, {(TOPIC, 0): 0})]
    assert marking.ask(marker((TOPIC, [0]), coordinator=4)) == [(7, {(TOPIC, 0): old_coordinator})]
    assert len(markers_in(house)) == 2


def test_a_partition_that_is_not_here_needs_no_producer(marking: Marking) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert marking.ask(marker(("unknown", [0]), producer_id=-1, epoch=-1)) == [(-1, {("unknown", 0): unknown})]


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 3), (7, -1)])
def test_a_marker_of_no_producer_refuses_the_request(
    house: House, marking: Marking, producer_id: int, epoch: int
) -> None:
    with pytest.raises(KafkaError) as caught:
        marking.ask(marker((TOPIC, [0])), marker((TOPIC, [1]), producer_id=producer_id, epoch=epoch))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert markers_in(house) == []


def test_a_partition_that_is_not_here_keeps_no_other_from_its_marker(house: House, marking: Marking) -> None:
    house.tell("elsewhere", [0], leader=1)
    house.lead("followed", leader=1, isr=[1, 0], replicas=[1, 0])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = marker(("nowhere", [0]), (TOPIC, [0, 9]), ("elsewhere", [0]), ("followed", [0]))
    assert marking.ask(asked) == [
        (
            7,
            {
                ("nowhere", 0): unknown,
                (TOPIC, 0): 0,
                (TOPIC, 9): unknown,
                ("elsewhere", 0): unknown,
                ("followed", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER,
            },
        )
    ]


def test_the_markers_of_one_producer_have_one_result(house: House, marking: Marking) -> None:
    house.lead("other")
    asked = (
        marker((TOPIC, [0])),
        marker((TOPIC, [0]), producer_id=8),
        marker((TOPIC, [1]), ("other", [0])),
        marker((TOPIC, [1]), producer_id=9),
    )
    assert marking.ask(*asked) == [
        (7, {(TOPIC, 0): 0, (TOPIC, 1): 0, ("other", 0): 0}),
        (8, {(TOPIC, 0): 0}),
        (9, {(TOPIC, 1): 0}),
    ]


def test_a_request_without_partitions_gets_a_response_without_results(marking: Marking) -> None:
    assert marking.ask() == []
    assert marking.ask(marker()) == []


async def test_the_reply_waits_for_all_in_sync_replicas(house: House, marking: Marking) -> None:
    house.lead(partitions=[0], isr=[0, 1], replicas=[0, 1], epoch=1)
    reply = marking.send(marker((TOPIC, [0, 1])))
    assert isinstance(reply, Deferred)
    assert (reply.applied, reply.done) == (False, False)
    follower_has(house, 1)
    assert codes(reply.response) == [(7, {(TOPIC, 0): 0, (TOPIC, 1): 0})]


def test_too_few_in_sync_replicas_are_answered(house: House, marking: Marking) -> None:
    house.configs["safe"] = {"min.insync.replicas": "2"}
    house.lead("safe", replicas=[0, 1])
    assert marking.ask(marker(("safe", [0]))) == [(7, {("safe", 0): ErrorCode.NOT_ENOUGH_REPLICAS})]


@pytest.mark.parametrize(("commit", "offset"), [(True, 12), (False, -1)])
def test_the_offsets_of_a_transaction_count_from_its_commit_marker_on(
    house: House, marking: Marking, commit: bool, offset: int
) -> None:
    house.lead(OFFSETS)
    marking.commit_offset(7, 12)
    # Neither a marker elsewhere nor one of another producer ends this transaction.
    marking.ask(marker((TOPIC, [0]), commit=commit), marker((OFFSETS, [0]), producer_id=8, commit=commit))
    assert marking.offset() == -1
    assert marking.ask(marker((OFFSETS, [0]), commit=commit)) == [(7, {(OFFSETS, 0): 0})]
    assert marking.offset() == offset


def test_a_refused_marker_lets_no_offset_count(house: House, marking: Marking) -> None:
    house.lead(OFFSETS)
    marking.ask(marker((OFFSETS, [0]), epoch=5))
    marking.commit_offset(7, 12)
    assert marking.ask(marker((OFFSETS, [0]))) == [(7, {(OFFSETS, 0): ErrorCode.INVALID_PRODUCER_EPOCH})]
    assert marking.offset() == -1


async def test_offsets_do_not_count_before_the_in_sync_replicas_have_the_marker(house: House, marking: Marking) -> None:
    house.lead(OFFSETS, isr=[0, 1], replicas=[0, 1])
    marking.commit_offset(7, 12)
    marking.send(marker((OFFSETS, [0])))
    assert marking.offset() == -1
    house.lead(OFFSETS, isr=[0], replicas=[0, 1], epoch=1)
    assert marking.offset() == 12


def test_a_marker_has_the_time_of_the_topics_kind(house: House, marking: Marking) -> None:
    house.configs["stamped"] = {"message.timestamp.type": "LogAppendTime"}
    house.lead("stamped")
    marking.ask(marker(("stamped", [0])))
    ((header, _),) = iter_batches(memoryview(logged(house.replicas.partition("stamped", 0))))
    assert (header.max_timestamp, header.timestamp_type.name) == (NOW_MS, "LOG_APPEND_TIME")


def test_a_refusal_of_the_whole_request_is_that_of_each_partition() -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    asked = WriteTxnMarkersRequest(markers=[marker((TOPIC, [0, 1])), marker((TOPIC, [0]), producer_id=8)])
    refused = write_txn_markers.error_response(asked, 1, denied)
    assert codes(refused) == [(7, {(TOPIC, 0): denied, (TOPIC, 1): denied}), (8, {(TOPIC, 0): denied})]
