"""Requests about many groups at once: each coordinator is asked once, and all are asked at the same time.

Counterpart in Kafka: CoordinatorStrategy.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ottla.client.cluster import ASK_ELSEWHERE, GROUP, Client, Coordinator, Target
from ottla.client.errors import ConnectionFailedError
from ottla.client.gather import gather
from ottla.wire.errors import KafkaError

T = TypeVar("T")
Exchange = Callable[[Target, Sequence[str]], Awaitable[Mapping[str, T | KafkaError]]]


async def ask_coordinators(client: Client, groups: Iterable[str], exchange: Exchange[T]) -> dict[str, T | KafkaError]:
    """Return a result for each group. `exchange(target, groups)` asks one broker.

    A group whose coordinator moved is asked for alone, because then the client looks for the new one.
    """
    wanted = list(dict.fromkeys(groups))
    results: dict[str, T | KafkaError] = {}

    async def ask(target: Target, mine: Sequence[str]) -> None:
        try:
            results.update(await exchange(target, mine))
        except KafkaError as error:
            results.update(dict.fromkeys(mine, error))

    async def ask_broker(broker_id: int, mine: Sequence[str]) -> None:
        try:
            await ask(broker_id, mine)
        except ConnectionFailedError:
            return  # the next coordinator of these groups is asked below

    if len(wanted) == 1:
        await ask(Coordinator(GROUP, wanted[0]), wanted)
        return results
    found = await _coordinators(client, wanted, results)
    await gather(partial(ask_broker, broker_id, mine) for broker_id, mine in found.items())
    for group in wanted:
        if group not in results or _has_moved(results[group]):
            await ask(Coordinator(GROUP, group), [group])
    return {group: results[group] for group in wanted}


async def _coordinators(
    client: Client, groups: Sequence[str], refusals: dict[str, T | KafkaError]
) -> dict[int, list[str]]:
    """Return the coordinators; a group that has none, or that the client may not see, gets its refusal instead."""
    try:
        return await client.find_coordinators(GROUP, groups)
    except KafkaError:
        found: dict[int, list[str]] = {}
    for group in groups:
        try:
            for broker_id, mine in (await client.find_coordinators(GROUP, [group])).items():
                found.setdefault(broker_id, []).extend(mine)
        except KafkaError as error:
            refusals[group] = error
    return found


def _has_moved(result: object) -> bool:
    return isinstance(result, KafkaError) and result.code in ASK_ELSEWHERE
