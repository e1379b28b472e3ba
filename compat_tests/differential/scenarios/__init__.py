"""What both brokers are asked: requests of one API, run in every version that both advertise."""

from collections.abc import Callable
from typing import NamedTuple

from compat_tests.differential.both import TEXT, Both, Deviation, Text

UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"

# Why answers differ that are meant to.
ZOOKEEPER = "Ottla answers as Kafka 3.9 does with ZooKeeper; 4.3.1 knows only KRaft"
WORDS = "the words of Kafka 3.9 with ZooKeeper; KRaft has others"


class Scenario(NamedTuple):
    """Requests of one API, and the deviations that their answers are known for."""

    api: str
    run: Callable[[Both], None]
    deviations: tuple[Deviation, ...]


def words(*starts: str) -> tuple[Deviation, ...]:
    """Return the deviations of error messages that start so in Ottla, and are about the same in Kafka."""
    return tuple(Deviation(r"error_message", Text(start), TEXT, WORDS) for start in starts)


SCENARIOS: list[Scenario] = []
GROUP_SCENARIOS: list[Scenario] = []


def scenario(
    api: str, *deviations: Deviation, among: list[Scenario] = SCENARIOS
) -> Callable[[Callable[[Both], None]], Callable[[Both], None]]:
    """Have a function run in every version of an API."""

    def register(run: Callable[[Both], None]) -> Callable[[Both], None]:
        among.append(Scenario(api, run, deviations))
        return run

    return register
