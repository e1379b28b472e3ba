"""Calls of the admin client about groups, with the exceptions of kafka-consumer-groups.

Counterparts: ConsumerGroupCommand's listConsumerGroups, describeConsumerGroups and getCommittedOffsets.
"""

from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

from ottla.client.admin.groups.committed_offsets import Offsets, committed_offsets
from ottla.client.admin.groups.descriptions import (
    CLASSIC,
    CONSUMER,
    GroupDescription,
    GroupListing,
    describe_groups,
    list_groups,
)
from ottla.client.cluster import Client
from ottla.scripts.kafka.calls import asked
from ottla.scripts.kafka.face import JavaError, as_java, execution, illegal_argument
from ottla.scripts.kafka.flags import Parsed
from ottla.scripts.kafka.groups.offset_resets import as_runtime, runtime
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.wire.errors import KafkaError

T = TypeVar("T")
_PROTOCOL_TYPES: Final = ("", "consumer")


async def call(client: Client, name: str, awaited: Awaitable[T]) -> T:
    """Return the result of a call of the admin client. JavaError, as its future throws it."""
    return await asked(client, name, lambda: awaited, None)


async def waited(client: Client, name: str, awaited: Awaitable[T]) -> T:
    """Return the result of a call whose exception the tool wraps."""
    try:
        return await call(client, name, awaited)
    except JavaError as error:
        raise runtime(error) from None


async def listings(client: Client, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
    """Return the groups of consumers, in the order of a HashMap. An old broker has groups of one type only."""
    found = await list_groups(client, states=states)
    wanted = {each.lower() for each in types or (CLASSIC, CONSUMER)}
    by_id = {
        each.group_id: each
        for each in found
        if each.protocol_type in _PROTOCOL_TYPES and (each.type or CLASSIC).lower() in wanted
    }
    return [by_id[group] for group in by_string_hash(by_id)]


async def group_ids(client: Client, parsed: Parsed) -> list[str]:
    """Return the groups of the command line."""
    if parsed.has("all-groups"):
        return [each.group_id for each in await waited(client, "listGroups", listings(client))]
    return list(parsed.values("group"))


async def described(client: Client, groups: Sequence[str]) -> dict[str, GroupDescription | JavaError]:
    """Return groups in the order of a HashMap."""
    found = await call(client, "describeConsumerGroups", describe_groups(client, groups))
    results: dict[str, GroupDescription | JavaError] = {}
    for group in by_string_hash(found):
        result = found[group]
        if isinstance(result, KafkaError):
            results[group] = execution(as_java(result))
        elif result.protocol_type not in _PROTOCOL_TYPES:
            text = f"GroupId {group} is not a consumer group ({result.protocol_type})."
            results[group] = execution(illegal_argument(text))
        else:
            results[group] = result
    return results


async def all_committed(client: Client, groups: Sequence[str]) -> dict[str, Offsets]:
    """Return the committed offsets of groups."""
    found = await waited(client, "listConsumerGroupOffsets", committed_offsets(client, groups))
    results: dict[str, Offsets] = {}
    for group, result in found.items():
        if isinstance(result, KafkaError):
            raise as_runtime(result)
        results[group] = result
    return results


async def committed_of(client: Client, group: str) -> Offsets:
    """Return the committed offsets of a group."""
    return (await all_committed(client, [group]))[group]
