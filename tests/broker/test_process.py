import subprocess
import sys

import pytest

SERVER = """
import sys
import trio
from ottla.broker.process import serve
from ottla.log.directory_failures import NoLogDirectoryError

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
