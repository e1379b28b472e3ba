"""The harness's side of drivers: a process for each client, which answers calls one after the other.

A process that does not answer in time is killed, and the next call starts a new one.
"""

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE_S = 60.0


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """The call failed in the client; `code` is Kafka's error code if the client knows it."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(text)
        self.code = code


class Lacks(Exception):  # noqa: N818
    """The client has no API for the call."""


class Program:
    """A command that answers lines."""

    def __init__(self, command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
        pipe = subprocess.PIPE
        variables = {**os.environ, **(environment or {})}
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, cwd=folder, env=variables
        )

    def answer(self, line: str) -> str:
        """Send a line; return the answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        answer = stdout.readline()
        assert answer, "the process has ended"
        return answer

    def kill(self) -> None:
        """Kill the process, and so end a waiting call of `answer`."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process and close its pipes."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Driver:
    """A client that answers calls by name; closed at the end of the `with` block."""

    def __init__(self, start: Callable[[], Program], patience_s: float = PATIENCE_S) -> None:
        self._start = start
        self._patience_s = patience_s
        self._program: Program | None = None

    def ask(self, call: str, **arguments: Any) -> Any:
        """Return the client's answer. Refused or Lacks if that is the answer."""
        program = self._program or self._start()
        self._program = program
        overdue = threading.Timer(self._patience_s, program.kill)
        overdue.start()
        try:
            answer = json.loads(program.answer(json.dumps({"call": call, **arguments})))
        except (AssertionError, BrokenPipeError, json.JSONDecodeError):
            late = "in time" if overdue.finished.is_set() else "and ended"
            self.close()
            raise Refused(None, f"the client did not answer {late}") from None
        finally:
            overdue.cancel()
        if "lacks" in answer:
            raise Lacks(answer["lacks"])
        if "error" in answer:
            raise Refused(answer["error"]["code"], answer["error"]["text"])
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        if self._program is not None:
            self._program.close()
            self._program = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
