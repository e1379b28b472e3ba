"""A PostgreSQL server for tests, of whatever version is installed."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.support.jars import lack

DEBIAN = Path("/usr/lib/postgresql")


class Postgres:
    """A server that runs."""

    def __init__(self, programs: Path, port: int) -> None:
        self._psql = [str(programs / "psql"), "-h", "127.0.0.1", "-p", str(port), "-U", "ottla", "-qAtX", "postgres"]
        self.url = f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=ottla"

    def run(self, *statements: str) -> list[str]:
        """Run statements, each in a transaction of its own; return their rows, with "|" between values."""
        commands = [part for statement in statements for part in ("-c", statement)]
        command = [*self._psql, "-v", "ON_ERROR_STOP=1", *commands]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()


@contextmanager
def running() -> Iterator[Postgres]:
    """Run a server as long as it is needed."""
    programs = _programs()
    # It refuses to run as root, and whoever it runs as has to reach the folder.
    user = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if user is not None:
            shutil.chown(folder, user)
        data = str(folder / "data")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"

        def run(program: str, *arguments: str) -> None:
            command = [str(programs / program), "-D", data, *arguments]
            # Its server keeps what it inherits, so nothing waits for the end of a pipe.
            output = subprocess.DEVNULL
            subprocess.run(command, check=True, stdout=output, stderr=output, cwd=folder, user=user, timeout=120)

        run("initdb", "-U", "ottla", "-A", "trust", "--no-sync")
        run("pg_ctl", "start", "-w", "-l", str(folder / "server.log"), "-o", options)
        try:
            yield Postgres(programs, port)
        finally:
            run("pg_ctl", "stop", "-m", "immediate")


def _programs() -> Path:
    on_path = map(Path, os.environ["PATH"].split(os.pathsep))
    for folder in (*on_path, *sorted(DEBIAN.glob("*/bin"), reverse=True)):
        if all((folder / name).exists() for name in ("initdb", "pg_ctl", "psql")):
            return folder
    return lack("PostgreSQL is missing")
