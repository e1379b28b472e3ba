"""The process between the server and a job: the lock, and that the job ends."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .jobs import Journal, is_alive, wait_for

SILENCE_S = 30.0


class Guarded:
    """Jobs under guards that the test speaks to, as the server does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal(folder / "journal")
        self.guards: list[subprocess.Popen[bytes]] = []

    def start(
        self, name: str, does: str, *, grace_s: float = 10.0, silence_s: float = SILENCE_S
    ) -> subprocess.Popen[bytes]:
        file = self.folder / f"{name}.properties"
        file.write_text(f"name={name}\ndoes={does}\n")
        return self.run(self.journal.command(file, self.folder / name), grace_s, silence_s)

    def run(self, command: list[str], grace_s: float = 10.0, silence_s: float = SILENCE_S) -> subprocess.Popen[bytes]:
        guard = [sys.executable, "-P", "-m", "ottla.pipeline.server.guard", str(self.folder / "lock")]
        with (self.folder / "stderr").open("ab") as stderr, Path(os.devnull).open("rb") as nothing:
            process = subprocess.Popen(
                [*guard, str(grace_s), str(silence_s), str(nothing.fileno()), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                pass_fds=[nothing.fileno()],
                start_new_session=True,
            )
        self.guards.append(process)
        return process

    def is_locked(self) -> bool:
        with (self.folder / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path)
    yield guarded
    for guard in guarded.guards:
        for pipe in (guard.stdin, guard.stdout):
            assert pipe is not None
            pipe.close()
        guard.kill()
        guard.wait()


def told(guard: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The next that a guard tells."""
    assert guard.stdout is not None
    return dict(json.loads(guard.stdout.readline()))


def stop(guard: subprocess.Popen[bytes]) -> None:
    assert guard.stdin is not None
    guard.stdin.close()


def test_a_job_that_ends_is_told_of_with_its_code(guarded: Guarded) -> None:
    guard = guarded.start("a", "end")
    assert told(guard)["state"] == "running"
    assert told(guard) == {"state": "ended", "code": 0, "trace": "", "stopped": False}
    assert guard.wait(120) == 0
    assert not guarded.is_locked()


def test_a_job_that_fails_is_told_of_with_its_last_lines(guarded: Guarded) -> None:
    guard = guarded.start("a", "fail")
    told(guard)
    trace = "fake job: there is nothing to do"
    assert told(guard) == {"state": "ended", "code": 1, "trace": trace, "stopped": False}
    assert trace in (guarded.folder / "stderr").read_text()


def test_of_much_that_a_job_says_the_last_is_told(guarded: Guarded) -> None:
    script = "import sys; print('out', flush=True); [print(i, 'x' * 99, file=sys.stderr) for i in range(5000)]; exit(3)"
    guard = guarded.run([sys.executable, "-c", script])
    told(guard)
    ended = told(guard)
    assert ended["code"] == 3
    assert [line.split()[0] for line in ended["trace"].splitlines()] == [str(number) for number in range(4960, 5000)]
    said = (guarded.folder / "stderr").read_text().splitlines()
    assert (len(said), "out" in said) == (5001, True)


def test_a_line_without_an_end_is_told_without_its_beginning(guarded: Guarded) -> None:
    guard = guarded.run(
        [sys.executable, "-c", "import sys; sys.stderr.write('a' + 'x' * 1_000_000 + 'z'); sys.exit(1)"]
    )
    told(guard)
    trace = told(guard)["trace"]
    assert (len(trace), trace[0], trace[-1]) == (16 * 1024, "x", "z")


def test_a_command_that_cannot_be_run_is_told_of(guarded: Guarded) -> None:
    trace = "/no/such/command: No such file or directory"
    assert told(guarded.run(["/no/such/command"])) == {"state": "ended", "code": 1, "trace": trace, "stopped": False}


def test_a_lock_that_cannot_be_had_is_told_of(guarded: Guarded) -> None:
    (guarded.folder / "lock").mkdir()
    guard = guarded.run(["true"])
    assert told(guard) == {
        "state": "ended",
        "code": 1,
        "trace": f"{guarded.folder}/lock: Is a directory",
        "stopped": False,
    }
    assert (guarded.folder / "stderr").read_text() == ""


def test_a_job_is_told_to_end_when_the_server_says_so_or_is_gone(guarded: Guarded) -> None:
    guard = guarded.start("a", "run")
    told(guard)
    wait_for(lambda: guarded.journal.lines("start"))
    stop(guard)
    assert told(guard) == {"state": "ended", "code": 0, "trace": "", "stopped": True}
    assert len(guarded.journal.lines("stop")) == 1


def test_a_job_that_does_not_end_is_killed(guarded: Guarded) -> None:
    guard = guarded.start("a", "stay", grace_s=0.2)
    told(guard)
    wait_for(lambda: guarded.journal.lines("start"))
    stop(guard)
    assert told(guard)["code"] == -signal.SIGKILL
    assert guarded.journal.lines("stop") == []


def test_a_job_ends_when_the_server_is_silent_for_too_long(guarded: Guarded) -> None:
    guard = guarded.start("a", "run", silence_s=0.5)
    assert told(guard)["state"] == "running"
    assert told(guard)["stopped"]
    assert guarded.journal.running() == []


def test_what_a_job_has_started_ends_with_it(guarded: Guarded) -> None:
    guard = guarded.start("a", "parent", grace_s=0.5)
    told(guard)
    wait_for(lambda: guarded.journal.lines("child"))
    (child,) = guarded.journal.lines("child")
    stop(guard)
    assert told(guard)["stopped"]
    assert not is_alive(child.pid)
    guard.wait(120)
    assert not guarded.is_locked()


def test_a_job_waits_for_the_one_that_has_the_lock(guarded: Guarded) -> None:
    first = guarded.start("a", "stay", grace_s=1)
    told(first)
    second = guarded.start("b", "run")
    assert told(second) == {"state": "waiting"}
    wait_for(lambda: guarded.journal.lines("start"))
    stop(first)
    assert told(second)["state"] == "running"
    assert guarded.journal.running() in ([], ["b"])
    stop(second)


def test_a_job_that_waits_for_the_lock_may_be_told_to_end(guarded: Guarded) -> None:
    told(guarded.start("a", "run"))
    second = guarded.start("b", "run")
    assert told(second) == {"state": "waiting"}
    stop(second)
    assert second.wait(120) == 0
    assert guarded.journal.lines("start", "b") == []


def test_a_job_dies_with_a_guard_that_is_killed_and_has_the_lock_until_then(guarded: Guarded) -> None:
    guard = guarded.start("a", "stay")
    pid = told(guard)["pid"]
    wait_for(lambda: guarded.journal.lines("start"))
    assert guarded.is_locked()
    os.kill(guard.pid, signal.SIGKILL)
    wait_for(lambda: not guarded.is_locked())
    assert not is_alive(pid)
