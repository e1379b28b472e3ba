"""How often tests repeat themselves. Each case is a run of pytest of its own."""

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

REPEATED = """
    import pytest

    @pytest.mark.trials(few=3, soak=50)
    def test_it(trials):
        print("repeated", trials, "times")

    def test_what_repeats_nothing():
        print("ran once")
"""


@pytest.fixture(autouse=True)
def _without_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    pytester.makeini("[pytest]\nmarkers =\n    trials\n")
    return pytester.runpytest_subprocess("-p", "tests.harness.repetition", "-s", *arguments)


@pytest.mark.parametrize(
    ("options", "times", "others"),
    [((), 3, True), (("--soak",), 50, False), (("--trials", "7"), 7, True), (("--soak", "--trials", "8"), 8, False)],
    ids=["few", "soak", "given", "given in a soak"],
)
def test_a_test_repeats_as_often_as_its_marker_or_the_command_line_says(
    pytester: pytest.Pytester, options: tuple[str, ...], times: int, others: bool
) -> None:
    done = run(pytester, REPEATED, *options)
    done.assert_outcomes(passed=1 + others, deselected=not others)
    done.stdout.fnmatch_lines([f"*repeated {times} times*"])
    assert ("ran once" in done.stdout.str()) is others


@pytest.mark.parametrize(
    "source",
    [
        "def test_it(trials): pass",
        "import pytest\n@pytest.mark.trials(few=1, soak=2)\ndef test_it(): pass",
        "import pytest\n@pytest.mark.trials(few=1)\ndef test_it(trials): pass",
        "import pytest\n@pytest.mark.trials(1, 2)\ndef test_it(trials): pass",
    ],
    ids=["no counts", "no use of them", "no soak", "nameless"],
)
def test_counts_that_are_missing_or_unused_are_refused(pytester: pytest.Pytester, source: str) -> None:
    done = run(pytester, source)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*test_it*trials*few*soak*"])


def test_hypothesis_runs_more_examples_in_a_soak(pytester: pytest.Pytester) -> None:
    source = """
        from hypothesis import given, strategies, settings

        @given(strategies.integers())
        def test_it(number):
            print(settings().max_examples, "examples")
    """
    for options, examples in (((), 50), (("--soak",), 250), (("--trials", "2"), 10)):
        done = run(pytester, source, *options)
        done.assert_outcomes(passed=1)
        done.stdout.fnmatch_lines([f"*{examples} examples"])
