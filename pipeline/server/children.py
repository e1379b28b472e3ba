"""A job that runs, as the server sees it: a guard process, and what that one tells.

Must not know which jobs there should be. Counterparts in Kafka: WorkerConnector, WorkerTask.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ending:
    """How a job ended: its exit code, below zero a signal, and the last that it said."""

    code: int
    trace: str


class Child:
    """One job, from its start to its end. `tell` is called, in a thread, when there is news of it."""

    def __init__(
        self,
        lock: Path,
        command: Sequence[str],
        config: bytes,
        grace_s: float,
        silence_s: float,
        tell: Callable[[], None],
    ) -> None:
        """`config` is what the command finds on its standard input: in no file, for it may have passwords."""
        self.is_waiting = False
        self.is_running = False
        self.is_stopping = False
        self.has_ended = False
        self.ending = Ending(1, "the process that looks after the job is gone")
        self._tell = tell
        self._pipe = threading.Lock()
        # In a session of its own: the terminal's Ctrl-C is for the server, who then stops the job.
        guard = [sys.executable, "-P", "-m", "ottla.pipeline.server.guard", str(lock), str(grace_s), str(silence_s)]
        with os.fdopen(os.memfd_create("config"), "wb") as file:
            file.write(config)
            file.flush()
            self._guard = subprocess.Popen(
                [*guard, str(file.fileno()), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=[file.fileno()],
                start_new_session=True,
            )
        threading.Thread(target=self._listen, name=f"job {lock.name}", daemon=True).start()

    def beat(self) -> None:
        """Tell the guard that the job may go on."""
        with self._pipe, contextlib.suppress(OSError):
            if self._guard.stdin is not None and not self._guard.stdin.closed:
                self._guard.stdin.write(b".")

    def stop(self) -> None:
        """Have the job end; `has_ended` says when it has."""
        self.is_stopping = True
        self._hang_up()

    def _hang_up(self) -> None:
        with self._pipe, contextlib.suppress(OSError):
            if self._guard.stdin is not None:
                self._guard.stdin.close()

    def _listen(self) -> None:
        assert self._guard.stdout is not None
        with self._guard.stdout:
            for line in self._guard.stdout:
                told = json.loads(line)
                # Waiting for the lock, that is: another server's job has not ended yet.
                self.is_waiting = told["state"] == "waiting"
                self.is_running = told["state"] == "running"
                if told["state"] == "ended":
                    self.ending = Ending(told["code"], told["trace"])
                    self.is_stopping = self.is_stopping or told["stopped"]
                self._tell()
        self._hang_up()
        self._guard.wait()
        self.is_running = False
        self.has_ended = True
        self._tell()
