"""Processes of Apache Kafka's programs beside the broker: Connect, Streams and MirrorMaker."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from compat_tests.support import jars
from compat_tests.support.java import java_command, program_command

GROUP = "org.apache.kafka"
CONNECT = ("connect-runtime", "connect-file", "connect-mirror")
# The brokers' jars have the implementation of logging that Connect's interface for loggers needs.
BROKERS = {"3.9.2": jars.ZOOKEEPER_BROKER, "4.3.1": jars.BROKER}
RELEASES = tuple(BROKERS)
COUNTS = Path(__file__).parent / "programs" / "WindowedCounts.java"
PATIENCE_S = 60


def connect_command(version: str, main_class: str, *arguments: str) -> list[str]:
    """Return the command line of a program of Connect."""
    coordinates = [*(f"{GROUP}:{each}:{version}" for each in CONNECT), BROKERS[version]]
    path = os.pathsep.join(map(jars.classpath, coordinates))
    return [*java_command(path, "-Xmx512M", *jars.QUICK), f"{GROUP}.connect.{main_class}", *arguments]


def streams_command(version: str, *arguments: str) -> list[str]:
    """Return the command line of the counting program."""
    return [*program_command(COUNTS, f"{GROUP}:kafka-streams:{version}"), *arguments]


def properties(path: Path, settings: Mapping[str, object]) -> str:
    """Write a properties file, and return its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return str(path)


@contextlib.contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[Callable[[], None]]:
    """Run a program in a folder during the block, and end it by SIGTERM.

    Yields a function that raises RuntimeError if the program has ended.
    """
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def check() -> None:
        if process.poll() is not None:
            lines = [each for each in (folder / "output").read_text().splitlines() if "Exception" in each]
            raise RuntimeError(f"it ended with {process.returncode}: {lines[-1:]}")

    try:
        yield check
        check()
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
