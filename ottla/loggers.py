"""Log lines: in Kafka's console format or as JSON, written to stderr by a thread of their own.

Owns the form of a line, the levels, and the way to stderr. Must not know the messages: each module takes the name of
Kafka's logger. Counterpart in Kafka: log4j.properties, with its PatternLayout and ConsoleAppender.

Nothing that a client sends can look like a line of ours: unprintable characters are escaped, and the lines of a
traceback are indented. No caller waits for stderr: `LineWriter.emit` formats the line and puts it into a bounded queue.
A line that finds the queue full is lost, and a warning counts the lost lines. At the end the standard library's
QueueListener would wait forever for a stuck reader, and its QueueHandler removes the fields that JSON needs.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

TRACE: Final = 5
LEVELS: Final = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
ROOT: Final = ""
# The root's level does not turn on the log of requests: as in Kafka, only the level of their own logger does.
DEFAULT_LEVELS: Final = {ROOT: logging.INFO, "kafka.request.logger": logging.WARNING}

# The longest message of one line; a traceback may be longer.
MOST_CHARACTERS: Final = 16_384
# Characters that may wait for a stderr that takes nothing: some 10,000 lines.
MOST_WAITING: Final = 1 << 20
PATIENCE_SECONDS: Final = 1.0
GATHER_SECONDS: Final = 0.01
BAR: Final = 30
REPLACE_LINE: Final = "\x1b[1A\x1b[2K"

_LEVEL_NAMES: Final = {number: name for name, number in LEVELS.items()}


def said(record: logging.LogRecord) -> str:
    """Return a record's message, cut at MOST_CHARACTERS, because a client may send thousands of names or a huge one."""
    message = record.getMessage()
    left = len(message) - MOST_CHARACTERS
    return message if left <= 0 else f"{message[:MOST_CHARACTERS]}... and {left} characters more"


def printable(text: str) -> str:
    """Return the text as one line, with escapes for unprintable characters."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class TextFormatter(logging.Formatter):
    """Kafka's console format: `[time] LEVEL message (logger)`; a traceback follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and those of a traceback."""
        level = _LEVEL_NAMES.get(record.levelno, record.levelname)
        line = f"[{self.formatTime(record)}] {level} {printable(said(record))} ({record.name})"
        trace = _trace(self, record)
        return line if trace is None else "\n\t".join([line, *map(printable, trace.split("\n"))])


class TerminalFormatter(TextFormatter):
    """The same for a terminal: a record with a `share`, progress from 0 to 1, is a bar that the next line replaces."""

    def __init__(self) -> None:
        super().__init__()
        self._is_below_a_bar = False

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with REPLACE_LINE before it if a bar stands above."""
        share = getattr(record, "share", None)
        line = (
            super().format(record) if share is None else f"[{'#' * int(share * BAR):{BAR}}] {printable(said(record))}"
        )
        line = f"{REPLACE_LINE}{line}" if self._is_below_a_bar else line
        self._is_below_a_bar = share is not None
        return line


class JsonFormatter(logging.Formatter):
    """One object a line."""

    def __init__(self) -> None:
        super().__init__()
        # Not at the top: the command line imports this module, and has to be quick.
        from trio import lowlevel

        self._trio = lowlevel

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": _LEVEL_NAMES.get(record.levelno, record.levelname),
            "logger": record.name,
            "thread": record.threadName,
            "task": self._trio.current_task().name if self._trio.in_trio_task() else None,
            "message": said(record),
            "exception": _trace(self, record),
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None})


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    """Return the traceback of a record, else the stack that its `stack_info` holds, else None."""
    if record.exc_info:
        return formatter.formatException(record.exc_info)
    return record.stack_info.rstrip("\n") if record.stack_info else None


FORMATS: Final[Mapping[str, Callable[[], logging.Formatter]]] = {"text": TextFormatter, "json": JsonFormatter}


class LineWriter(logging.Handler):
    """Writes lines to a descriptor, in a thread of its own, because the write may block."""

    def __init__(self, fd: int, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._fd = fd
        self._lines: list[str] = []
        self._waiting = 0
        self._lost = 0
        self._is_closed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="line-writer", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put a line into the queue, or count it as lost."""
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if self._waiting + len(line) > MOST_WAITING:
                self._lost += 1
                return
            self._lines.append(line)
            self._waiting += len(line)
            self._changed.notify_all()

    def flush(self) -> None:
        """Return when the queue is empty, or after PATIENCE_SECONDS."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, PATIENCE_SECONDS)

    def close(self) -> None:
        """Write the rest of the queue, and end the thread."""
        self.flush()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        super().close()

    def _run(self) -> None:
        """Write until closed. A failure on the way, such as MemoryError, loses the lines of that round only."""
        goes_on = True
        while goes_on:
            lines: list[str] = []
            lost = 0
            try:
                with self._changed:
                    self._changed.wait_for(lambda: self._lines or self._lost or self._is_closed)
                # Lines come in bursts; a thread that woke for each would take the interpreter's lock every time.
                time.sleep(GATHER_SECONDS)
                with self._changed:
                    lines, self._lines = self._lines, []
                    lost, self._lost = self._lost, 0
                goes_on = bool(lines or lost)
                said_lost = [self._say_lost(lost)] if lost else []
                self._write("".join(f"{line}\n" for line in [*lines, *said_lost]).encode("utf-8", "backslashreplace"))
                lost = 0
            except Exception:
                lost += len(lines)
                time.sleep(PATIENCE_SECONDS)
            with self._changed:
                self._lost += lost
                self._waiting = sum(map(len, self._lines))
                self._changed.notify_all()

    def _say_lost(self, count: int) -> str:
        message = "%d lines are missing here: they were not read in time, or could not be written"
        return self.format(logging.LogRecord("ottla", logging.WARNING, __file__, 0, message, (count,), None))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            pass  # Nobody reads stderr any more, and there is no other place for this error.


def set_up(fd: int, form: str, levels: Mapping[str, int]) -> LineWriter:
    """Add a `LineWriter` for `fd` to the root logger, and set `levels`, by logger, over DEFAULT_LEVELS; return it."""
    # No line shows the caller and the process, and to find them takes as long as the rest of a line.
    logging._srcfile = None
    logging.logProcesses = logging.logMultiprocessing = False
    for name, level in {**DEFAULT_LEVELS, **levels}.items():
        logging.getLogger(name).setLevel(level)
    writer = LineWriter(fd, TerminalFormatter() if form == "text" and os.isatty(fd) else FORMATS[form]())
    logging.getLogger().addHandler(writer)
    return writer
