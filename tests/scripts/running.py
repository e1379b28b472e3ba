"""Running commands: in a process, with or without a terminal, or, for many commands, within this process."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from ottla.cli import main

COMMAND = (sys.executable, "-P", "-m", "ottla")
PATIENCE_S = 120
CTRL_C = "Ctrl-C"
"""In place of an answer."""


class Ended(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def rows(self) -> list[list[str]]:
        """Return its tab-separated rows."""
        return [line.split("\t") for line in self.stdout.splitlines()]

    @property
    def document(self) -> dict[str, Any]:
        """Return its JSON."""
        found: dict[str, Any] = json.loads(self.stdout)
        return found

    @property
    def items(self) -> list[dict[str, Any]]:
        """Return the items of its JSON."""
        found: list[dict[str, Any]] = self.document["items"]
        return found


def error_of(ended: Ended) -> dict[str, Any]:
    """Return the error in the document of a command that failed as a whole."""
    document = ended.document
    assert document["schema"] == 1
    error: dict[str, Any] = document["error"]
    return error


def environment(home: Path) -> dict[str, str]:
    """Return an environment in which a command does not read or write files of the user."""
    return {**os.environ, "HOME": str(home), **{f"XDG_{each}_HOME": str(home) for each in ("CONFIG", "STATE", "CACHE")}}


def ottla(
    *arguments: str, stdin: str | bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Ended:
    """Run a command in a pipe."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run([*COMMAND, *arguments], input=data, capture_output=True, timeout=PATIENCE_S, env=env, cwd=cwd)
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def ottla_on_a_terminal(
    *arguments: str, typed: Sequence[tuple[str, str]] = (), env: Mapping[str, str] | None = None
) -> Ended:
    """Run a command on a pseudo-terminal, and type each answer after its question."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env={**(env or os.environ), "TERM": "xterm"}
    )
    os.close(theirs)
    seen, answers = b"", list(typed)
    try:
        while select.select([ours], [], [], PATIENCE_S)[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:  # its other end is closed
                break
            if not data:
                break
            seen += data
            if answers and answers[0][0].encode() in seen:
                answer = answers.pop(0)[1]
                if answer == CTRL_C:
                    _interrupt(process)
                else:
                    os.write(ours, answer.encode())
    finally:
        os.close(ours)
        if process.poll() is None:
            process.wait(PATIENCE_S)
    return Ended(process.returncode, seen.decode().replace("\r\n", "\n"), "")


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Send SIGINT until the process ends, because a signal between a question and its reading is lost."""
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)


class Running:
    """A command in a process of its own, with a terminal as stderr, so that it shows its progress."""

    def __init__(self, env: Mapping[str, str], *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**env, "TERM": "xterm", "NO_COLOR": "1"},
        )
        os.close(theirs)
        self._complaints = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        os.close(self._ours)

    def write(self, text: str) -> None:
        """Write to its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def wait_for(self, text: str) -> None:
        """Wait for a line on stdout that begins with the text after `|`, or for a text on the terminal."""
        assert self._process.stdout is not None
        if text.startswith("|"):
            while not self._process.stdout.readline().startswith(text[1:].encode()):
                assert self._process.poll() is None
            return
        while text.encode() not in self._complaints:
            self._complaints += os.read(self._ours, 65536)

    def interrupt(self) -> None:
        """Type Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def ended(self, *, at_end_of_input: bool = False) -> Ended:
        """Wait for the end, with its input open or closed."""
        if not at_end_of_input:
            self._process.wait(PATIENCE_S)
        stdout, _ = self._process.communicate(timeout=PATIENCE_S)
        os.set_blocking(self._ours, False)
        try:
            while data := os.read(self._ours, 65536):
                self._complaints += data
        except OSError:
            pass  # its other end is closed
        return Ended(self._process.returncode, stdout.decode(), self._complaints.decode().replace("\r\n", "\n"))


def ottla_here(*arguments: str, env: Mapping[str, str] | None = None, terminal: bool = False) -> Ended:
    """Run a command within this process; stdout is a pipe or a pseudo-terminal, stdin empty, stderr a file."""
    streams = sys.stdin, sys.stdout, sys.stderr
    printed: list[bytes] = []
    with (
        open(os.devnull) as stdin,
        tempfile.TemporaryFile("w+") as stderr,
        _environment(env),
        _written(printed, terminal) as stdout,
    ):
        sys.stdin, sys.stdout, sys.stderr = stdin, stdout, stderr
        try:
            main(arguments, prog_name="ottla")
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
        stderr.seek(0)
        complaints = stderr.read()
    return Ended(code, b"".join(printed).decode(), complaints)


@contextlib.contextmanager
def _environment(env: Mapping[str, str] | None) -> Iterator[None]:
    before = dict(os.environ)
    try:
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _written(printed: list[bytes], terminal: bool) -> Iterator[IO[str]]:
    """Yield a stream; at the end of the block the list has its bytes."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    if terminal:
        tty.setraw(theirs)
    # A terminal and a pipe hold some kilobytes.
    reader = threading.Thread(target=_read_all, args=(ours, printed))
    reader.start()
    try:
        with open(theirs, "w") as stream:
            yield stream
    finally:
        reader.join(PATIENCE_S)


def _read_all(descriptor: int, printed: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # the other end of a terminal is closed
        while data := os.read(descriptor, 65536):
            printed.append(data)
    os.close(descriptor)


def until(holds: Callable[[], object]) -> None:
    """Call `holds` until it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
