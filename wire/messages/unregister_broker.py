"""UnregisterBroker: make the cluster forget a broker that is gone for good.

0   the first form
"""

from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, V
from ottla.wire.types import Int16, Int32, String


class UnregisterBrokerRequest(Request, api_key=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"):
    """Unregister a broker."""

    broker_id: Int32


class UnregisterBrokerResponse(Response, api_key=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"):
    """Whether the broker is unregistered."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
