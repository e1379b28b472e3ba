"""What the tests of the server run as a job: it writes down its start and its end, and does what its config says.

`does` is one of: run (until SIGTERM), end (well, at once), fail (with a line), stay (whatever SIGTERM says), parent (of
a process that would outlive it). That it runs twice at a time it finds by itself, with a lock that the server knows
nothing of.
"""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import javaproperties


def main(journal: str, file: str, checkpoint: str) -> int:
    config = javaproperties.loads(Path(file).read_text("iso-8859-1"))
    name, does = config["name"], config.get("does", "run")

    def note(what: str, pid: int) -> None:
        with open(journal, "a") as lines:
            lines.write(f"{what} {name} {pid} {config.get('mark', '-')} {Path(checkpoint).name}\n")

    with open(f"{journal}.{name}", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("twice", os.getpid())
        signal.signal(signal.SIGTERM, signal.SIG_IGN if does == "stay" else lambda *_: sys.exit(0))
        note("start", os.getpid())
        try:
            if does == "fail":
                print("fake job: there is nothing to do", file=sys.stderr)
                return 1
            if does == "parent":
                note("child", subprocess.Popen(["sleep", "600"]).pid)
            while does != "end":
                signal.pause()
        finally:
            note("stop", os.getpid())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
