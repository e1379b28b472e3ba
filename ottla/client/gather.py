"""Several calls at the same time.

Counterpart in Kafka: KafkaFuture.allOf.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import trio

T = TypeVar("T")


async def gather(calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Return the results in the order of the calls. The first error cancels all calls and is raised ungrouped."""
    results: dict[int, T] = {}
    failed: list[Exception] = []

    async def run(at: int, call: Callable[[], Awaitable[T]]) -> None:
        try:
            results[at] = await call()
        except Exception as error:
            failed.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for at, call in enumerate(calls):
            nursery.start_soon(run, at, call)
    if failed:
        raise failed[0]
    return [results[at] for at in sorted(results)]
