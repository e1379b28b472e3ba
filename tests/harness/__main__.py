"""`make test`: every test. `make steady`: the same three times, with a busy process on each core."""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.harness.whole_run import Outcome, Part, run_whole

BUILD = Path("build")
CORES = len(os.sched_getaffinity(0))
# Slow tests mostly wait for sessions, rebalances and JVMs. Each may start JVMs of 1 GB.
AT_ONCE = min(2 * CORES, 8)
# Container images often disable bytecode files. Then each of a thousand processes would compile its modules, and each
# worker of pytest would rewrite the assertions of all tests.
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
ROUNDS = 3
MOST_UNSTEADY_IN_ALL_ROUNDS = 2


def parts(seed: int) -> list[Part]:
    """Return two parts: fast tests in plain Python; then slow tests, and fast tests of compiled modules, compiled."""
    options = ("--dist=loadfile", f"--seed={seed}")
    return [
        Part("plain", ("-n", str(CORES), *options, "-m", "not slow", "tests"), {"OTTLA_PLAIN": "1", **BYTECODE}),
        Part("compiled", ("-n", str(AT_ONCE), *options, "--where-compiled"), BYTECODE),
    ]


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Run a process on each core that computes until the block ends."""
    with contextlib.ExitStack() as stack:
        for _ in range(CORES):
            # Its pipe ends with this process, however that ends.
            command = [sys.executable, "-c", "import select, sys\nwhile not select.select([0], [], [], 0)[0]: pass"]
            process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE))
            stack.callback(process.kill)
        yield


def main() -> int:
    """Run all tests, once or several times; return 0 if no run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness", description=__doc__)
    parser.add_argument("--steady", action="store_true", help=f"{ROUNDS} times, on a busy machine")
    parser.add_argument("--seed", type=int, help="the seed of all random input (default: a fresh one, printed)")
    arguments = parser.parse_args()
    # A background process ignores Ctrl-C, and so would all processes that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    if not arguments.steady:
        return 0 if run_whole(parts(seed), BUILD).is_good else 1
    with busy_cores():
        outcomes = [run_whole(parts(seed + number), BUILD) for number in range(ROUNDS)]
    return 0 if is_steady(outcomes) else 1


def is_steady(outcomes: list[Outcome]) -> bool:
    """Print the outcomes of several runs; return whether none failed and few tests were unsteady."""
    unsteady = sum(len(each.unsteady) for each in outcomes)
    failed = sum(len(each.failed) for each in outcomes) + (unsteady if unsteady > MOST_UNSTEADY_IN_ALL_ROUNDS else 0)
    for number, each in enumerate(outcomes, 1):
        print(f"run {number}: {each.passed} passed, {len(each.failed)} failed, {len(each.unsteady)} unsteady")
    print(f"{unsteady} unsteady in {len(outcomes)} runs, of which there may be {MOST_UNSTEADY_IN_ALL_ROUNDS}")
    print(f"{sum(each.passed for each in outcomes)} passed, {failed} failed", flush=True)
    return all(each.is_good for each in outcomes) and not failed


if __name__ == "__main__":
    sys.exit(main())
