"""ControlledShutdown: a broker that is about to stop asks the controller to move its leaderships away.

0   the first form; its header has no client id
1   the usual header
2   broker epoch
3   flexible

Only ZooKeeper-mode brokers send it; Kafka 3.9 is their last release.
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Int16, Int32, Int64, String


class ControlledShutdownRequest(Request, api_key=ApiKey.CONTROLLED_SHUTDOWN, versions="0-3", flexible="3+"):
    """Move my leaderships to other brokers."""

    broker_id: Int32
    broker_epoch: Annotated[Int64, V("2+")] = -1


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: String
    partition_index: Int32


class ControlledShutdownResponse(Response, api_key=ApiKey.CONTROLLED_SHUTDOWN, versions="0-3", flexible="3+"):
    """The partitions that the broker still leads; it asks again until there are none."""

    error_code: Int16
    remaining_partitions: Sequence[RemainingPartition]
