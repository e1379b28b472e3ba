import logging

import pytest

from ottla.broker.loop.hindrance import Hindrance


@pytest.fixture
def hindrance(caplog: pytest.LogCaptureFixture) -> Hindrance:
    caplog.set_level(logging.INFO)
    return Hindrance(logging.getLogger("test"), "It", "is stuck", "goes on")


def test_a_reason_is_logged_when_it_changes_and_when_it_is_over(
    hindrance: Hindrance, caplog: pytest.LogCaptureFixture
) -> None:
    for why in ("one", "one", "two", "two", "one"):
        hindrance.met(why)
    hindrance.passed()
    hindrance.passed()
    hindrance.met("one")
    assert caplog.messages == [
        *("It is stuck: one", "It is stuck: two", "It is stuck: one", "It goes on", "It is stuck: one")
    ]


def test_a_reason_that_may_pass_is_logged_when_it_occurs_twice_in_a_row(
    hindrance: Hindrance, caplog: pytest.LogCaptureFixture
) -> None:
    hindrance.met("one", may_pass=True)
    hindrance.passed()
    hindrance.met("one", may_pass=True)
    assert caplog.messages == []
    for _ in range(3):
        hindrance.met("one", may_pass=True)
    assert caplog.messages == ["It is stuck: one"]
