"""WriteTxnMarkers: a transaction coordinator sends the leaders of partitions the ends of transactions.

0   the first form
1   flexible
2   the version of the transaction protocol
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int8, Int16, Int32, Int64, String


class WritableTxnMarkerTopic(Struct):
    """The partitions of one topic to mark."""

    name: String
    partition_indexes: Sequence[Int32]


class WritableTxnMarker(Struct):
    """The end of one transaction; `transaction_result` is true for a commit."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: Sequence[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, V("2+")] = 0


class WriteTxnMarkersRequest(Request, api_key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"):
    """Append markers."""

    markers: Sequence[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    """The result of the marker in one partition."""

    partition_index: Int32
    error_code: Int16


class WritableTxnMarkerTopicResult(Struct):
    """The result of the marker in one topic."""

    name: String
    partitions: Sequence[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    """The results for the markers of one producer."""

    producer_id: Int64
    topics: Sequence[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Response, api_key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"):
    """The results for the markers."""

    markers: Sequence[WritableTxnMarkerResult]
