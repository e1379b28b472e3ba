"""AddPartitionsToTxn: partitions that a transaction is about to write to.

0   the first form
1   the client waits out the throttle time itself
2   may answer PRODUCER_FENCED
3   flexible; the last version that clients use
4   for brokers: many transactions at once, and partitions can be verified instead of added
5   may answer TRANSACTION_ABORTABLE
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int16, Int32, Int64, String


class AddPartitionsToTxnTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: Sequence[Int32]


class AddPartitionsToTxnTransaction(Struct):
    """One transaction; `verify_only` asks whether the partitions are in it already."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: Sequence[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Request, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    """Add partitions to transactions."""

    transactions: Annotated[Sequence[AddPartitionsToTxnTransaction], V("4+")] = ()
    v3_and_below_transactional_id: Annotated[String, V("0-3")] = ""
    v3_and_below_producer_id: Annotated[Int64, V("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[Int16, V("0-3")] = 0
    v3_and_below_topics: Annotated[Sequence[AddPartitionsToTxnTopic], V("0-3")] = ()


class AddPartitionsToTxnPartitionResult(Struct):
    """The result for one partition."""

    partition_index: Int32
    partition_error_code: Int16


class AddPartitionsToTxnTopicResult(Struct):
    """The result for one topic."""

    name: String
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    """The result for one transaction."""

    transactional_id: String
    topic_results: Sequence[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Response, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    """The results for the partitions."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("4+")] = 0
    results_by_transaction: Annotated[Sequence[AddPartitionsToTxnResult], V("4+")] = ()
    results_by_topic_v3_and_below: Annotated[Sequence[AddPartitionsToTxnTopicResult], V("0-3")] = ()
