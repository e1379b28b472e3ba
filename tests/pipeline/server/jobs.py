"""Jobs that do nothing but write down that they run."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FAKE_JOB = Path(__file__).with_name("fake_job.py")
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Line:
    """What a job has written down."""

    what: str
    name: str
    pid: int
    mark: str
    checkpoint: str


class Journal:
    """What all jobs have written down."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def command(self, file: Path, checkpoint: Path) -> list[str]:
        return [sys.executable, "-P", str(FAKE_JOB), str(self.file), str(file), str(checkpoint)]

    def lines(self, what: str, name: str | None = None) -> list[Line]:
        written = self.file.read_text().splitlines() if self.file.exists() else []
        parsed = [line.split() for line in written]
        lines = [Line(each[0], each[1], int(each[2]), each[3], each[4]) for each in parsed]
        return [line for line in lines if line.what == what and name in (None, line.name)]

    def running(self) -> list[str]:
        """The names of the jobs that run, each as often as it does."""
        return sorted(line.name for line in self.lines("start") if is_alive(line.pid))


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not buried yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_for(what: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + patience_s
    while not what():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
