"""A run of all tests: its parts one after the other, failed tests once more alone, and a line with the counts.

A test that fails, and then passes when it is run alone, is unsteady. The run lists it and does not fail, unless more
than `MOST_UNSTEADY` are. A test of loss, duplicates or order is marked `once` and never run again. The slowest tests
go into `build/slowest.txt`, the groups that take most processor time into `build/heaviest.txt`, and the
seconds of each group into `build/seconds.txt`, in the form of the file `seconds.txt` here.
"""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.harness.results import FAILED, PASSED, SKIPPED, Result, read_results

MOST_UNSTEADY = 3
MOST_RUN_AGAIN = 10
"""Beyond this number failures have one cause, and are not run again."""
SLOWEST = 50
LONG_S = 5.0
PYTEST = (sys.executable, "-m", "pytest")
NO_TESTS_FAILED, TESTS_FAILED = 0, 1


class Part(NamedTuple):
    """One run of pytest, a part of a whole run."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


class Failure(NamedTuple):
    """A test that failed, or a part that broke off, with the output of its second run, if there was one."""

    part: str
    name: str
    output: str
    output_again: str | None = None
    passed_again: bool = False


class Outcome(NamedTuple):
    """The outcome of a whole run."""

    passed: int
    skipped: int
    failed: Sequence[Failure]
    unsteady: Sequence[Failure]

    @property
    def is_good(self) -> bool:
        """Whether no test failed."""
        return not self.failed and self.passed > 0


def run_whole(parts: Iterable[Part], build: Path) -> Outcome:
    """Run all parts, run failed tests again alone, print and return the outcome."""
    build.mkdir(exist_ok=True)
    results: list[Result] = []
    failures: list[Failure] = []
    for part in parts:
        found, broken = _run(part, build / f"results-{part.name}.jsonl")
        results += found
        failures += _again(part, [each for each in found if each.outcome == FAILED], build)
        failures += [Failure(part.name, "the run itself", each) for each in broken]
    outcome = judge(results, failures)
    _write_seconds(results, build)
    report(outcome)
    return outcome


def judge(results: Sequence[Result], failures: Sequence[Failure]) -> Outcome:
    """Return the outcome. Up to `MOST_UNSTEADY` tests that passed the second time do not count as failed."""
    unsteady = [each for each in failures if each.passed_again]
    excused = unsteady if len(unsteady) <= MOST_UNSTEADY else []
    return Outcome(
        sum(each.outcome == PASSED for each in results) + len(excused),
        sum(each.outcome == SKIPPED for each in results),
        [each for each in failures if each not in excused],
        unsteady,
    )


def _again(part: Part, failed: Sequence[Result], build: Path) -> list[Failure]:
    """Run failed tests again alone, unless marked `once`, and unless more than `MOST_RUN_AGAIN` failed."""
    are_few = len(failed) <= MOST_RUN_AGAIN
    return [
        _run_again(part, each, build) if are_few and not each.is_once else Failure(part.name, each.name, each.output)
        for each in failed
    ]


def _run(part: Part, path: Path) -> tuple[list[Result], list[str]]:
    """Run a part; return its results, and a complaint if pytest ended with another exit code than the results."""
    path.unlink(missing_ok=True)
    command = [*PYTEST, *part.arguments, f"--results={path}"]
    print("$", *command[1:], flush=True)
    code = subprocess.run(command, env={**os.environ, **part.environment}).returncode
    results = list(read_results(path))
    some_failed = any(each.outcome == FAILED for each in results)
    if code == (TESTS_FAILED if some_failed else NO_TESTS_FAILED):
        return results, []
    return results, [f"pytest ended with {code}, {len(results)} results"]


def _run_again(part: Part, failed: Result, build: Path) -> Failure:
    path = build / "results-again.jsonl"
    path.unlink(missing_ok=True)
    options = [each for each in part.arguments if each.startswith("--seed")]
    command = [*PYTEST, "-rA", *options, f"--results={path}", failed.name]
    print("once more, alone:", failed.name, flush=True)
    pipe = subprocess.PIPE
    done = subprocess.run(
        command,
        env={**os.environ, **part.environment},
        stdout=pipe,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    has_passed = done.returncode == NO_TESTS_FAILED and [each.outcome for each in read_results(path)] == [PASSED]
    return Failure(part.name, failed.name, failed.output, done.stdout, has_passed)


def _write_seconds(results: Iterable[Result], build: Path) -> None:
    slowest = sorted(results, key=lambda each: -each.seconds)[:SLOWEST]
    lines = [f"{each.seconds:8.2f} {each.cpu_seconds:8.2f} {each.name}" for each in slowest]
    (build / "slowest.txt").write_text("\n".join(lines) + "\n")
    print(f"\nThe {len(lines)} slowest, in seconds, and their processor time:", *lines, sep="\n")
    groups: defaultdict[str, float] = defaultdict(float)
    cpu: defaultdict[str, float] = defaultdict(float)
    for each in results:
        groups[each.group] += each.seconds
        cpu[each.group] += each.cpu_seconds
    heaviest = [f"{each:8.2f} {group}" for group, each in sorted(cpu.items(), key=lambda it: -it[1])[:SLOWEST]]
    (build / "heaviest.txt").write_text("\n".join(heaviest) + "\n")
    longest = [f"{each:.0f} {group}" for group, each in sorted(groups.items(), key=lambda it: -it[1]) if each >= LONG_S]
    (build / "seconds.txt").write_text("\n".join(longest) + "\n")


def report(outcome: Outcome) -> None:
    """Print failed tests with their outputs; the last line counts passed and failed tests."""
    for each in outcome.unsteady:
        _show("UNSTEADY", each)
    for each in outcome.failed:
        if each not in outcome.unsteady:
            _show("FAILED", each)
    print(f"\n{len(outcome.unsteady)} unsteady, {outcome.skipped} skipped")
    for each in outcome.unsteady:
        print(f"UNSTEADY {each.part}: {each.name}: to be mended; until then a line in docs/evidence/unsteady.md")
    if len(outcome.unsteady) > MOST_UNSTEADY:
        print(f"More than {MOST_UNSTEADY} are unsteady: all of these have failed.")
    for each in outcome.failed:
        print(f"FAILED {each.part}: {each.name}")
    if not outcome.passed:
        print("No test has passed.")
    print(f"{outcome.passed} passed, {len(outcome.failed)} failed", flush=True)


def _show(verdict: str, failure: Failure) -> None:
    print(f"\n{'=' * 30} {verdict} {failure.part}: {failure.name}\n{failure.output}")
    if failure.output_again is not None:
        print(f"{'-' * 30} once more, alone: {'passed' if failure.passed_again else 'failed'}\n{failure.output_again}")
