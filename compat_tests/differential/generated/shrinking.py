"""A simple search for a shorter sequence of requests with the same failure."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from compat_tests.differential.generated.generator import Step
from compat_tests.differential.generated.session import Failure

MOST_REPLAYS: Final = 100
MOST_SECONDS: Final = 120.0


class Shrinker:
    """Removes requests, then elements of their arrays, while the same failure comes."""

    def __init__(
        self,
        replay: Callable[[Sequence[Step]], Failure | None],
        failure: Failure,
        most_replays: int = MOST_REPLAYS,
    ) -> None:
        self._replay = replay
        self._best = failure
        self._left = most_replays
        self._deadline = time.monotonic() + MOST_SECONDS

    def shrink(self) -> Failure:
        """Return the failure of the shortest sequence found within the limits of replays and time."""
        self._drop_requests()
        self._drop_elements()
        return self._best

    def _may_go_on(self) -> bool:
        return self._left > 0 and time.monotonic() < self._deadline

    def _fails(self, steps: Sequence[Step]) -> bool:
        self._left -= 1
        found = self._replay(steps)
        if found is None or found.kind != self._best.kind:
            return False
        self._best = found._replace(number=self._best.number)
        return True

    def _drop_requests(self) -> None:
        size = max(1, len(self._best.steps) // 2)
        while size and self._may_go_on():
            # From the end, because requests that later ones need come before these.
            end = len(self._best.steps) - 1
            while end > 0 and self._may_go_on():
                steps = self._best.steps
                start = max(0, end - size)
                self._fails([*steps[:start], *steps[end:]])
                end = min(start, len(self._best.steps) - 1)
            size //= 2

    def _drop_elements(self) -> None:
        at = len(self._best.steps) - 1
        while at >= 0 and self._may_go_on():
            steps = self._best.steps
            smaller = (steps[at]._replace(fields=each) for each in smaller_values(steps[at].fields))
            if not any(self._may_go_on() and self._fails([*steps[:at], each, *steps[at + 1 :]]) for each in smaller):
                at -= 1


def smaller_values(value: Any) -> Iterator[Any]:
    """Yield a value with one element less in one of its arrays, for each element."""
    if isinstance(value, dict):
        for key, each in value.items():
            for smaller in smaller_values(each):
                yield {**value, key: smaller}
    elif isinstance(value, list):
        if len(value) > 1:
            yield from ([*value[:index], *value[index + 1 :]] for index in range(len(value)))
        for index, each in enumerate(value):
            for smaller in smaller_values(each):
                yield [*value[:index], smaller, *value[index + 1 :]]
