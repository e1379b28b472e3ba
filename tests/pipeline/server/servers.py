"""Servers of jobs, each a process of its own, to end and to start again."""

import contextlib
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from .jobs import Journal, wait_for

READY = "ottla pipeline ready "
SESSION_TIMEOUT_MS = 3_000
TIMEOUT_S = 60.0


class Server:
    """One server."""

    def __init__(self, options: dict[str, Any], errors: Path) -> None:
        self.errors = errors
        command = [sys.executable, "-m", "tests.pipeline.server.server_process", json.dumps(options)]
        with errors.open("ab") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), errors.read_text()
        self.url = line.removeprefix(READY).strip()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request; return the status and the body of the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                said = answer.read()
                return answer.status, json.loads(said) if said else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def have(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that goes well; return the body of the answer."""
        status, told = self.ask(method, path, body)
        assert status < 300, told
        return told

    def create(self, *names: str, **config: str) -> None:
        for name in names:
            self.have("POST", "/connectors", {"name": name, "config": {"source.type": "topic", **config}})

    def states(self) -> dict[str, str]:
        """The states of all jobs that have one."""
        expanded = self.have("GET", "/connectors?expand=status")
        return {name: each["status"]["connector"]["state"] for name, each in expanded.items()}

    def workers(self) -> dict[str, str]:
        """Who says that it has a job that runs."""
        expanded = self.have("GET", "/connectors?expand=status")
        told = {name: each["status"]["connector"] for name, each in expanded.items()}
        return {name: each["worker_id"] for name, each in told.items() if each["state"] == "RUNNING"}

    @property
    def port(self) -> int:
        return urllib.parse.urlsplit(self.url).port or 0

    def has_joined(self) -> bool:
        return self.ask("GET", "/health")[0] == 200

    def stop(self) -> None:
        """End as an operator would."""
        self.process.terminate()
        assert self.process.wait(TIMEOUT_S) == 0, self.errors.read_text()
        self._bury()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._bury()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _bury(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()


class Servers:
    """The servers of one group, on shared storage."""

    def __init__(self, folder: Path, bootstrap: str, group: str) -> None:
        self.folder = folder
        self.directory = folder / "jobs"
        self.journal = Journal(folder / "journal")
        self.options = {
            "directory": str(self.directory),
            "journal": str(self.journal.file),
            "bootstrap": bootstrap,
            "listen": "127.0.0.1:0",
            "group_id": group,
            "config_topic": f"{group}-configs",
            "status_topic": f"{group}-status",
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "grace_s": 5.0,
        }
        self.running: list[Server] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.running:
            with contextlib.suppress(AssertionError):
                server.kill()
        wait_for(lambda: self.journal.running() == [])

    def start(self, **options: Any) -> Server:
        server = Server({**self.options, **options}, self.folder / "stderr")
        self.running.append(server)
        return server

    def stop(self, server: Server) -> None:
        self.running.remove(server)
        server.stop()

    def kill(self, server: Server) -> None:
        self.running.remove(server)
        server.kill()

    def wait_for_jobs(self, *names: str) -> None:
        """Wait until exactly these run, and every server knows that."""
        wait_for(lambda: self.journal.running() == sorted(names))
        for server in self.running:
            wait_for(lambda server=server: sorted(server.workers()) == sorted(names))  # type: ignore[misc]

    def check(self) -> None:
        """No job ever ran twice at a time."""
        assert self.journal.lines("twice") == []


@contextlib.contextmanager
def servers(folder: Path, bootstrap: str, group: str) -> Iterator[Servers]:
    """Servers of a group that is nobody else's; none of their jobs runs twice."""
    with Servers(folder, bootstrap, group) as group_of_servers:
        yield group_of_servers
        group_of_servers.check()
