"""The end of a run of all tests: failed tests are run again alone, and the last line counts the outcomes."""

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from tests.harness.results import Result
from tests.harness.whole_run import Failure, Outcome, Part, judge, report, run_whole

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

FAILS_AT_FIRST = """
import pathlib

def at_first(name):
    path = pathlib.Path(name + ".again")
    if not path.exists():
        path.touch()
        print("nobody answered")
        assert False, "at first"

"""
INI = "[pytest]\naddopts = -p xdist -p tests.harness.schedule -p tests.harness.results -p no:cacheprovider\nmarkers =\n"
INI += "    slow\n    spark\n    once\n"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makeini(INI)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    # These processes are started often.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def run(pytester: pytest.Pytester, *options: str) -> Outcome:
    return run_whole([Part("all", options, {})], pytester.path / "build")


def names(failures: Sequence[object]) -> list[str]:
    return [str(getattr(each, "name", each)).partition("::")[2] for each in failures]


@pytest.mark.parametrize("options", [(), ("-n", "2", "--dist=loadfile")], ids=["one process", "two workers"])
def test_a_failed_test_is_run_again_alone_and_listed_if_it_passes(
    project: pytest.Pytester, capfd: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    source = """
        def test_good(): pass
        def test_bad(): assert 0, "always"
        def test_unsteady(): at_first("unsteady")
        def test_skipped():
            import pytest
            pytest.skip("missing")
    """
    project.makepyfile(FAILS_AT_FIRST + dedent(source))
    outcome = run(project, *options)
    said = capfd.readouterr().out
    assert (outcome.passed, outcome.skipped, outcome.is_good) == (2, 1, False)
    assert (names(outcome.failed), names(outcome.unsteady)) == (["test_bad"], ["test_unsteady"])
    assert said.splitlines()[-1] == "2 passed, 1 failed"
    # The output of the failure, and of the second run.
    of_unsteady = said.partition("UNSTEADY all: ")[2].partition("FAILED")[0]
    assert "nobody answered" in of_unsteady
    assert "once more, alone: passed" in of_unsteady
    assert "1 passed in" in of_unsteady


@pytest.mark.parametrize(("unsteady", "last"), [(3, "4 passed, 0 failed"), (4, "1 passed, 4 failed")])
def test_a_run_is_good_with_three_unsteady_tests_and_not_with_four(
    capsys: pytest.CaptureFixture[str], unsteady: int, last: str
) -> None:
    good = Result("good", "file", "passed", 0.0, 0.0, "", False)
    outcome = judge([good], [Failure("all", str(each), "at first", "1 passed", True) for each in range(unsteady)])
    assert outcome.is_good is (unsteady == 3)
    report(outcome)
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_a_test_of_loss_is_never_run_again(project: pytest.Pytester) -> None:
    source = """
        import os, pytest
        @pytest.mark.once
        def test_loss(): at_first("loss")
        @pytest.mark.once
        def test_loss_in_a_worker_that_crashes():
            at_first("other") if pathlib.Path("other.again").exists() else at_exit()
        def at_exit():
            pathlib.Path("other.again").touch()
            os._exit(1)
    """
    project.makepyfile(FAILS_AT_FIRST + dedent(source))
    outcome = run(project, "-n", "2", "--dist=loadfile")
    assert sorted(names(outcome.failed)) == ["test_loss", "test_loss_in_a_worker_that_crashes"]
    assert not outcome.unsteady


def test_a_crashed_worker_fails_one_test_which_is_run_again(project: pytest.Pytester) -> None:
    source = """
        import os
        def test_before(): pass
        def test_crash():
            path = pathlib.Path("crashed")
            if not path.exists():
                path.touch()
                os._exit(1)
        def test_after(): pass
    """
    project.makepyfile(FAILS_AT_FIRST + dedent(source))
    outcome = run(project, "-n", "2", "--dist=loadfile")
    assert (outcome.passed, outcome.is_good, names(outcome.unsteady)) == (3, True, ["test_crash"])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nowhere", "ModuleNotFoundError"),
        ("def test_it():\n    import os\n    os._exit(0)", "pytest ended with 0"),
        ("def test_it(): pass\nimport atexit, os\natexit.register(os._exit, 3)", "pytest ended with 3"),
        ("", "pytest ended with 5"),
    ],
    ids=["a file that cannot be imported", "pytest that vanishes", "an end with another code", "no test"],
)
def test_a_run_that_breaks_off_has_failed(project: pytest.Pytester, source: str, reason: str) -> None:
    project.makepyfile(source)
    outcome = run(project)
    assert not outcome.is_good
    assert any(reason in each.output for each in outcome.failed)


def test_a_chosen_test_that_never_ran_has_failed(project: pytest.Pytester) -> None:
    project.makepyfile("def test_first(): assert 0\ndef test_second(): pass\n")
    outcome = run(project, "-x")
    assert sorted(names(outcome.failed)) == ["test_first", "test_second"]
    assert any(each.output == "it was never run" for each in outcome.failed)


def test_the_slowest_tests_and_the_seconds_of_groups_are_listed(project: pytest.Pytester) -> None:
    project.makepyfile("import time\ndef test_quick(): pass\ndef test_long(): time.sleep(0.2)")
    run(project)
    seconds, _, name = (project.path / "build" / "slowest.txt").read_text().splitlines()[0].split()
    assert name.endswith("::test_long")
    assert float(seconds) >= 0.2


def test_the_processor_time_of_a_test_and_its_children_is_listed(project: pytest.Pytester) -> None:
    project.makepyfile(test_idle="def test(): pass")
    project.makepyfile(
        test_busy="""
            import subprocess, sys
            def test_first(): pass
            def test_child(): subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
        """
    )
    run(project, "-n", "2", "--dist=loadfile")
    (cpu, busiest), *_ = [line.split() for line in (project.path / "build" / "heaviest.txt").read_text().splitlines()]
    assert (busiest, float(cpu) > 0) == ("test_busy.py", True)


def test_the_tests_of_a_process_run_together_and_first_whatever_their_file(project: pytest.Pytester) -> None:
    source = """
        import os, pytest

        @pytest.mark.process("spark")
        def test_with(): record()
        def test_without(): pass
        def record():
            with open("who", "a") as file:
                print(os.getpid(), file=file)
    """
    project.makepyfile(test_a=source, test_b=source, test_c=source)
    project.makepyfile(test_d="import time\ndef test_it(): time.sleep(0.1)")
    outcome = run(project, "-n", "3", "--dist=loadfile")
    assert outcome.passed == 7
    assert len(set((project.path / "who").read_text().split())) == 1
    lines = [json.loads(each) for each in (project.path / "build" / "results-all.jsonl").read_text().splitlines()]
    assert {each["name"].partition("::")[2] for each in lines if each["group"] == "spark"} == {"test_with"}
