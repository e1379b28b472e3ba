"""AllocateProducerIds: a broker asks the controller for a block of producer ids.

0   the first form
"""

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response
from ottla.wire.types import Int16, Int32, Int64


class AllocateProducerIdsRequest(Request, api_key=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+"):
    """Get a block of producer ids."""

    broker_id: Int32
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Response, api_key=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+"):
    """The block of producer ids."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id_start: Int64
    producer_id_len: Int32
