"""The process behind `ottla.Cluster`: several brokers that end with whoever started them, however that one ends.

Its parent says on its standard input what becomes of single brokers; each of these lines is answered with one.
"""

import sys
from pathlib import Path

from ottla.embedded.broker_process import ParentWatch


def main(folder: str, count: int, settings: list[str]) -> int:
    """Serve as so many brokers with these KEY=VALUE settings."""
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
