"""DescribeTransactions: the state of transactions.

0   the first form
"""

from collections.abc import Sequence

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct
from ottla.wire.types import Int16, Int32, Int64, String


class DescribeTransactionsRequest(Request, api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    """Describe transactions."""

    transactional_ids: Sequence[String]


class TopicData(Struct):
    """The partitions of one topic in the transaction; while it ends, the partitions without a marker."""

    topic: String
    partitions: Sequence[Int32]


class TransactionState(Struct):
    """A transactional id, its producer, and where its transaction stands."""

    error_code: Int16
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: Sequence[TopicData]


class DescribeTransactionsResponse(Response, api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    """The transactions."""

    throttle_time_ms: Int32 = 0
    transaction_states: Sequence[TransactionState]
