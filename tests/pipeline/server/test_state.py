"""What replaying the records comes to."""

import json

import pytest

from ottla.pipeline.server.state import (
    Job,
    State,
    Status,
    config_record,
    removal_records,
    restart_record,
    status_record,
    target_record,
)

from .memory import Memory


@pytest.fixture
def memory() -> Memory:
    return Memory()


def test_a_job_is_what_its_last_config_says(memory: Memory) -> None:
    memory.write([config_record("a", {"x": "1"}), config_record("b", {}), config_record("a", {"x": "2"})])
    assert memory.state.names() == ["a", "b"]
    assert memory.state.job("a") == Job("a", {"x": "2"}, "STARTED", 2)


def test_a_target_state_may_come_before_its_job(memory: Memory) -> None:
    memory.write([target_record("a", "PAUSED")])
    assert memory.state.job("a") is None
    memory.write([config_record("a", {})])
    assert memory.state.job("a") == Job("a", {}, "PAUSED", 1)


def test_a_restart_is_a_new_version_and_a_target_state_is_none(memory: Memory) -> None:
    memory.write([config_record("a", {}), target_record("a", "STOPPED"), target_record("a", "STARTED")])
    assert memory.state.job("a") == Job("a", {}, "STARTED", 0)
    memory.write([restart_record("a")])
    assert memory.state.job("a") == Job("a", {}, "STARTED", 3)


def test_a_removed_job_leaves_nothing_to_one_of_the_same_name(memory: Memory) -> None:
    memory.write([config_record("a", {}), target_record("a", "PAUSED"), restart_record("a"), *removal_records("a")])
    assert (memory.state.names(), memory.state.job("a")) == ([], None)
    memory.write([config_record("a", {})])
    assert memory.state.job("a") == Job("a", {}, "STARTED", 6)


def test_a_status_stays_until_it_is_taken_away(memory: Memory) -> None:
    status = Status("FAILED", "host:1", 7, "a line", done=False)
    memory.write([status_record("a", status)])
    assert (memory.state.status("a"), memory.state.statuses()) == (status, {"a": status})
    memory.write([status_record("a", None)])
    assert memory.state.status("a") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("connector-a", "{"),
        ("connector-a", "[]"),
        ("connector-a", '{"properties": []}'),
        ("connector-a", "{}"),
        ("target-state-a", '{"state": "ASLEEP"}'),
        ("status-connector-a", '{"state": "RUNNING", "mood": "good"}'),
        ("commit-a", '{"tasks": 1}'),
        ("", "null"),
    ],
)
def test_what_cannot_be_understood_is_passed_over_with_a_line(
    key: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    state = State()
    state.apply("connector-a", json.dumps({"properties": {"x": "1"}}).encode(), 3)
    state.apply(key, value.encode(), 4)
    assert state.job("a") == Job("a", {"x": "1"}, "STARTED", 3)
    assert state.statuses() == {}
    assert ["at offset 4" in record.message for record in caplog.records] == [True]
