"""The process behind `ottla.Broker`: a broker that ends with whoever started it, however that one ends.

Its standard input is a pipe that its parent holds open. When it closes, the parent is gone, and the child stops and
removes the data that nobody will ask for again. A process that the parent has forked may hold the pipe open too, so the
parent's number is looked at as well.
"""

import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

LOOK_EVERY_S = 1.0
LONGEST_COMMAND = 100
PATIENCE_S = 10.0


class ParentWatch:
    """A thread that hears what the parent says, waits for its end, and then stops this process."""

    def __init__(self, folder: str, hear: Callable[[bytes], None] = lambda said: None) -> None:
        self.folder = folder
        self.hear = hear
        self.parent = os.getppid()
        self.is_orphan = False
        # Until there is a server that stops in order.
        signal.signal(signal.SIGTERM, self._leave)
        threading.Thread(target=self._run, name="parent-watch", daemon=True).start()

    def _run(self) -> None:
        while os.getppid() == self.parent:
            if select.select([0], [], [], LOOK_EVERY_S)[0]:
                said = os.read(0, LONGEST_COMMAND)
                if not said:
                    break
                self.hear(said)
        self.is_orphan = True
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE_S)
        self.clean_up()
        os._exit(1)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self.clean_up()
        os._exit(0)

    def clean_up(self) -> None:
        """Remove the data if there is no parent to do it."""
        if self.is_orphan:
            shutil.rmtree(self.folder, ignore_errors=True)


def main(folder: str, settings: list[str]) -> int:
    """Serve with these KEY=VALUE settings."""
    watch = ParentWatch(folder)
    from ottla.serving import run

    try:
        return run(None, dict(setting.split("=", 1) for setting in settings), {})
    finally:
        watch.clean_up()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
