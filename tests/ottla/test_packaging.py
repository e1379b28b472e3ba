"""The distributions that users install: whole, and serving without a compiler and without this repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {"broker", "coordinator", "log", "pipeline", "scripts", "wire", "zk"}

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path = ROOT, timeout: float = 300) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "PYTHONPATH"))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=timeout, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def modules(room: Path) -> set[str]:
    found = {str(path.relative_to(room)) for path in room.rglob("*.py")}
    return {name for name in found if "__pycache__" not in name}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built of it alone."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder)
    run("tar", "-xzf", next(folder.glob("*.tar.gz")), cwd=folder)
    source = next(path for path in folder.iterdir() if path.is_dir())
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    return folder


def test_the_wheel_holds_every_room_whole_and_no_native_code(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name for name in names if name.endswith(".py")} == {f"ottla/{name}" for name in modules(ROOT / "ottla")} | {
        f"ottla/{room}/{name}" for room in ROOMS for name in modules(ROOT / room)
    }
    assert {name for name in names if not name.endswith(".py")} == {
        "ottla/py.typed",
        "ottla/broker/keys_without_effect.txt",
    }


@pytest.mark.timeout(300)
def test_the_wheel_serves_from_a_clean_environment(built: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "venv", environment)
    wheel = next(built.glob("*.whl"))
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    script = "from ottla import Broker\nwith Broker() as b:\n print(b.bootstrap.split(':')[0], 'plain' in b.output)"
    assert run(python, "-P", "-c", script, cwd=tmp_path) == "127.0.0.1 True\n"
    assert run(environment / "bin" / "ottla", "--version", cwd=tmp_path) == "ottla 0.1.0\n"
