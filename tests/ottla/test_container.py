"""The container: its files are well-formed, brokers accept its configuration, and its steps make a broker.

No Docker is needed: a test runs the steps of the Dockerfile one by one, with a virtual environment in the place of the
base image's Python, and with the folders of the image under a temporary one. It leaves out the programs ONLY_FOR_ROOT.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from compat_tests.support.jars import require
from ottla import native
from ottla.broker.config.broker_config import BrokerConfig
from ottla.embedded.broker import reserved_port

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILES = ("compose.yaml", "compose.cluster.yaml")
ONLY_FOR_ROOT = {"apt-get", "useradd", "chown"}
Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """Return the instructions of the Dockerfile, with continued lines joined."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def last(name: str) -> str:
    """Return the arguments of the last instruction of this name, because the last one counts for the image."""
    return [rest for each, rest in instructions() if each == name][-1]


def variables(rest: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", rest))


def services() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in COMPOSE_FILES:
        for name, service in YAML(typ="safe").load((ROOT / file).read_text())["services"].items():
            yield f"{file} {name}", service


def brokers() -> dict[str, dict[str, str]]:
    """Return the KAFKA_* variables of the image, and of each broker in the compose files."""
    of_image = {name: value for name, value in variables(last("ENV")).items() if name.startswith("KAFKA_")}
    composed = {name: of_image | service["environment"] for name, service in services() if "build" in service}
    return {"Dockerfile": of_image} | composed


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    command = [str(Path(sys.executable).with_name("hadolint")), "--no-color", "Dockerfile"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_compose_files_follow_their_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *COMPOSE_FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", brokers())
def test_a_broker_takes_its_configuration_without_a_warning(name: str) -> None:
    config, warnings = BrokerConfig.load(None, {}, brokers()[name])
    assert list(warnings) == []
    assert config.log_dirs == (Path("/var/lib/ottla"),)


def test_every_published_port_is_an_advertised_port() -> None:
    published = {name: service["ports"] for name, service in services() if "ports" in service}
    assert len(published) == 4
    for name, (port,) in published.items():
        config, _ = BrokerConfig.load(None, {}, brokers()[name])
        to_clients = config.advertised_listeners[0]
        listens = config.listeners[0]
        assert port == f"127.0.0.1:{to_clients.port}:{listens.port}"
        assert (to_clients.name, to_clients.host) == (listens.name, "localhost")


def test_nobody_is_root_in_the_container() -> None:
    assert all(int(number) > 0 for number in last("USER").split(":"))


class Image:
    """An image, built in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cwd = folder
        base = folder / "base"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", base], check=True)
        unwanted = ("KAFKA_", "PYTHON", "VIRTUAL_ENV", native.PLAIN)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        self.environment["PATH"] = f"{base / 'bin'}:{os.environ['PATH']}"
        self.left_out: set[str] = set()

    def place(self, text: str) -> str:
        """Return a text of the Dockerfile with the image's folders replaced by those under `folder`."""
        return re.sub(r"(?<![\w.])/(?=(?:opt|var/lib)/)", f"{self.folder}/", text)

    def build(self) -> None:
        for name, rest in instructions():
            step = getattr(self, f"_{name.lower()}", None)
            if step is not None:
                step(self.place(rest))

    def _env(self, rest: str) -> None:
        path = self.environment["PATH"]
        self.environment |= {name: value.replace("$PATH", path) for name, value in variables(rest).items()}
        # A build here may use pip's cache.
        self.environment.pop("PIP_NO_CACHE_DIR", None)

    def _workdir(self, rest: str) -> None:
        self.cwd = Path(rest)
        self.cwd.mkdir(parents=True, exist_ok=True)

    def _copy(self, rest: str) -> None:
        if rest.startswith("--from=build "):  # into the next stage, which has the same folder here
            _, source, target = rest.split()
            assert source == target
            return
        assert rest == ". ."
        rules = (ROOT / ".dockerignore").read_text().splitlines()
        ignored = shutil.ignore_patterns(*(rule.removeprefix("**/") for rule in rules if rule.startswith("**/")))
        for name in (rule.removeprefix("!") for rule in rules if rule.startswith("!")):
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.cwd / name, symlinks=True, ignore=ignored)
            else:
                shutil.copy(ROOT / name, self.cwd / name)

    def _run(self, rest: str) -> None:
        for command in (each.strip() for each in rest.split("&&")):
            program = command.split()[0]
            if program in ONLY_FOR_ROOT:
                self.left_out.add(program)
                continue
            if "ottla.build_native" in command:
                self._take_what_is_compiled()
            if program == "mkdir":
                Path(command.split()[1]).parent.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(
                command, shell=True, cwd=self.cwd, env=self.environment, capture_output=True, text=True, timeout=540
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def _take_what_is_compiled(self) -> None:
        """Copy the compiled form of these sources, if it exists, because to compile takes a minute."""
        if native.is_used():
            (package,) = self.folder.glob("opt/ottla/lib/*/site-packages/ottla")
            shutil.copytree(native.FOLDER, package / native.FOLDER.relative_to(native.PACKAGE))

    def command(self, rest: str) -> list[str]:
        words: list[str] = json.loads(rest)
        return [shutil.which(words[0], path=self.environment["PATH"]) or words[0], *words[1:]]

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.cwd, env=self.environment, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    require("cc")
    image = Image(tmp_path_factory.mktemp("image"))
    image.build()
    return image


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_steps_of_the_dockerfile_make_a_broker_whose_health_is_known(image: Image) -> None:
    assert image.left_out == ONLY_FOR_ROOT
    data = image.folder / "var" / "lib" / "ottla"
    check = image.command(last("HEALTHCHECK").partition("CMD")[2])
    serve = image.command(f"{last('ENTRYPOINT')[:-1]}, {last('CMD')[1:]}")
    with reserved_port() as port:
        number = str(port.getsockname()[1])
        for name in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"):
            image.environment[name] = f"PLAINTEXT://localhost:{number}"
        with image.start(serve) as broker:
            try:
                assert broker.stdout is not None
                assert broker.stdout.readline() == f"ottla ready bootstrap=localhost:{number}\n"
                with image.start(check) as healthy:
                    _, complaint = healthy.communicate(timeout=60)
            finally:
                broker.send_signal(signal.Signals[last("STOPSIGNAL")])
                _, said = broker.communicate(timeout=60)
        with image.start(check) as ill:
            ill.communicate(timeout=60)
    assert (healthy.returncode, complaint) == (0, "")
    assert broker.returncode == 0
    assert "the hot path runs compiled" in said
    assert ill.returncode == 1
    assert (data / ".kafka_cleanshutdown").exists()
