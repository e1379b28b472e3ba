"""`make versions`: the fast tests run on every Python of this machine."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is missing")


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def planned(folder: Path, target: str) -> str:
    """Return the commands that make would run, with the programs of `folder` first on the PATH."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment = inherited | {"PATH": f"{folder}:{os.defpath}"}
    command = ["make", "--dry-run", "--no-print-directory", target]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_fast_tests_run_on_every_python_of_the_path_and_of_pyenv(tmp_path: Path) -> None:
    program(tmp_path / "python3.10", "exit 0")
    program(tmp_path / "python3.27", "exit 0")
    program(tmp_path / "python3.28", "exit 127  # as pyenv's shim of a version that is not chosen")
    program(tmp_path / "pyenv", f"echo {tmp_path}/pyenvs")
    program(tmp_path / "pyenvs" / "versions" / "3.27.1" / "bin" / "python", "exit 0")
    program(tmp_path / "pyenvs" / "versions" / "3.28.4" / "bin" / "python", "exit 0")
    plan = planned(tmp_path, "versions")
    tested = re.findall(r"(\S+)/bin/python -m pytest ", plan)
    assert {".venv-3.27", ".venv-3.28"} <= set(tested)
    assert len(tested) == len(set(tested))
    assert ".venv-3.10" not in tested
    assert f"{tmp_path}/pyenvs/versions/3.28.4/bin/python -m venv .venv-3.28" in plan
    assert f"The fast tests pass on Python {' '.join(name.removeprefix('.venv-') for name in tested)}." in plan


def test_make_versions_fails_if_no_python_is_new_enough(tmp_path: Path) -> None:
    for minor in range(11, 31):
        program(tmp_path / f"python3.{minor}", "exit 1")
    program(tmp_path / "pyenv", "exit 1")
    with pytest.raises(subprocess.CalledProcessError):
        planned(tmp_path, "versions")


def test_make_soak_runs_make_versions_too(tmp_path: Path) -> None:
    program(tmp_path / "python3.27", "exit 0")
    assert ".venv-3.27/bin/python -m pytest " in planned(tmp_path, "soak")
