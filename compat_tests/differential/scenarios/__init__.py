"""The scenarios: requests of one API each, run in every version that both brokers advertise."""

from collections.abc import Callable
from typing import NamedTuple

from compat_tests.differential.both import TEXT, Both, Deviation, Text

UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"

# Reasons of allowed differences.
ZOOKEEPER = "Ottla answers as Kafka 3.9 does with ZooKeeper; 4.3.1 knows only KRaft"
WORDS = "the words of Kafka 3.9 with ZooKeeper; KRaft has others"


class Scenario(NamedTuple):
    """Requests of one API, and the deviations of their answers."""

    api: str
    run: Callable[[Both], None]
    deviations: tuple[Deviation, ...]


def words(*starts: str) -> tuple[Deviation, ...]:
    """Return the deviations of error messages that begin so in Ottla and have other words in Kafka."""
    return tuple(Deviation(r"error_message", Text(start), TEXT, WORDS) for start in starts)


SCENARIOS: list[Scenario] = []
GROUP_SCENARIOS: list[Scenario] = []


def scenario(
    api: str, *deviations: Deviation, among: list[Scenario] = SCENARIOS
) -> Callable[[Callable[[Both], None]], Callable[[Both], None]]:
    """Register a function to run in every version of an API."""

    def register(run: Callable[[Both], None]) -> Callable[[Both], None]:
        among.append(Scenario(api, run, deviations))
        return run

    return register
