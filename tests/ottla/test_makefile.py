"""`make run`, as a newcomer uses it: it sets up only its own needs, serves soon, and prints its errors."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.measuring import AtMost

ROOT = Path(__file__).parents[2]
READY = re.compile(r"ottla ready bootstrap=localhost:(\d+)\n")
# A `make` that runs these tests must not pass its own options on.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "MAKE", "MFLAGS"))}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is missing"),
    pytest.mark.skipif(not (ROOT / ".venv" / "native.stamp").exists(), reason="set up by other means"),
]


def make_run(port: int, data: Path) -> subprocess.Popen[str]:
    command = ["make", "--no-print-directory", "run", f"LISTENERS=PLAINTEXT://localhost:{port}", f"DATA={data}"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


@contextmanager
def serving(data: Path) -> Iterator[int]:
    """Yield the port of a broker; interrupt the broker at the end, as from a terminal."""
    with make_run(0, data) as process:
        assert process.stdout is not None
        try:
            ready = READY.fullmatch(process.stdout.readline())
            assert ready
            yield int(ready[1])
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=120)


def test_make_run_serves_within_three_seconds_once_set_up_and_ends_cleanly(tmp_path: Path, at_most: AtMost) -> None:
    took = []
    for _ in range(3):
        began = time.perf_counter()
        with serving(tmp_path):
            took.append(time.perf_counter() - began)
        assert (tmp_path / ".kafka_cleanshutdown").exists()
    at_most(min(took), 3)


def test_a_taken_port_is_refused_in_one_line(tmp_path: Path) -> None:
    with serving(tmp_path / "one") as port, make_run(port, tmp_path / "other") as other:
        printed, complaints = other.communicate(timeout=120)
    assert (other.returncode, printed) == (2, "")
    (line,) = [each for each in complaints.splitlines() if "INFO" not in each and not each.startswith("make: ")]
    assert line.startswith("ottla: ")
    assert f"localhost:{port}" in line


def test_make_run_prints_each_step_and_installs_neither_spark_nor_java() -> None:
    command = ["make", "--dry-run", "run", "VENV=nowhere"]
    planned = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    assert "nowhere/bin/python -m pip" in planned
    steps = ["Making nowhere", "Installing Ottla", "ottla.build_native --background", "ottla serve"]
    assert sorted(steps, key=planned.index) == steps
    assert not re.search(r"spark|java|jre|mvn|maven|\[test\]", planned)
