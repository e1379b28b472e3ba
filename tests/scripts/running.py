"""Commands as people run them: in a process, with or without a terminal."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = (sys.executable, "-P", "-m", "ottla")
PATIENCE_S = 120


class Ended(NamedTuple):
    """How a command ended."""

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


def environment(home: Path) -> dict[str, str]:
    """Return an environment in which a command finds and leaves nothing of the user's."""
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
    """Run a command on a pseudo-terminal, and type each answer when its question is there."""
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
                os.write(ours, answers.pop(0)[1].encode())
    finally:
        os.close(ours)
        if process.poll() is None:
            process.wait(PATIENCE_S)
    return Ended(process.returncode, seen.decode().replace("\r\n", "\n"), "")


def until(holds: Callable[[], object]) -> None:
    """Run commands until what they print is as it must be."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
