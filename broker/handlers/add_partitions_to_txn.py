"""AddPartitionsToTxn: put partitions into transactions, or verify that they are in.

Behaviour:
- The reply to a client comes when the partitions are committed to __transaction_state.
- If a partition is unknown or forbidden to the client, it gets that error, the others OPERATION_NOT_ATTEMPTED. Kafka's
  own topics are forbidden to all clients: AddOffsetsToTxn adds their partitions.
- A broker asks for many transactions at once. The reply comes when all have their result.
Versions: 0 to 5. From 2 PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before); from 4 for brokers alone, many transactions,
which are verified or added; from 5 TRANSACTION_ABORTABLE.
Counterpart in Kafka: KafkaApis.handleAddPartitionsToTxnRequest.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import Access, Operation, ResourceType
from ottla.coordinator.transaction_coordinator import TransactionCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.types import TopicPartition

_FENCED_FROM_VERSION: Final = 2
_FOR_BROKERS_FROM_VERSION: Final = 4
_OF_CLIENTS: Final = 0
_OF_BROKERS: Final = 2


Codes = Mapping[TopicPartition, ErrorCode]
Results = Sequence[AddPartitionsToTxnTopicResult]


def handle(
    request: AddPartitionsToTxnRequest,
    context: RequestContext,
    *,
    transactions: TransactionCoordinator,
    metadata: MetadataCache,
    access: Access,
) -> AddPartitionsToTxnResponse | Deferred[AddPartitionsToTxnResponse]:
    """Call the transaction coordinator."""
    if context.api_version >= _FOR_BROKERS_FROM_VERSION:
        return _for_brokers(request, metadata, transactions)
    topics = request.v3_and_below_topics
    names = [each.name for each in topics if not is_internal(each.name)]
    allowed = access.allowed(context, Operation.WRITE, ResourceType.TOPIC, names)
    faults = _faults(topics, metadata, allowed)
    if faults:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_once(faults))
    reply: Deferred[AddPartitionsToTxnResponse] = Deferred(applied=False)
    transactions.add_partitions(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        _partitions(topics),
        _OF_CLIENTS,
        lambda code: reply.complete(error_response(request, context.api_version, code)),
    )
    return reply


def _faults(
    topics: Sequence[AddPartitionsToTxnTopic], metadata: MetadataCache, allowed: Collection[str] | None = None
) -> Codes:
    """Return the code of each partition if any of them may not be added, else nothing. None allows all topics."""
    codes = {}
    for partition in _partitions(topics):
        if allowed is not None and partition.topic not in allowed:
            codes[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not metadata.contains(*partition):
            codes[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            codes[partition] = ErrorCode.OPERATION_NOT_ATTEMPTED
    return {} if set(codes.values()) <= {ErrorCode.OPERATION_NOT_ATTEMPTED} else codes


def _for_brokers(
    request: AddPartitionsToTxnRequest, metadata: MetadataCache, transactions: TransactionCoordinator
) -> AddPartitionsToTxnResponse | Deferred[AddPartitionsToTxnResponse]:
    asked = {each.transactional_id: each for each in request.transactions}
    if not asked:
        return AddPartitionsToTxnResponse()
    reply: Deferred[AddPartitionsToTxnResponse] = Deferred(applied=False)
    answers: dict[str, Results] = {}

    def answered(name: str, results: Results) -> None:
        answers[name] = results
        if len(answers) == len(asked):
            # As in Kafka, the last of two transactions of one id counts, and is answered twice.
            names = [each.transactional_id for each in request.transactions]
            found = [AddPartitionsToTxnResult(transactional_id=each, topic_results=answers[each]) for each in names]
            reply.complete(AddPartitionsToTxnResponse(results_by_transaction=found))

    for name, each in asked.items():
        _add_or_verify(each, metadata, transactions, partial(answered, name))
    return reply


def _add_or_verify(
    transaction: AddPartitionsToTxnTransaction,
    metadata: MetadataCache,
    transactions: TransactionCoordinator,
    answered: Callable[[Results], None],
) -> None:
    partitions = _partitions(transaction.topics)
    producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    faults = _faults(transaction.topics, metadata)
    if faults:
        answered(_once(faults))
    elif transaction.verify_only:
        answered(_once(transactions.verify_partitions(*producer, partitions)))
    else:

        def added(code: ErrorCode) -> None:
            answered(_for_all(transaction.topics, code))

        transactions.add_partitions(*producer, partitions, _OF_BROKERS, added)


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _once(codes: Codes) -> Results:
    """Return the results of partitions, each one once, although it may be twice in the request."""
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), code in codes.items():
        by_topic.setdefault(topic, []).append(_result(index, code))
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=each) for name, each in by_topic.items()]


def _for_all(topics: Sequence[AddPartitionsToTxnTopic], code: ErrorCode) -> Results:
    """Return one code for all partitions of a request, as often as they are in it."""
    return [
        AddPartitionsToTxnTopicResult(
            name=each.name, results_by_partition=[_result(index, code) for index in each.partitions]
        )
        for each in topics
    ]


def _result(index: int, code: ErrorCode) -> AddPartitionsToTxnPartitionResult:
    return AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)


def error_response(request: AddPartitionsToTxnRequest, version: int, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Return the error for each partition, or for the whole request of a broker."""
    if version >= _FOR_BROKERS_FROM_VERSION:
        return AddPartitionsToTxnResponse(error_code=code)
    if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_FROM_VERSION:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_for_all(request.v3_and_below_topics, code))
