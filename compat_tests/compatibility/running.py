"""Running all trials: one broker after the other, and on each broker some clients side by side.

A failed trial runs once more after all others, because a busy machine may have delayed its client.
"""

import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from compat_tests.compatibility.catalogue import Section
from compat_tests.compatibility.clients import Client
from compat_tests.compatibility.drivers import Driver
from compat_tests.compatibility.features.declaring import Feature
from compat_tests.compatibility.observing import Observer
from compat_tests.compatibility.settings import Place, broker_with
from compat_tests.compatibility.trials import FAILED, Outcome, Trial, outcome
from compat_tests.support.brokers import Broker, Ottla

Found = dict[tuple[Client, Feature], Outcome]

# Clients mostly wait.
AT_ONCE = 2 * len(os.sched_getaffinity(0))


class Result(NamedTuple):
    """The outcome of one trial."""

    feature: str
    client: str
    broker: str
    kind: str
    why: str


def run_setting(sections: Sequence[Section], kind: type[Broker], setting: str) -> list[Result]:
    """Return the results of the trials with a broker of this setting."""
    rows: dict[Client, list[Feature]] = {}
    for section in sections:
        for client in section.clients:
            rows.setdefault(client, []).extend(each for each in section.features if each.setting == setting)
    if not any(rows.values()):
        return []
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(broker_with(kind, setting))
        except RuntimeError as error:
            why = " ".join(str(error).strip().splitlines()[-1:])
            found = {(client, each): Outcome(FAILED, why) for client, features in rows.items() for each in features}
        else:
            # Not for an unsupported feature, because it would fail again.
            found = _run_on(place, rows, lambda feature: kind is not Ottla or not feature.unsupported)
    return [Result(feature.name, str(client), kind.name, *each) for (client, feature), each in found.items()]


def _run_on(place: Place, rows: dict[Client, list[Feature]], may_pass_later: Callable[[Feature], bool]) -> Found:
    observer = Observer(place.bootstrap)

    def run(client: Client, features: Sequence[Feature]) -> Found:
        with Driver(client.start) as driver:
            return {
                (client, each): outcome(each.scenario, Trial(driver, place, observer, client.version))
                for each in features
            }

    found: Found = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        # In reverse, because the slowest clients are the last ones of the page.
        for each in pool.map(run, reversed(rows.keys()), reversed(rows.values())):
            found |= each
    for client, features in rows.items():
        if failed := [each for each in features if found[client, each].kind == FAILED and may_pass_later(each)]:
            found |= run(client, failed)
    return found
