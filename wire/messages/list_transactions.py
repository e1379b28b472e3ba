"""ListTransactions: the transactions that a broker coordinates.

0   the first form
1   filter by duration
2   filter by a pattern of transactional ids; may answer INVALID_REGULAR_EXPRESSION
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, Int64, String


class ListTransactionsRequest(Request, api_key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    """List transactions; an empty, null or negative filter lets all pass."""

    state_filters: Sequence[String]
    producer_id_filters: Sequence[Int64]
    duration_filter: Annotated[Int64, V("1+")] = -1
    transactional_id_pattern: Annotated[String | None, V("2+", nullable="2+")] = None


class TransactionState(Struct):
    """A transactional id, its producer, and where its transaction stands."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


class ListTransactionsResponse(Response, api_key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    """The transactions, and the state filters that name no state."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: Sequence[String]
    transaction_states: Sequence[TransactionState]
