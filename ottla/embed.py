"""`Broker`: a broker of one's own in a child process, for any test suite.

Owns the child, its port and its temporary directory. Knows the broker only as a command, so that importing it costs
next to nothing and nothing of the broker runs in the caller's process.
"""

import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.wire.config_def import render

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
READY = b"ottla ready bootstrap="


class BrokerError(RuntimeError):
    """The broker did not start, or did not stop cleanly; the text ends with what it printed."""


class Broker:
    """A Kafka broker for as long as a `with` block lasts.

    Keywords are Kafka's property names with underscores for dots: `Broker(num_partitions=3)`. It listens on a free port
    of the loopback interface. `stop` or `kill`, then `start`, is a restart on the same port and data.
    """

    def __init__(self, **overrides: Any) -> None:
        self._overrides = {name.replace("_", "."): render(value) for name, value in overrides.items()}
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._bootstrap: str | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """Where clients connect: HOST:PORT."""
        if self._bootstrap is None:
            raise BrokerError("the broker has not been started")
        return self._bootstrap

    @property
    def folder(self) -> Path:
        """The temporary directory that holds the data (`data`) and what the broker printed (`broker.log`)."""
        if self._folder is None:
            raise BrokerError("the broker has not been started")
        return self._folder

    @property
    def pid(self) -> int:
        """The number of the broker's process."""
        if self._process is None:
            raise BrokerError("the broker is not running")
        return self._process.pid

    @property
    def output(self) -> str:
        """What the broker has printed, over all its starts."""
        file = self.folder / "broker.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self) -> None:
        """Start the broker and return when it serves."""
        if self._process is not None:
            raise BrokerError("the broker is running")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ottla-"))
        try:
            self._start_process(self._folder)
        except BaseException:
            self._end(subprocess.Popen.kill)
            if self._bootstrap is None:
                self.close()
            raise

    def stop(self) -> None:
        """End the broker as an operator would, and keep its data; BrokerError when it does not end cleanly."""
        if (code := self._end(subprocess.Popen.terminate)) != 0:
            raise BrokerError(f"the broker ended with {code}:\n{self._tail()}")

    def kill(self) -> None:
        """End the broker with SIGKILL, and keep its data."""
        self._end(subprocess.Popen.kill)

    def close(self) -> None:
        """Stop the broker for good and remove its data."""
        try:
            self.stop()
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = self._bootstrap = None

    def _start_process(self, folder: Path) -> None:
        where = self._bootstrap or "127.0.0.1:0"
        settings = {"listeners": f"PLAINTEXT://{where}", "log.dirs": str(folder / "data"), **self._overrides}
        # -P: a folder of the caller's that is named like a module must not get in the way.
        command = [sys.executable, "-P", "-m", "ottla.child", str(folder), *(f"{k}={v}" for k, v in settings.items())]
        with (folder / "broker.log").open("ab") as log:
            # A group of its own: the terminal's Ctrl-C is for the caller, who then stops the broker.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder, process_group=0
            )
        line = _first_line(self._process, START_TIMEOUT_S)
        if not line.startswith(READY):
            code = self._end(subprocess.Popen.kill)
            raise BrokerError(f"the broker did not start (exit code {code}):\n{self._tail()}")
        self._bootstrap = line.removeprefix(READY).decode().strip()

    def _end(self, how: Any) -> int:
        """Signal the process and wait for it; 0 when there is none."""
        process, self._process = self._process, None
        if process is None:
            return 0
        how(process)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            # Only now: the end of this pipe tells the child that its parent is gone and its data is not needed.
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _tail(self) -> str:
        return self.output[-4000:]


def _first_line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    """Read up to the end of the first line that the child prints, or what there is when it ends or time runs out."""
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_s
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in line and selector.select(deadline - time.monotonic()):
            if not (read := os.read(process.stdout.fileno(), 4096)):
                break
            line += read
    return line
