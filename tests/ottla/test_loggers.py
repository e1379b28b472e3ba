"""Log lines: their form, and that no caller waits for the reader of stderr."""

import ast
import json
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from ottla import loggers
from ottla.loggers import JsonFormatter, LineWriter, TerminalFormatter, TextFormatter, printable
from tests.harness.measuring import AtMost

ROOT = Path(__file__).resolve().parent.parent.parent
FORGED = "[2026-01-01 12:00:00,000] INFO all is well (kafka.server.KafkaServer)"


def record(message: str, *args: object, level: int = logging.INFO, error: Exception | None = None) -> logging.LogRecord:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("kafka.server.KafkaServer", level, "file", 1, message, args, exc_info)
    made.created, made.msecs = 1_767_268_800.042, 42.0
    return made


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as one, os.fdopen(writer, "wb") as other:
        yield one, other


def written(reader: BinaryIO, writer: BinaryIO) -> str:
    """Close the pipe for writing and return all that was written."""
    writer.close()
    return reader.read().decode()


@pytest.mark.usefixtures("utc")
def test_a_line_has_the_form_of_kafkas_console() -> None:
    line = TextFormatter().format(record("[KafkaServer id=%d] started", 0))
    assert line == "[2026-01-01 12:00:00,042] INFO [KafkaServer id=0] started (kafka.server.KafkaServer)"


@pytest.mark.parametrize(("name", "level"), loggers.LEVELS.items())
def test_levels_have_kafkas_names(name: str, level: int) -> None:
    assert f"] {name} " in TextFormatter().format(record("x", level=level))
    assert json.loads(JsonFormatter().format(record("x", level=level)))["level"] == name


def test_a_newline_of_a_client_begins_no_line() -> None:
    line = TextFormatter().format(record("unknown topic %s", f"t\n{FORGED}\r\x1b[2K\u2028\x85\ud800"))
    assert len(line.splitlines()) == 1
    assert rf"t\n{FORGED}\r\x1b[2K\u2028\x85\ud800" in line


def test_a_traceback_follows_its_line_and_is_indented() -> None:
    lines = TextFormatter().format(record("a bug", error=raised(f"x\n{FORGED}\r{FORGED}"))).split("\n")
    assert lines[0].endswith("a bug (kafka.server.KafkaServer)")
    assert lines[1] == "\tTraceback (most recent call last):"
    assert lines[-1] == f"\t{FORGED}\\r{FORGED}"
    assert all(line.startswith("\t") for line in lines[1:])


@given(st.text())
def test_printable_returns_one_line_of_printable_characters(text: str) -> None:
    assert printable(text).isprintable()


def test_an_endless_message_is_cut() -> None:
    line = TextFormatter().format(record("%s", "x" * 1_000_000))
    assert len(line) < 20_000
    assert "983616 characters more" in line


def test_on_a_terminal_progress_is_a_bar_that_the_next_line_replaces() -> None:
    formatter = TerminalFormatter()
    half = record("half")
    half.share = 0.5
    ready = TextFormatter().format(record("ready"))
    assert formatter.format(record("ready")) == ready
    assert formatter.format(half) == f"[{'#' * 15:30}] half"
    assert formatter.format(half) == f"\x1b[1A\x1b[2K[{'#' * 15:30}] half"
    assert formatter.format(record("ready")) == f"\x1b[1A\x1b[2K{ready}"
    assert formatter.format(record("ready")) == ready


def test_as_json_a_line_is_one_object_with_its_traceback_in_a_field() -> None:
    line = JsonFormatter().format(record("bad %s", f"\n{FORGED}", error=raised("x\ny")))
    assert len(line.splitlines()) == 1
    found = json.loads(line)
    assert found.pop("exception").startswith("Traceback (most recent call last):\n")
    assert found == {
        "time": "2026-01-01T12:00:00.042Z",
        "level": "INFO",
        "logger": "kafka.server.KafkaServer",
        "thread": "MainThread",
        "message": f"bad \n{FORGED}",
    }


async def test_as_json_a_line_names_the_task_that_logs() -> None:
    assert json.loads(JsonFormatter().format(record("x")))["task"] == trio.lowlevel.current_task().name


