"""Tests that `make test` leaves out: tests of seconds, and comparisons with more than one Kafka.

`make compat` passes `--compat`, which adds the tests marked `compat`. `make bench` passes `--measure`, which asserts
seconds, because nothing else runs there.

A test that asserts only seconds is marked `measured`, and runs only with `--measure`. A test that asserts more takes
the fixture `at_most`: it always runs, and asserts seconds only with `--measure`.
"""

from collections.abc import Callable

import pytest

AtMost = Callable[[float, float], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ottla tests")
    group.addoption("--measure", action="store_true", help="run the tests that assert seconds, and assert them")
    group.addoption("--compat", action="store_true", help="run the tests marked `compat`, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of seconds with `--measure`; without, leave out the measured tests."""
    kept = [each for each in items if (_has_seconds(each) if config.option.measure else not _is_measured(each))]
    if not config.option.compat:
        kept = [each for each in kept if each.get_closest_marker("compat") is None]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
    items[:] = kept


def _is_measured(item: pytest.Item) -> bool:
    return item.get_closest_marker("measured") is not None


def _has_seconds(item: pytest.Item) -> bool:
    return _is_measured(item) or "at_most" in getattr(item, "fixturenames", ())


@pytest.fixture
def at_most(pytestconfig: pytest.Config) -> AtMost:
    """Return a function that asserts seconds below a bound, if `--measure` is given."""

    def check(seconds: float, bound: float) -> None:
        assert not pytestconfig.option.measure or seconds < bound

    return check
