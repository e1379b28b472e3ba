"""The distributions that users install: whole, and serving without a compiler and without this repository."""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from ottla.commands import example_jobs

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
    """Return a folder with the source distribution, and the wheel that was built of it alone."""
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
        "ottla/broker/config/keys_without_effect.txt",
        *(f"ottla/examples/{name}.toml" for name in example_jobs.names()),
        *(f"ottla/examples/orders/{path.name}" for path in (ROOT / "examples" / "orders").iterdir()),
    }


def test_the_source_distribution_holds_every_linked_file(built: Path) -> None:
    source = next(path for path in built.iterdir() if path.is_dir())
    documents = [source / "README.md", source / "CONTRIBUTING.md", *source.glob("docs/**/*.md")]
    links = [
        (document, link)
        for document in documents
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    ]
    assert len(links) > 50
    assert [f"{document.name}: {link}" for document, link in links if not (document.parent / link).exists()] == []


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs' folder of an environment with the wheel and the dependencies of this environment."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", next(built.glob("*.whl")))
    # The folder of a .pth file comes after the environment's own packages: `ottla` is the wheel's.
    (packages,) = environment.glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return environment / "bin"


def test_the_wheel_gives_a_test_its_broker(installed: Path, tmp_path: Path) -> None:
    script = "from ottla import Broker\nwith Broker() as b:\n print(b.bootstrap.split(':')[0], 'plain' in b.output)"
    assert run(installed / "python", "-P", "-c", script, cwd=tmp_path) == "127.0.0.1 True\n"
    assert run(installed / "ottla", "--version", cwd=tmp_path) == "ottla 0.1.0\n"
    where = "import sys, ottla; sys.stdout.write(ottla.__file__)"
    assert Path(run(installed / "python", "-P", "-c", where, cwd=tmp_path)).is_relative_to(installed.parent)


def test_the_wheel_serves_as_the_readme_says(installed: Path, tmp_path: Path) -> None:
    line = re.findall(r"^ottla (serve) +# .*$", (ROOT / "README.md").read_text(), re.MULTILINE)[0]
    command = [installed / "ottla", *line.split(), "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    environment["XDG_DATA_HOME"] = str(tmp_path)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith("ottla ready bootstrap=localhost:")
        finally:
            broker.send_signal(signal.SIGTERM)
            _, said = broker.communicate(timeout=60)
    assert broker.returncode == 0
    assert (tmp_path / "ottla" / "meta.properties").exists()
    # The line of the plain form names the extra to install.
    assert "pip install 'ottla[native]' && python -m ottla.build_native" in said


def test_the_wheel_brings_the_examples(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "ottla", "pipeline", "example", "ingest-files", cwd=tmp_path).startswith("examples/")
    assert (tmp_path / "examples" / "orders" / "2026-01.csv").exists()


def test_the_extra_native_holds_the_packages_of_the_compiler(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    assert re.findall(r"^Requires-Dist: ([\w-]+); extra == 'native'$", metadata, re.MULTILINE) == [
        "mypy",
        "setuptools",
        "types-setuptools",
    ]
