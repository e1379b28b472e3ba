"""A small process between the server and one job: it has the job's lock, and it sees to it that the job ends.

Owns the lock, which lasts as long as anything of the job does: so no job runs twice, whoever believes to have it. The
job ends when the server says so (it closes the pipe), when the server is gone (so does the kernel) and when the server
has been silent for too long (it is paused, and others may have the job by now). With the job ends all that it has
started. Must not know what a job is. Counterpart in Kafka: what is fenced there by generations and producer epochs.

Standard output tells the server, a line of JSON each: that another one has the lock, that the job runs, how it ended.
"""

import collections
import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

LOOK_EVERY_S: Final = 1.0
TRY_EVERY_S: Final = 0.1
TRACE_LINES: Final = 40
TRACE_BYTES: Final = 16 * 1024
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36

# Looked up here, not between fork and exec.
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Guard:
    """Runs one command under a lock."""

    def __init__(self, grace_s: float, silence_s: float) -> None:
        self.grace_s = grace_s
        self.silence_s = silence_s
        self.heard_at = time.monotonic()
        self.is_over = False
        self.trace: collections.deque[bytes] = collections.deque(maxlen=TRACE_LINES)
        # A signal, that of a child that ended too, ends a wait.
        self.signals, self.signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self.signalled, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, lambda number, frame: setattr(self, "is_over", True))

    def run(self, lock: Path, config: int, command: list[str]) -> None:
        """Wait for the lock, run the command, tell how it ended. What the descriptor `config` has is its input."""
        try:
            # The job gets the descriptor too: should this process be killed, the lock is held while the job still ends.
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not self._take(descriptor):
                return
            job = subprocess.Popen(
                command,
                stdin=config,
                stdout=sys.stderr.fileno(),
                stderr=subprocess.PIPE,
                pass_fds=[descriptor],
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            tell(state="ended", code=1, trace=f"{error.filename or lock}: {error.strerror}", stopped=False)
            return
        tell(state="running", pid=job.pid)
        assert job.stderr is not None
        self._watch(job, job.stderr.fileno())
        self._end_all(job, job.stderr.fileno())
        text = b"".join(self.trace)[-TRACE_BYTES:].decode(errors="replace")
        tell(state="ended", code=job.returncode, trace=text.rstrip(), stopped=self.is_over)

    def _take(self, descriptor: int) -> bool:
        """Wait for the lock; False when the job is not wanted any more."""
        has_told = False
        while not self.is_over:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if not has_told:
                    tell(state="waiting")
                    has_told = True
            self._hear([], TRY_EVERY_S)
        return False

    def _watch(self, job: subprocess.Popen[bytes], output: int) -> None:
        """Pass on what the job says, until it ends or has to."""
        sources = [output]
        while not self.is_over and job.poll() is None:
            if output in self._hear(sources, LOOK_EVERY_S) and not self._pass_on(output):
                sources = []
        if job.poll() is None:
            job.terminate()
            deadline = time.monotonic() + self.grace_s
            while job.poll() is None and time.monotonic() < deadline:
                self._pass_on_for(output, TRY_EVERY_S)

    def _end_all(self, job: subprocess.Popen[bytes], output: int) -> None:
        """See the job end, and all that it started, which has become this process's."""
        job.kill()
        job.wait()
        # A JVM that is left behind removes its files, and ends by itself.
        deadline = time.monotonic() + self.grace_s
        while True:
            self._pass_on_for(output, 0)
            try:
                while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                    pass
            except ChildProcessError:
                return
            if time.monotonic() > deadline:
                for child in _children():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            time.sleep(TRY_EVERY_S / 10)

    def _hear(self, sources: list[int], timeout_s: float) -> list[int]:
        """Wait for the server, for signals and for these; note when the job is to end."""
        readable, _, _ = select.select([0, self.signals, *sources], [], [], timeout_s)
        if self.signals in readable:
            os.read(self.signals, 4096)
        if 0 in readable:
            self.heard_at = time.monotonic()
            self.is_over = self.is_over or not os.read(0, 4096)
        elif time.monotonic() - self.heard_at > self.silence_s:
            self.is_over = True
        return readable

    def _pass_on_for(self, output: int, timeout_s: float) -> None:
        """Pass on what the job says, if it says anything for a while."""
        if select.select([output], [], [], timeout_s)[0] and not self._pass_on(output):
            time.sleep(timeout_s)

    def _pass_on(self, output: int) -> bool:
        """Pass on what the job has said, and remember the end of it; False where there will be no more."""
        said = os.read(output, 1 << 16)
        # Nobody may be there to read it; the job goes on.
        with contextlib.suppress(OSError):
            os.write(2, said)
        lines = said.splitlines(keepends=True)
        if lines and self.trace and not self.trace[-1].endswith(b"\n"):
            lines[0] = self.trace.pop()[-TRACE_BYTES:] + lines[0]
        self.trace.extend(lines)
        return bool(said)


def tell(**what: object) -> None:
    """Say a line to the server, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(what).encode() + b"\n")


def _children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Run with: the file of the lock, the grace and the silence in seconds, a descriptor, the command."""
    lock, grace_s, silence_s, config, *command = arguments
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    Guard(float(grace_s), float(silence_s)).run(Path(lock), int(config), command)


if __name__ == "__main__":
    main(sys.argv[1:])
