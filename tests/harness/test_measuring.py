"""Seconds are asserted only with `--measure`."""

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

SOURCE = """
    import pytest

    @pytest.mark.measured
    def test_of_seconds(at_most):
        at_most(2.0, 1.0)

    def test_of_more_than_seconds(at_most):
        at_most(2.0, 1.0)

    def test_of_others(): pass
"""


def test_seconds_are_asserted_only_with_measure(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(SOURCE)
    pytester.makeini("[pytest]\nmarkers =\n    measured\n")
    options = ("-p", "tests.harness.measuring")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=2, deselected=1)
    pytester.runpytest_subprocess(*options, "--measure").assert_outcomes(failed=2, deselected=1)
