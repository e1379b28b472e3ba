"""The question of Ottla's kafka-acls before it removes entries, which tests beside Kafka's tool cannot answer.

The lines are the output of Kafka's tools for the same command.
"""

import io
import sys

import pytest

from ottla.scripts.kafka.face import Face, Release, ToolExit
from ottla.scripts.kafka.tools import acls

COMMAND = [
    *("--bootstrap-server", "127.0.0.1:1", "--remove", "--topic", "t"),
    *("--allow-principal", "User:a", "--operation", "Read"),
]
QUESTION = [
    "Are you sure you want to remove ACLs: ",
    " \t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)",
    " from resource filter `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`? (y/n)",
]
NULL = "java.lang.NullPointerException"
NO_CONSOLE = (
    'Cannot invoke "java.io.Console.readLine()" because the return value of "java.lang.System.console()" is null'
)
NO_ANSWER = (
    'Cannot invoke "String.equalsIgnoreCase(String)" because the return value of "scala.io.StdIn$.readLine()" is null'
)


def run(release: Release, typed: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    code = acls.main(COMMAND, Face(release, out, io.StringIO()))
    return code, out.getvalue().splitlines()


def test_the_newer_tool_fails_without_a_console(monkeypatch: pytest.MonkeyPatch) -> None:
    code, lines = run(Release.V4_3, "y\n", monkeypatch)
    failed = [f"Error while executing ACL command: {NO_CONSOLE}", f"{NULL}: {NO_CONSOLE}", ""]
    assert (code, lines) == (1, [*QUESTION, *failed])


def test_the_older_tool_fails_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    code, lines = run(Release.V3_9, "", monkeypatch)
    question = [QUESTION[0], f"{QUESTION[1]} ", QUESTION[2]]
    failed = [f"Error while executing ACL command: {NO_ANSWER}", f"{NULL}: {NO_ANSWER}", ""]
    assert (code, lines) == (1, [*question, *failed])


@pytest.mark.parametrize("typed", ["n\n", "\n", "yes\n"])
def test_the_older_tool_removes_nothing_for_any_answer_but_y(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # There is no broker, so the tool would fail if it sent a request.
    code, lines = run(Release.V3_9, typed, monkeypatch)
    assert (code, lines[-1]) == (0, QUESTION[2])


def test_the_older_tool_needs_a_broker() -> None:
    err = io.StringIO()
    arguments = ["--authorizer-properties", "zookeeper.connect=localhost:2181", "--list"]
    with pytest.raises(ToolExit):
        acls.main(arguments, Face(Release.V3_9, io.StringIO(), err))
    assert "give --bootstrap-server" in err.getvalue()
