"""Tests that `make test` leaves out: those of seconds, and those that compare with more than one Kafka.

`make compat` gives `--compat`, and runs what is marked `compat` beside all other compat tests.

Seconds are asserted where there is nothing else to do, in `make bench`, which gives `--measure`.

A test that asserts only how long something takes is marked `measured`, and runs nowhere else. One that asserts more
than that takes the fixture `at_most`: it runs in either place, and its seconds count in one.
"""

from collections.abc import Callable

import pytest

AtMost = Callable[[float, float], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ottla tests")
    group.addoption(
        "--measure", action="store_true", help="run the tests that assert seconds, and have them assert these"
    )
    group.addoption("--compat", action="store_true", help="run the tests that `make compat` alone runs, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose what is measured, or leave out what is only measured."""
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
    """Assert that something took less than so many seconds, where seconds are asserted."""

    def check(seconds: float, bound: float) -> None:
        assert not pytestconfig.option.measure or seconds < bound

    return check
