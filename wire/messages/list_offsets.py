"""ListOffsets: the offset of a timestamp, or of the start or end of a log.

0   up to max_num_offsets segment starts for each partition
1   one offset for each partition, with its timestamp
2   isolation level; throttle time
3   the client waits out the throttle time itself
4   leader epochs
5   may answer OFFSET_NOT_AVAILABLE
6   flexible
7   timestamp -3: the record with the largest timestamp
8   timestamp -4: the start of the local log
9   timestamp -5: the last offset in tiered storage
10  a timeout, for answers from tiered storage
11  timestamp -6: the first offset not yet in tiered storage
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int8, Int16, Int32, Int64, String


class ListOffsetsPartition(Struct):
    """A partition; `timestamp` -1 asks for its end, -2 for its start."""

    partition_index: Int32
    current_leader_epoch: Annotated[Int32, V("4+")] = -1
    timestamp: Int64
    max_num_offsets: Annotated[Int32, V("0")] = 1


class ListOffsetsTopic(Struct):
    """A topic to look up offsets in."""

    name: String
    partitions: Sequence[ListOffsetsPartition]


class ListOffsetsRequest(Request, api_key=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    """Look up offsets; `replica_id` is -1 for a client."""

    replica_id: Int32
    isolation_level: Annotated[Int8, V("2+")] = 0
    topics: Sequence[ListOffsetsTopic]
    timeout_ms: Annotated[Int32, V("10+")] = 0


class ListOffsetsPartitionResponse(Struct):
    """The offset found in one partition, -1 if there is none."""

    partition_index: Int32
    error_code: Int16
    old_style_offsets: Annotated[Sequence[Int64], V("0")] = ()
    timestamp: Annotated[Int64, V("1+")] = -1
    offset: Annotated[Int64, V("1+")] = -1
    leader_epoch: Annotated[Int32, V("4+")] = -1


class ListOffsetsTopicResponse(Struct):
    """The offsets found in one topic."""

    name: String
    partitions: Sequence[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Response, api_key=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    """The offsets found."""

    throttle_time_ms: Annotated[Int32, V("2+")] = 0
    topics: Sequence[ListOffsetsTopicResponse]
