"""DescribeLogDirs: the log directories of a broker and the replicas in them.

0   the first form
1   the client waits out the throttle time itself
2   flexible
3   an error code for the whole response
4   total and usable bytes of the volume
5   whether a directory is cordoned: takes no new replicas
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int16, Int32, Int64, String


class DescribableLogDirTopic(Struct):
    """The partitions of one topic."""

    topic: String
    partitions: Sequence[Int32]


class DescribeLogDirsRequest(Request, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+"):
    """Describe log directories; `topics` is null for all topics."""

    topics: Annotated[Sequence[DescribableLogDirTopic] | None, V(nullable="0+")]


class DescribeLogDirsPartition(Struct):
    """A replica in the directory; a future one is on its way in from another, and still `offset_lag` behind."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct):
    """The replicas of one topic."""

    name: String
    partitions: Sequence[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    """One log directory; bytes are -1 where they are not known."""

    error_code: Int16
    log_dir: String
    topics: Sequence[DescribeLogDirsTopic]
    total_bytes: Annotated[Int64, V("4+")] = -1
    usable_bytes: Annotated[Int64, V("4+")] = -1
    is_cordoned: Annotated[Bool, V("5+")] = False


class DescribeLogDirsResponse(Response, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+"):
    """The log directories."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("3+")] = 0
    results: Sequence[DescribeLogDirsResult]
