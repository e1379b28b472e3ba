"""A broker as a process: what it does between its start and its first client."""

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
    ("failures", "told"),
    [
        (["other"], "OSError('it failed')"),
        (["other", "disk"], "NoLogDirectoryError('it failed')"),
        (["disk", "disk"], "NoLogDirectoryError('it failed')"),
        (["other", "other"], "ExceptionGroup("),
    ],
)
def test_a_failed_directory_is_told_whatever_fails_with_it(failures: list[str], told: str) -> None:
    server = subprocess.run([sys.executable, "-c", SERVER, *failures], capture_output=True, text=True, check=True)
    assert server.stdout.startswith(told)


# Tells for each look of the collector through everything whether the watchdog runs already, until the broker is ready.
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
def test_the_watchdog_begins_after_the_look_through_all_that_a_start_leaves(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True True\n", done.stderr
