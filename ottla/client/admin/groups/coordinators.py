"""Requests about many groups: one request for each coordinator, all at the same time.

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
    """Return a result for each group. `exchange(target, groups)` sends the request to one broker.

    A group whose coordinator moved gets a request of its own, because then the client looks up the new coordinator.
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
            return  # these groups get requests of their own below

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
    """Return groups by coordinator; put the error of a group without a visible one into `refusals`."""
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
