"""Transactions: listing and describing them, the producers of partitions, and aborting transactions that hang.

A transaction hangs if a partition has it open and no coordinator knows of that: consumers with read_committed wait
there for ever. Must not know how a producer uses transactions.
Counterparts in Kafka: TransactionListing, TransactionDescription, ProducerState, TransactionsCommand's search.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from ottla.client.admin.reassignments import by_topic
from ottla.client.cluster import TRANSACTION, Client, Coordinator, check, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.types import TopicPartition

_DURATION_FROM: Final = 1
_PATTERN_FROM: Final = 2
_MOST_PARTITIONS: Final = 500
"""The most partitions in one DescribeProducers request."""


class TransactionListing(NamedTuple):
    """A transactional id, as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id's state. Without an open transaction there is no start time."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: Sequence[TopicPartition]


class ProducerState(NamedTuple):
    """A partition's state of a producer. There is no coordinator epoch before the first marker."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    start_offset: int | None
    """The start of the transaction that is open in the partition."""


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    partition: TopicPartition
    producer: ProducerState


async def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> dict[int, list[TransactionListing]]:
    """Return the transactional ids of each broker; an empty filter matches all."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    lowest = _PATTERN_FROM if pattern is not None else _DURATION_FROM if longer_than_ms >= 0 else 0

    async def ask(broker_id: int) -> ListTransactionsResponse:
        response = await client.ask(request, broker_id, ListTransactionsResponse, lowest=lowest)
        check(response.error_code, f"broker {broker_id}")
        return response

    await client.metadata(())
    found = {}
    for broker_id in sorted(client.nodes):
        # Retry while the broker still loads its part of the log.
        response = await client.until_it_works(partial(ask, broker_id))
        found[broker_id] = [
            TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
            for each in response.transaction_states
        ]
    return found


async def describe_transactions(
    client: Client, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription | KafkaError]:
    """Return the state of each transactional id at its coordinator."""
    results: dict[str, TransactionDescription | KafkaError] = {}
    for each in dict.fromkeys(transactional_ids):
        try:
            results[each] = await _describe(client, each)
        except KafkaError as error:
            results[each] = error
    return results


async def _describe(client: Client, transactional_id: str) -> TransactionDescription:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    target = Coordinator(TRANSACTION, transactional_id)
    response = await client.ask(request, target, DescribeTransactionsResponse)
    (state,) = response.transaction_states
    check(state.error_code)
    ((coordinator, _),) = (await client.find_coordinators(TRANSACTION, [transactional_id])).items()
    return TransactionDescription(
        transactional_id,
        coordinator,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        None if state.transaction_start_time_ms < 0 else state.transaction_start_time_ms,
        [TopicPartition(each.topic, number) for each in state.topics for number in each.partitions],
    )


async def describe_producers(
    client: Client, partitions: Sequence[TopicPartition], broker_id: int | None = None
) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
    """Return the producers of partitions, as their leaders know them, or as one broker's replicas do."""

    async def exchange(
        broker: int, mine: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, list[ProducerState] | KafkaError]:
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=numbers) for name, numbers in by_topic(mine).items()]
        )
        response = await client.ask(request, broker, DescribeProducersResponse)
        return {
            TopicPartition(topic.name, each.partition_index): _producers(each)
            for topic in response.topics
            for each in topic.partitions
        }

    results: dict[TopicPartition, list[ProducerState] | KafkaError] = {}
    for at in range(0, len(partitions), _MOST_PARTITIONS):
        some = partitions[at : at + _MOST_PARTITIONS]
        if broker_id is None:
            results.update(await client.ask_leaders(some, exchange))
        else:
            results.update(await exchange(broker_id, some))
    return results


def _producers(partition: PartitionResponse) -> list[ProducerState] | KafkaError:
    if partition.error_code != ErrorCode.NONE:
        return kafka_error(partition.error_code, partition.error_message)
    return [
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            None if each.coordinator_epoch < 0 else each.coordinator_epoch,
            None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
        )
        for each in partition.active_producers
    ]


def older_than(
    producers: Mapping[TopicPartition, Sequence[ProducerState]], age_ms: int, now_ms: int
) -> list[OpenTransaction]:
    """Return the open transactions whose last batch is older than `age_ms`."""
    return [
        OpenTransaction(partition, each)
        for partition, found in producers.items()
        for each in found
        if each.start_offset is not None and now_ms - each.last_timestamp > age_ms
    ]


async def hanging_transactions(client: Client, candidates: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    """Return the open transactions that no coordinator knows. KafkaError if a coordinator cannot be asked."""
    if not candidates:
        return []
    wanted = {each.producer.producer_id for each in candidates}
    listings = [each for found in (await list_transactions(client, producer_ids=wanted)).values() for each in found]
    ids = {each.producer_id: each.transactional_id for each in listings}
    descriptions = await describe_transactions(client, ids.values())
    return [
        each for each in candidates if not _is_known(each, descriptions.get(ids.get(each.producer.producer_id, "")))
    ]


def _is_known(found: OpenTransaction, description: TransactionDescription | KafkaError | None) -> bool:
    if isinstance(description, KafkaError):
        if description.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise description
        return False
    return description is not None and found.partition in description.partitions


async def abort_transaction(
    client: Client, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> KafkaError | None:
    """Append an abort marker to one partition, without the transaction's coordinator."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=coordinator_epoch,
    )

    async def exchange(broker: int, _: Sequence[TopicPartition]) -> Mapping[TopicPartition, bool | KafkaError]:
        request = WriteTxnMarkersRequest(markers=[marker])
        response = await client.ask(request, broker, WriteTxnMarkersResponse)
        code = response.markers[0].topics[0].partitions[0].error_code
        return {partition: True if code == ErrorCode.NONE else kafka_error(code)}

    result = (await client.ask_leaders([partition], exchange))[partition]
    return result if isinstance(result, KafkaError) else None


async def terminate_transaction(client: Client, transactional_id: str) -> KafkaError | None:
    """Fence the producer of a transactional id, which aborts its open transaction."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=int(client.config["request.timeout.ms"])
    )
    code = int(ErrorCode.CONCURRENT_TRANSACTIONS)
    with trio.move_on_after(client.config.seconds("default.api.timeout.ms")):
        while code == ErrorCode.CONCURRENT_TRANSACTIONS:
            target = Coordinator(TRANSACTION, transactional_id)
            code = (await client.ask(request, target, InitProducerIdResponse)).error_code
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                # Retry while the coordinator aborts the open transaction.
                await trio.sleep(client.config.seconds("retry.backoff.ms"))
    return None if code == ErrorCode.NONE else kafka_error(code)
