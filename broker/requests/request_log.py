"""The request log: a line for each request with its response, if the request logger is at DEBUG.

Owns the form of a message in the log: bytes and records are their sizes, and the values of changed configs are hidden,
because they may be secrets. Must not know any API. The level is checked once, when handlers are bound, so that without
the log a request costs nothing more.
Counterparts in Kafka: the request logger of RequestChannel, RequestConvertToJson.
"""

import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.table import Handler
from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import ArrayOf, Message, Struct, StructOf, WireType, fields
from ottla.wire.uuids import uuid_text

logger = logging.getLogger("kafka.request.logger")

_WITH_SECRET_VALUES: Final = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)


def logged(key: ApiKey, handler: Handler, clock: Callable[[], float] = time.perf_counter) -> Handler:
    """Return a handler that logs its requests; the handler itself, if the request logger is not at DEBUG."""
    if not logger.isEnabledFor(logging.DEBUG):
        return handler

    def handle(request: Message, context: RequestContext) -> Any:
        started = clock()
        # Described now, because a request that waits for its reply must not keep the receive buffer.
        asked = describe(request, context.api_version, key)

        def log(answer: object, local_ms: float) -> None:
            _log(key, context, asked, answer, local_ms, (clock() - started) * 1000)

        try:
            response = handler(request, context)
        except Exception as error:
            log(repr(error), (clock() - started) * 1000)
            raise
        local_ms = (clock() - started) * 1000
        if not isinstance(response, Deferred):
            log(_answer(response, context, key), local_ms)
            return response
        # A second Deferred, because one Deferred calls one waiter, and that is the connection.
        outer: Deferred[Any] = Deferred(response.applied, response.abandon)

        def complete(answer: Any) -> None:
            log(_answer(answer, context, key), local_ms)
            outer.complete(answer)

        def close(reason: CloseConnection) -> None:
            log(repr(reason), local_ms)
            outer.close(reason)

        response.then(complete, close)
        return outer

    return handle


def _answer(response: Message | None, context: RequestContext, key: ApiKey) -> object:
    return None if response is None else describe(response, context.api_version, key)


def _log(key: ApiKey, context: RequestContext, asked: object, answer: object, local_ms: float, total_ms: float) -> None:
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
    """Return the fields that a message has in `version`, by Kafka's names."""
    found: dict[str, object] = {}
    for field in fields(type(message)):
        if version in field.versions:
            name = field.kafka_name[0].lower() + field.kafka_name[1:]
            value = getattr(message, field.name)
            if isinstance(field.type, ArrayOf | StructOf) or field.type.kafka_name == "uuid" or not _has_size(value):
                hidden = name == "value" and key in _WITH_SECRET_VALUES
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