def test_lines_are_written_in_their_order(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    writer = LineWriter(pipe[1].fileno(), TextFormatter())
    for number in range(300):
        writer.handle(record("number %d", number))
    writer.close()
    assert re.findall(r"number (\d+) ", written(*pipe)) == [str(number) for number in range(300)]


def test_a_stuck_reader_blocks_no_caller_and_a_warning_counts_the_lost_lines(
    pipe: tuple[BinaryIO, BinaryIO], monkeypatch: pytest.MonkeyPatch, at_most: AtMost
) -> None:
    writer = LineWriter(pipe[1].fileno(), TextFormatter())
    most = loggers.MOST_WAITING // 1000 + 70
    slowest = 0.0
    for number in range(2 * most):
        began = time.perf_counter()
        writer.handle(record("number %d %s", number, "x" * 1000))
        slowest = max(slowest, time.perf_counter() - began)
    with monkeypatch.context() as patch:
        patch.setattr(loggers, "PATIENCE_SECONDS", 0.01)
        writer.flush()
    at_most(slowest, 1)
    read = lost = 0
    while read + lost < 2 * most:
        missing = re.search(rb"WARN (\d+) lines are missing", pipe[0].readline())
        if missing:
            lost += int(missing[1])
        else:
            read += 1
    assert lost > 0
    writer.handle(record("heard again"))
    writer.close()
    assert "heard again" in written(*pipe)


def test_a_closed_reader_breaks_no_caller(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    pipe[0].close()
    writer = LineWriter(pipe[1].fileno(), TextFormatter())
    for _ in range(3):
        writer.handle(record("x"))
        writer.flush()
    writer.close()


class Failing(TextFormatter):
    """Fails when the writer's thread formats its first warning of lost lines."""

    def __init__(self) -> None:
        super().__init__()
        self.failed = threading.Event()

    def format(self, record: logging.LogRecord) -> str:
        if threading.current_thread().name == "line-writer" and not self.failed.is_set():
            self.failed.set()
            raise MemoryError
        return super().format(record)


def test_after_a_failed_write_the_next_lines_are_written_and_the_lost_lines_counted(
    pipe: tuple[BinaryIO, BinaryIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loggers, "PATIENCE_SECONDS", 0.01)
    formatter = Failing()
    writer = LineWriter(pipe[1].fileno(), formatter)
    # More lines than the queue holds, so that some are lost and a warning follows.
    for _ in range(4 * loggers.MOST_WAITING // 10_000):
        writer.handle(record("x" * 10_000))
    heard = b""
    while b"lines are missing here" not in heard:
        heard += os.read(pipe[0].fileno(), 1 << 20)
    assert formatter.failed.is_set()
    assert int(re.findall(rb"WARN (\d+) lines are missing", heard)[0]) > 1
    # From here on the test waits for the writer as long as a broker does.
    monkeypatch.undo()
    writer.handle(record("heard again"))
    writer.close()
    assert "heard again" in written(*pipe)


@pytest.fixture
def levels() -> Iterator[None]:
    names = ["", "kafka.request.logger", "kafka.log"]
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.usefixtures("levels")
def test_a_level_of_the_root_does_not_begin_to_log_requests(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    writer = loggers.set_up(pipe[1].fileno(), "text", {loggers.ROOT: logging.DEBUG, "kafka.log": logging.ERROR})
    try:
        for name in ("kafka.server.KafkaApis", "kafka.request.logger", "kafka.log.LogManager"):
            logging.getLogger(name).debug("said by %s", name)
        logging.getLogger("kafka.log.LogManager").error("an error")
    finally:
        logging.getLogger().removeHandler(writer)
        writer.close()
    said = written(*pipe)
    assert "said by kafka.server.KafkaApis" in said
    assert "an error" in said
    assert "said by kafka.request.logger" not in said
    assert "said by kafka.log" not in said


def test_every_logger_has_a_name_of_kafka_or_begins_with_ottla() -> None:
    names = {}
    for path in [
        path for room in ("broker", "coordinator", "log", "wire", "zk") for path in (ROOT / room).rglob("*.py")
    ]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger":
                if isinstance(node.args[0], ast.Constant):
                    names[f"{path}:{node.lineno}"] = str(node.args[0].value)
                else:
                    # Loggers that operators name, and loggers of another process's lines.
                    assert path.name in ("log_levels.py", "processes.py")
    assert len(names) > 20
    of_kafka = re.compile(r"kafka\.|org\.apache\.(kafka|zookeeper)\.|state\.change\.logger$|ottla\.")
    assert {place: name for place, name in names.items() if not of_kafka.match(name)} == {}
