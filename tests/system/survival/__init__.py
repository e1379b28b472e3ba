"""Faults of brokers while clients work, and the checks after them.

A load is clients at work, with their acknowledgements (`loads`). A fault breaks brokers (`faults`). `survive` runs a
load with a fault; the table of `test_survival` names the pairs.
"""

import random
import time
from typing import Protocol, Self


class Load(Protocol):
    """Clients that work during a `with` block."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def wait_until_at_work(self) -> None:
        """Wait until each client has a new acknowledgement."""

    def remember(self) -> None:
        """Remember all acknowledgements before the fault."""

    def check_now(self) -> None:
        """Check that the remembered records are still there, and that the work goes on."""

    def check(self) -> str:
        """Check after the work that all acknowledged records are there once; return how many, in words."""


class Fault:
    """A fault of brokers. By default a step does nothing."""

    between_s = (0.0, 0.5)
    """The least and the most seconds before the strike."""

    def prepare(self) -> None:
        """Choose the broker to break."""

    def strike(self) -> None:
        """Break the broker."""
        raise NotImplementedError

    def recover(self) -> None:
        """Do the steps without which the work cannot go on."""

    def mend(self) -> None:
        """Do the remaining steps, after the work goes on."""

    def settle(self) -> None:
        """Wait, after the last trial, for the initial state."""

    def check(self) -> str:
        """Stop the brokers and check their files; return the counts of faults, in words."""
        raise NotImplementedError


def survive(load: Load, fault: Fault, trials: int, chance: random.Random) -> list[float]:
    """Run the fault `trials` times under the load; return the seconds from each strike until the work went on."""
    took = []
    with load:
        load.wait_until_at_work()
        for _ in range(trials):
            fault.prepare()
            # The moment is random, so that the strike interrupts different work.
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
