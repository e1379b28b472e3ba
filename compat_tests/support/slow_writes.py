"""Brokers with one slow log directory, by a library that is preloaded into them."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat_tests.support.brokers import Broker

SOURCE = Path(__file__).with_name("slow_writes.c")
# The slow directory and the quick one.
SLOW = "slow-disk"
QUICK = "quick-disk"


class SlowWrites:
    """The library, and the time of each write to a `.log` file of a test's topics in the slow directory."""

    def __init__(self, folder: Path) -> None:
        self.library = folder / "slow_writes.so"
        self._milliseconds = folder / "slow_writes.ms"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, SOURCE, "-ldl"], check=True)
        self.take(0)

    def take(self, milliseconds: int) -> None:
        """Set the time of all later writes."""
        new = self._milliseconds.with_suffix(".new")
        new.write_text(str(milliseconds))
        new.replace(self._milliseconds)

    def broker(self, kind: type[Broker], topics: str) -> type[Broker]:
        """Return a kind of broker with two directories; writes to topics with the prefix `topics` may be slow."""
        library, milliseconds = self.library, self._milliseconds

        class OnSlowDisk(kind):  # type: ignore[misc, valid-type]
            def __init__(self, data: Path, overrides: Sequence[str] = ()) -> None:
                # The quick one is first, because the first one also has the cluster's metadata.
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
    """Return the directory of partition 0 of a topic."""
    (found,) = broker.data.glob(f"*/{topic}-0")
    return found.parent.name
