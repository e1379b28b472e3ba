"""DeleteRecords: delete all records before an offset.

0   the first form
1   the client waits out the throttle time itself
2   flexible
"""

from collections.abc import Sequence

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct
from ottla.wire.types import Int16, Int32, Int64, String


class DeleteRecordsPartition(Struct):
    """A partition, and the first offset to keep in it: -1 for the high watermark."""

    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: Sequence[DeleteRecordsPartition]


class DeleteRecordsRequest(Request, api_key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    """Delete records; waits up to `timeout_ms` for all replicas."""

    topics: Sequence[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    """The lowest log start offset among the replicas of one partition."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16


class DeleteRecordsTopicResult(Struct):
    """The result for one topic."""

    name: String
    partitions: Sequence[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Response, api_key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    """The results for the partitions."""

    throttle_time_ms: Int32 = 0
    topics: Sequence[DeleteRecordsTopicResult]
