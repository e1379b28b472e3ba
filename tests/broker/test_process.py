import subprocess
import sys

import pytest

SERVER = """
import sys
import trio
from ottla.broker.process import serve

class Server:
    async def run(self, ready):
        async with trio.open_nursery() as nursery:
            for text in sys.argv[1:]:
                nursery.start_soon(self.fail, text)

    async def fail(self, text):
        raise OSError(text)

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
        (["the disk"], "OSError('the disk')"),
        (["the disk", "the disk"], "OSError('the disk')"),
        (["the disk", "another"], "ExceptionGroup("),
    ],
)
def test_one_failure_that_ends_several_tasks_is_told_once(failures: list[str], told: str) -> None:
    server = subprocess.run([sys.executable, "-c", SERVER, *failures], capture_output=True, text=True, check=True)
    assert server.stdout.startswith(told)
