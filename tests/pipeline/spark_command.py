"""`ottla pipeline` as a process, with the jars of the tests."""

import sys
from collections.abc import Sequence
from pathlib import Path

from compat_tests.support.jars import require, spark_jars

COMMAND = (sys.executable, "-P", "-m", "ottla", "pipeline")


def jar_folder(parent: Path) -> Path:
    """A directory with all jars."""
    require("java")
    folder = parent / "jars"
    if not folder.exists():
        folder.mkdir()
        for jar in spark_jars():
            (folder / jar.name).symlink_to(jar)
    return folder


def run_once(job: Path, jars: Path, *more: str) -> Sequence[str]:
    """The command line that runs a job until all is done that there is."""
    return (*COMMAND, "run", str(job), "--once", "--jars", str(jars), *more)
