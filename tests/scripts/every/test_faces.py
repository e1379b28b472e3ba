"""Every command prints a table on a terminal, rows in a pipe, and one document if `--output` names one."""

import csv
import functools
import io
import json
from collections.abc import Iterator
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from ottla.scripts.terminal.output import ERROR, SCHEMA, title
from tests.scripts.every.every_command import CASES, Case, Prepared, commands, flags, prepared
from tests.scripts.running import Ended, ottla_here

COMMANDS = commands()


def test_every_command_has_a_case() -> None:
    assert sorted(CASES) == sorted(COMMANDS)


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_the_common_options(words: str) -> None:
    found = flags(COMMANDS[words])
    assert {"-o", "--output"} <= found
    assert CASES[words].asks_nobody == found.isdisjoint(SHARED)
    assert CASES[words].asks_nobody or found >= SHARED


SHARED = {"-b", "--bootstrap-server", "--profile", "--command-config", "--timeout"}


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_that_ask_first_have_a_dry_run(words: str) -> None:
    found = flags(COMMANDS[words])
    assert "--yes" not in found or {"-y", "--dry-run"} <= found


def test_no_option_takes_the_text_of_a_secret() -> None:
    for words, command in COMMANDS.items():
        options = [flag for each in command.params if isinstance(each, click.Option) for flag in each.opts]
        named = [flag for flag in options if any(word in flag for word in ("password", "hmac", "secret"))]
        assert all(flag.endswith(("-file", "-env")) for flag in named), (words, named)


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    with prepared(tmp_path_factory.mktemp("home")) as found:
        yield found


def run(on: Prepared, words: str, *options: str, terminal: bool = False) -> Ended:
    case = CASES[words]
    ended = on.run(words, case.arguments, *options, terminal=terminal)
    assert ended.code == case.code, ended
    assert "Traceback" not in ended.stderr
    return ended


def document(ended: Ended) -> dict[str, Any]:
    """Return a command's only document."""
    found: dict[str, Any] = json.loads(ended.stdout)
    assert list(found) == [each for each in ENVELOPE if each != "dry_run" or "dry_run" in found]
    return found


@functools.cache
def columns(on: Prepared, words: str) -> tuple[list[str], list[str]]:
    """Return the columns of a command, and those on a terminal, which has columns of errors only after errors."""
    items = document(run(on, words, "-o", "json"))["items"]
    every = list(items[0]) if items else []
    failed = any(item.get("error") for item in items)
    return every, [each for each in every if each not in ERROR or failed]


ENVELOPE = ("schema", "command", "dry_run", "items", "error")
each_command = pytest.mark.parametrize(("words", "case"), CASES.items(), ids=CASES.keys())


@pytest.mark.slow
@each_command
def test_json_is_one_document(on: Prepared, words: str, case: Case) -> None:
    found = document(run(on, words, "-o", "json"))
    assert (found["schema"], found["command"], found["error"]) == (SCHEMA, words, None)
    can_be_dry = "--dry-run" in flags(COMMANDS[words])
    assert found.get("dry_run", "left out") == (True if can_be_dry else "left out")
    assert bool(found["items"]) == case.has_rows
    for item in found["items"]:
        assert item.keys() == found["items"][0].keys()
        assert ("error" in item) == ("message" in item)
        assert item.get("error") is None or case.code == 1


@pytest.mark.slow
@each_command
def test_a_terminal_shows_a_table(on: Prepared, words: str, case: Case) -> None:
    printed = run(on, words, terminal=True).stdout
    assert not any(each in printed for each in "\x1b\t\r")
    if case.document:
        assert printed.startswith(case.document)
        return
    shown = columns(on, words)[1]
    headings, *rows = printed.splitlines() or [""]
    assert headings.split() == [title(each) for each in shown]
    assert bool(rows) == case.has_rows


@pytest.mark.slow
@each_command
def test_a_pipe_gets_tab_separated_rows_without_headings(on: Prepared, words: str, case: Case) -> None:
    ended = run(on, words)
    if case.document:
        assert ended.stdout.startswith(case.document)
        return
    every = columns(on, words)[0]
    assert bool(ended.rows) == case.has_rows
    assert {len(row) for row in ended.rows} == ({len(every)} if every else set())
    assert all(row[0] != title(every[0]) for row in ended.rows)


@pytest.mark.slow
@each_command
def test_the_other_formats_have_the_same_columns(on: Prepared, words: str, case: Case) -> None:
    every = columns(on, words)[0]
    lines = [json.loads(line) for line in run(on, words, "-o", "ndjson").stdout.splitlines()]
    assert [list(line) for line in lines] == [every] * len(lines)
    assert bool(lines) == case.has_rows
    found = YAML(typ="safe").load(run(on, words, "-o", "yaml").stdout)
    assert (found["schema"], found["command"], bool(found["items"])) == (SCHEMA, words, case.has_rows)
    assert [list(item) for item in found["items"]] == [every] * len(found["items"])
    headings, *rows = csv.reader(io.StringIO(run(on, words, "-o", "csv").stdout))
    assert bool(rows) == case.has_rows
    assert headings == every or not rows


@pytest.mark.slow
def test_the_headings_are_bold_unless_no_color_is_set(on: Prepared) -> None:
    colorful = {name: value for name, value in on.env.items() if name != "NO_COLOR"}
    where = ("-b", on.broker.bootstrap, "--command-config", str(on.folder / "admin.properties"))
    for env, has_color in ((on.env, False), (colorful, True), ({**colorful, "TERM": "dumb"}, False)):
        printed = ottla_here("topics", "list", *where, env=env, terminal=True).stdout
        assert printed.startswith("\x1b[1mTOPIC") == has_color
        assert ("\x1b" in printed) == has_color
