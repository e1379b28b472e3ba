"""Brokers that break while clients work, and what must be true of them then.

A load is clients at work, and what they were told (`loads`). A fault is brokers, and what happens to them (`faults`).
`survive` brings a load and a fault together; the table of `test_survival` names the pairs.
"""

import random
import time
from typing import Protocol, Self


class Load(Protocol):
    """Clients that work for as long as the block lasts."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def wait_until_at_work(self) -> None:
        """Return when each of them has been acknowledged something more."""

    def remember(self) -> None:
        """Keep what was acknowledged before the brokers broke."""

    def check_now(self) -> None:
        """What was kept is still there, and the work goes on."""

    def check(self) -> str:
        """After the work: all that was acknowledged is there, once; return how much that is."""


class Fault:
    """Brokers, and what happens to them. By default a step does nothing."""

    between_s = (0.0, 0.5)
    """How long the work goes on before they break: from, to."""

    def prepare(self) -> None:
        """Choose what is to break."""

    def strike(self) -> None:
        """Break it."""
        raise NotImplementedError

    def recover(self) -> None:
        """Do what the work cannot go on without."""

    def mend(self) -> None:
        """Do what is left to do, once the work goes on."""

    def settle(self) -> None:
        """Wait, after the last time, until all is as it was at first."""

    def check(self) -> str:
        """Stop the brokers, and look at what they leave behind; return how often what has happened."""
        raise NotImplementedError


def survive(load: Load, fault: Fault, trials: int, chance: random.Random) -> list[float]:
    """Run the fault `trials` times under the load; return the seconds from each strike until the work went on."""
    took = []
    with load:
        load.wait_until_at_work()
        for _ in range(trials):
            fault.prepare()
            # The moment is a matter of chance; whatever is under way then is interrupted.
            time.sleep(chance.uniform(*fault.between_s))
            began = time.monotonic()
            fault.strike()
            load.remember()
            fault.recover()
            load.check_now()
            took.append(time.monotonic() - began)
            fault.mend()
            load.wait_until_at_work()
        fault.settle()
    return took
