"""What clients ask and are answered, a line for each request: for an operator who asks for that.

Owns what of a message is told: the sizes of bytes and records instead of what they hold, and no values of changed
configs, which may be secrets. Must not know any API. Counterparts in Kafka: the request logger of RequestChannel,
RequestConvertToJson.

Whether requests are logged is decided when the handlers are bound: nothing is asked of a request where they are not.
"""

import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import ArrayOf, Message, Struct, StructOf, WireType, fields
from ottla.wire.uuids import uuid_text

logger = logging.getLogger("kafka.request.logger")

_KEEPS_VALUES_SECRET: Final = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)

Handler = Callable[[Any, Any], Any]


def logged(key: ApiKey, handler: Handler, clock: Callable[[], float] = time.perf_counter) -> Handler:
    """The handler, which logs its requests if their logger is at DEBUG now."""
    if not logger.isEnabledFor(logging.DEBUG):
        return handler

    def handle(request: Message, context: RequestContext) -> Any:
        started = clock()
        # Now, as what waits for its reply must not keep the buffer that its request lies in.
        asked = describe(request, context.api_version, key)

        def tell(answer: object, local_ms: float) -> None:
            _tell(key, context, asked, answer, local_ms, (clock() - started) * 1000)

        try:
            response = handler(request, context)
        except Exception as error:
            tell(repr(error), (clock() - started) * 1000)
            raise
        local_ms = (clock() - started) * 1000
        if not isinstance(response, Deferred):
            tell(_answer(response, context, key), local_ms)
            return response
        # A deferred tells one waiter, and that is the connection: this one stands between them.
        outer: Deferred[Any] = Deferred(response.applied, response.abandon)

        def complete(answer: Any) -> None:
            tell(_answer(answer, context, key), local_ms)
            outer.complete(answer)

        def close(reason: CloseConnection) -> None:
            tell(repr(reason), local_ms)
            outer.close(reason)

        response.then(complete, close)
        return outer

    return handle


def _answer(response: Message | None, context: RequestContext, key: ApiKey) -> object:
    return None if response is None else describe(response, context.api_version, key)


def _tell(
    key: ApiKey, context: RequestContext, asked: object, answer: object, local_ms: float, total_ms: float
) -> None:
    completed = {
        "requestHeader": {
            "requestApiKey": context.api_key,
            "requestApiVersion": context.api_version,
            "clientId": context.client_id,
            "requestApiKeyName": key.name,
        },
        "request": asked,
        "response": answer,
        "connection": context.connection_id,
        "totalTimeMs": round(total_ms, 3),
        "localTimeMs": round(local_ms, 3),
        "remoteTimeMs": round(total_ms - local_ms, 3),
        "principal": context.principal,
        "listener": context.listener_name,
    }
    logger.debug("Completed request:%s", json.dumps(completed))


def describe(message: Struct, version: int, key: ApiKey) -> dict[str, object]:
    """The fields of a message that `version` has, by Kafka's names."""
    found: dict[str, object] = {}
    for field in fields(type(message)):
        if version in field.versions:
            name = field.kafka_name[0].lower() + field.kafka_name[1:]
            value = getattr(message, field.name)
            if isinstance(field.type, ArrayOf | StructOf) or field.type.kafka_name == "uuid" or not _has_size(value):
                hidden = name == "value" and key in _KEEPS_VALUES_SECRET
                found[name] = "[hidden]" if hidden else _describe(value, field.type, version, key)
            else:
                found[f"{name}SizeInBytes"] = len(value)
    return found


def _has_size(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str)


def _describe(value: Any, wire_type: WireType, version: int, key: ApiKey) -> object:
    if value is None:
        return None
    if isinstance(wire_type, ArrayOf):
        return [_describe(each, wire_type.element, version, key) for each in value]
    if isinstance(wire_type, StructOf):
        return describe(value, version, key)
    if wire_type.kafka_name == "uuid":
        return uuid_text(value)
    return len(value) if _has_size(value) else value
