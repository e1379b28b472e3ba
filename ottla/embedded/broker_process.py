"""The process behind `ottla.Broker`: a broker that ends with its parent, however the parent ends.

Owns the watch over the parent. Its standard input is a pipe that the parent holds open: when the pipe closes, the child
stops and removes its data. A fork of the parent may hold the pipe open too, so the child checks the parent's pid, too.
Must not know how a broker works. Counterpart in Kafka: none.
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
    """A thread that calls `hear` with the parent's input, and stops this process when the parent ends."""

    def __init__(self, folder: str, hear: Callable[[bytes], None] = lambda said: None) -> None:
        self.folder = folder
        self.hear = hear
        self.parent = os.getppid()
        self.is_orphan = False
        # Until the server installs its own handler.
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
        """Remove the data if the parent is gone and cannot."""
        if self.is_orphan:
            shutil.rmtree(self.folder, ignore_errors=True)


def main(folder: str, settings: list[str]) -> int:
    """Serve with these KEY=VALUE settings; return the exit code."""
    watch = ParentWatch(folder)
    from ottla.serving import run

    try:
        return run(None, dict(setting.split("=", 1) for setting in settings), {})
    finally:
        watch.clean_up()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
