"""A reply that is owed reaches whoever waits for it, changed on the way where somebody changes it."""

import pytest

from ottla.broker.loop.deferred import CloseConnection, Deferred


@pytest.mark.parametrize("applied", [True, False])
def test_a_changed_reply_comes_when_the_reply_comes(applied: bool) -> None:
    reply: Deferred[int] = Deferred(applied, repeatable=not applied)
    changed = reply.map(lambda number: number + 1)
    assert (changed.applied, changed.repeatable, changed.done) == (applied, not applied, False)
    reply.complete(1)
    assert changed.response == 2


def test_a_reply_that_is_there_is_changed_at_once() -> None:
    reply: Deferred[int] = Deferred(False)
    reply.complete(1)
    assert reply.map(lambda number: number + 1).response == 2


def test_who_abandons_a_changed_reply_abandons_the_reply() -> None:
    left: list[str] = []
    reply: Deferred[int] = Deferred(False, lambda: left.append("left"))
    reply.map(lambda number: number).abandon()
    assert left == ["left"]
    assert reply.done


def test_a_reply_that_closes_the_connection_closes_it_when_it_is_changed_too() -> None:
    reply: Deferred[int] = Deferred(False)
    changed = reply.map(lambda number: number)
    reply.close(CloseConnection("enough"))
    with pytest.raises(CloseConnection, match="enough"):
        _ = changed.response


def test_a_reply_that_cannot_be_changed_closes_the_connection_and_harms_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply: Deferred[int] = Deferred(False)
    changed = reply.map(lambda number: 1 // number)
    reply.complete(0)
    with pytest.raises(CloseConnection, match="ZeroDivisionError"):
        _ = changed.response
    assert "A bug" in caplog.text
