"""A Deferred and its mapped forms are completed, closed and abandoned together."""

import pytest

from ottla.broker.loop.deferred import CloseConnection, Deferred


@pytest.mark.parametrize("applied", [True, False])
def test_a_mapped_response_is_there_when_the_response_is(applied: bool) -> None:
    reply: Deferred[int] = Deferred(applied, repeatable=not applied)
    changed = reply.map(lambda number: number + 1)
    assert (changed.applied, changed.repeatable, changed.done) == (applied, not applied, False)
    reply.complete(1)
    assert changed.response == 2


def test_a_response_that_is_there_is_mapped_at_once() -> None:
    reply: Deferred[int] = Deferred(False)
    reply.complete(1)
    assert reply.map(lambda number: number + 1).response == 2


def test_abandoning_a_mapped_deferred_abandons_the_original() -> None:
    left: list[str] = []
    reply: Deferred[int] = Deferred(False, lambda: left.append("left"))
    reply.map(lambda number: number).abandon()
    assert left == ["left"]
    assert reply.done


def test_a_mapped_deferred_closes_the_connection_when_the_original_does() -> None:
    reply: Deferred[int] = Deferred(False)
    changed = reply.map(lambda number: number)
    reply.close(CloseConnection("enough"))
    with pytest.raises(CloseConnection, match="enough"):
        _ = changed.response


def test_a_response_that_cannot_be_mapped_is_logged_and_closes_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply: Deferred[int] = Deferred(False)
    changed = reply.map(lambda number: 1 // number)
    reply.complete(0)
    with pytest.raises(CloseConnection, match="ZeroDivisionError"):
        _ = changed.response
    assert "A bug" in caplog.text
