"""The steps that all handlers of consumer groups share: asking the coordinator, and sorting out unknown partitions.

Owns the way from a request to a reply that may come later. Must not know any request.
Counterpart in Kafka: the parts that the group handlers of KafkaApis share.
"""

import copy
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address
from typing import Any, TypeVar

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.loop.deferred import Deferred
from ottla.broker.net.session import RequestContext
from ottla.coordinator.effects import Caller

Q = TypeVar("Q")
R = TypeVar("R")


def ask(method: Callable[[Q, Callable[[R], None]], None], request: Q, *, repeatable: bool = False) -> Deferred[R]:
    """Return the reply of the coordinator, which comes now or later."""
    reply: Deferred[R] = Deferred(applied=False, repeatable=repeatable)
    method(request, reply.complete)
    return reply


def caller(context: RequestContext) -> Caller:
    """Return the client of a request as the coordinator knows it."""
    return Caller(context.client_id or "", client_host(context.client_address), context.api_version)


def client_host(address: str) -> str:
    """Return an address as Java writes it, because Kafka describes members so."""
    if ":" not in address:
        return f"/{address}"
    plain, _, scope = address.partition("%")
    groups = ":".join(f"{int(group, 16):x}" for group in IPv6Address(plain).exploded.split(":"))
    return f"/{groups}%{scope}" if scope else f"/{groups}"


def sift(topics: Iterable[Any], metadata: MetadataCache) -> tuple[list[Any], dict[str, list[int]]]:
    """Return the topics with their known partitions, and by topic the numbers of the unknown ones.

    A known topic that is named without partitions is left out.
    """
    known: list[Any] = []
    unknown: dict[str, list[int]] = {}
    for topic in topics:
        there = metadata.partitions(topic.name)
        missing = [each.partition_index for each in topic.partitions if each.partition_index not in there]
        if missing or not there:
            unknown.setdefault(topic.name, []).extend(missing)
        if missing:
            topic = copy.copy(topic)
            topic.partitions = [each for each in topic.partitions if each.partition_index in there]
        if topic.partitions:
            known.append(topic)
    return known, unknown


def with_refused(refused: dict[str, Any], response: R) -> R:
    """Return the coordinator's response with the refused partitions of each topic before its others."""
    answered: Any = response
    for topic in answered.topics:
        partly = refused.pop(topic.name, None)
        if partly is not None:
            topic.partitions = [*partly.partitions, *topic.partitions]
    answered.topics = [*refused.values(), *answered.topics]
    return response
