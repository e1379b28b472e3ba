"""Brokers on a disk of which one log directory is as slow as a test says, by a library that is preloaded into them."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat_tests.support.brokers import Broker

SOURCE = Path(__file__).with_name("slow_writes.c")
# Where writes are slow, and where they are not.
SLOW = "slow-disk"
QUICK = "quick-disk"


class SlowWrites:
    """The library, and how long each write to a `.log` file of a test's topics in the slow directory takes."""

    def __init__(self, folder: Path) -> None:
        self.library = folder / "slow_writes.so"
        self._milliseconds = folder / "slow_writes.ms"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, SOURCE, "-ldl"], check=True)
        self.take(0)

    def take(self, milliseconds: int) -> None:
        """Have each write take so long from now on."""
        new = self._milliseconds.with_suffix(".new")
        new.write_text(str(milliseconds))
        new.replace(self._milliseconds)

    def broker(self, kind: type[Broker], topics: str) -> type[Broker]:
        """Return such brokers on two directories; writes to topics whose names begin with `topics` may be slow."""
        library, milliseconds = self.library, self._milliseconds

        class OnSlowDisk(kind):  # type: ignore[misc, valid-type]
            def __init__(self, data: Path, overrides: Sequence[str] = ()) -> None:
                # The first one holds the cluster's metadata as well.
                directories = f"log.dirs={data / QUICK},{data / SLOW}"
                super().__init__(data, [directories, *overrides])

            def command(self) -> list[str]:
                return [
                    "env",
                    f"LD_PRELOAD={library}",
                    f"SLOW_WRITES_TO=/{SLOW}/{topics}",
                    f"SLOW_WRITES_MS={milliseconds}",
                    *super().command(),
                ]

        return OnSlowDisk


def directory_of(broker: Broker, topic: str) -> str:
    """Return which of the two directories holds partition 0 of a topic."""
    (found,) = broker.data.glob(f"*/{topic}-0")
    return found.parent.name
