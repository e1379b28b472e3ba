"""A broker as a process: the error it ends with, and the time until its first client."""

import subprocess
import sys
from pathlib import Path

import pytest

SERVER = """
import sys
import trio
from ottla.broker.loop.process import serve
from ottla.log.state.directory_failures import NoLogDirectoryError

class Server:
    async def run(self, ready):
        async with trio.open_nursery() as nursery:
            for kind in sys.argv[1:]:
                nursery.start_soon(self.fail, {"disk": NoLogDirectoryError, "other": OSError}[kind])

    async def fail(self, kind):
        raise kind("it failed")

    def stop(self):
        pass

try:
    serve(Server, ready=lambda where: None)
except BaseException as error:
    sys.stdout.write(repr(error))
"""


@pytest.mark.parametrize(
    ("failures", "error"),
    [
        (["other"], "OSError('it failed')"),
        (["other", "disk"], "NoLogDirectoryError('it failed')"),
        (["disk", "disk"], "NoLogDirectoryError('it failed')"),
        (["other", "other"], "ExceptionGroup("),
    ],
)
def test_a_failed_directory_is_the_error_raised_whatever_fails_with_it(failures: list[str], error: str) -> None:
    server = subprocess.run([sys.executable, "-c", SERVER, *failures], capture_output=True, text=True, check=True)
    assert server.stdout.startswith(error)


# Notes for each full garbage collection until the broker is ready whether the watchdog runs already.
PROGRAM = """
import gc, os, signal, sys, threading
from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.node import Node
from ottla.broker.loop.process import serve

watched = []

def collected(phase, info):
    if info["generation"] == 2 and phase == "start":
        watched.append(any(each.name == "watchdog" for each in threading.enumerate()))

def ready(bootstrap):
    gc.callbacks.remove(collected)
    print(watched and not any(watched), gc.get_freeze_count() > 10_000)
    os.kill(os.getpid(), signal.SIGTERM)

gc.callbacks.append(collected)
settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": sys.argv[1]}
serve(lambda: Node(BrokerConfig.load(None, settings, {})[0]), ready=ready)
"""


@pytest.mark.slow
def test_the_watchdog_starts_after_the_full_collection_at_the_end_of_a_start(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True True\n", done.stderr
