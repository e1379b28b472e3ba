"""Several runs of all tests, and the busy machine they run on."""

import os
from pathlib import Path

import pytest

from tests.harness.__main__ import CORES, busy_cores, is_steady
from tests.harness.whole_run import Failure, Outcome

ONE = Failure("all", "test", "at first", "1 passed", True)


@pytest.mark.parametrize(
    ("runs", "steady"),
    [
        ([(), (), ()], True),
        ([(ONE,), (), (ONE,)], True),
        ([(ONE,), (ONE,), (ONE,)], False),
    ],
    ids=["none", "two", "three"],
)
def test_two_unsteady_tests_in_all_runs_are_steady_and_three_are_not(
    runs: list[tuple[Failure, ...]], steady: bool
) -> None:
    assert is_steady([Outcome(10, 0, (), unsteady) for unsteady in runs]) is steady


def test_a_failure_in_any_run_is_not_steady(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = Outcome(10, 0, (), ()), Outcome(9, 0, (ONE,), ())
    assert not is_steady([good, bad, good])
    assert capsys.readouterr().out.splitlines()[-1] == "29 passed, 1 failed"


def test_a_busy_machine_has_a_process_on_each_core_until_the_end_of_the_block() -> None:
    def children() -> set[str]:
        return {each for path in Path("/proc/self/task").glob("*/children") for each in path.read_text().split()}

    before = children()
    with busy_cores():
        busy = children() - before
        assert len(busy) == CORES
        # They compute and never wait.
        used = [Path(f"/proc/{each}/stat") for each in busy]
        while any(sum(map(int, path.read_text().split()[13:15])) < 2 for path in used):
            os.sched_yield()
    assert children() == before
