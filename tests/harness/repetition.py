"""Options and fixtures of tests with random input.

A test that repeats itself is marked `@pytest.mark.trials(few=3, soak=50)`, and takes the number from the fixture
`trials`: few, or with `--soak` soak; `--trials N` overrides both. `--soak` leaves out tests without trials.
"""

import random
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest

EXAMPLES = 50
EXAMPLES_IN_A_SOAK = 250
EXAMPLES_A_TRIAL = 5

_findings = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ottla tests")
    group.addoption("--soak", action="store_true", help="run only tests with trials, as often as their soak says")
    group.addoption("--trials", type=int, default=None, help="how often each test with trials repeats itself")
    group.addoption(
        "--seed", type=int, default=None, help="the seed of all random input (default: a fresh one, printed)"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.seed is None:
        # A worker of pytest-xdist takes the seed that the run's header shows.
        config.option.seed = getattr(config, "workerinput", {}).get("seed", random.SystemRandom().randrange(2**32))
    examples = EXAMPLES_IN_A_SOAK if config.option.soak else EXAMPLES
    if config.option.trials is not None:
        examples = EXAMPLES_A_TRIAL * config.option.trials
    # No deadline, because other work slows the machine down.
    hypothesis.settings.register_profile("ottla", deadline=None, max_examples=examples)
    hypothesis.settings.load_profile("ottla")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the seed to a worker of pytest-xdist."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    given = "" if config.option.trials is None else f"--trials {config.option.trials} "
    return f"ottla: {'--soak ' if config.option.soak else ''}{given}--seed {config.option.seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Raise UsageError for tests with trials and no marker, or the reverse; in a soak, keep only tests with trials."""
    for item in items:
        marker = item.get_closest_marker("trials")
        if (marker is not None) != _takes_trials(item):
            raise pytest.UsageError(f"{item.nodeid}: the marker trials(few=, soak=) goes with the fixture of that name")
        if marker is not None and (marker.args or marker.kwargs.keys() != {"few", "soak"}):
            raise pytest.UsageError(f"{item.nodeid}: trials takes few=N and soak=N")
    if config.option.soak:
        repeated = [item for item in items if _takes_trials(item) or _is_of_hypothesis(item)]
        chosen = set(repeated)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = repeated


def _takes_trials(item: pytest.Item) -> bool:
    return "trials" in getattr(item, "fixturenames", ())


def _is_of_hypothesis(item: pytest.Item) -> bool:
    function = getattr(item, "obj", None)
    return bool(hypothesis.is_hypothesis_test(function) or getattr(function, "is_hypothesis_test", False))


@pytest.fixture
def trials(request: pytest.FixtureRequest) -> int:
    """How often a test repeats itself: the number of its marker or of the command line."""
    if request.config.option.trials is not None:
        return int(request.config.option.trials)
    counts = request.node.get_closest_marker("trials").kwargs
    return int(counts["soak" if request.config.option.soak else "few"])


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The seed of all random input; the header shows it, so that a failure can be repeated."""
    return int(pytestconfig.option.seed)


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Print a line at the end of the run."""
    return pytestconfig.stash.setdefault(_findings, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_findings, []):
        terminalreporter.write_line(line)
