"""The process behind `ottla.Cluster`: several brokers that end with their parent, however the parent ends.

The parent writes a command for one broker as a line to standard input; the answer is a line on standard output.
"""

import sys
from pathlib import Path

from ottla.embedded.broker_process import ParentWatch


def main(folder: str, count: int, settings: list[str]) -> int:
    """Serve as `count` brokers with these KEY=VALUE settings; return the exit code."""
    watch = ParentWatch(folder)
    from ottla.embedded.cluster import Brokers
    from ottla.serving import run_server

    overrides = dict(setting.split("=", 1) for setting in settings)

    def make() -> Brokers:
        brokers = Brokers(count, Path(folder), overrides)
        watch.hear = brokers.hear
        return brokers

    try:
        return run_server(lambda: make)
    finally:
        watch.clean_up()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
