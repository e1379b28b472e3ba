"""Options and fixtures that every test may use."""

import random
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest

_findings = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ottla tests")
    group.addoption("--trials", type=int, default=10, help="how often a test with random input repeats itself")
    group.addoption(
        "--seed", type=int, default=None, help="the seed of all random input (default: a fresh one, printed)"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.seed is None:
        # A worker of pytest-xdist takes the seed that the run's header shows.
        config.option.seed = getattr(config, "workerinput", {}).get("seed", random.SystemRandom().randrange(2**32))
    # No deadline: how long an example takes depends on what else the machine does.
    hypothesis.settings.register_profile("ottla", deadline=None, max_examples=5 * config.option.trials)
    hypothesis.settings.load_profile("ottla")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the seed to a worker of pytest-xdist."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    return f"ottla: --trials {config.option.trials} --seed {config.option.seed}"


@pytest.fixture(scope="session")
def trials(pytestconfig: pytest.Config) -> int:
    """How often a test with random input repeats itself."""
    return int(pytestconfig.option.trials)


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The seed of all random input; printed in the header, so that a failure can be repeated."""
    return int(pytestconfig.option.seed)


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Says what a trial has found, at the end of the run: what a soak leaves for the record."""
    return pytestconfig.stash.setdefault(_findings, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_findings, []):
        terminalreporter.write_line(line)
