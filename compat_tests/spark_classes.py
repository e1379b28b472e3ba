"""An archive of the classes that JVMs of Spark load, read and verified once: with it they start a third sooner.

`python -m compat_tests.spark_classes` makes it, where the PySpark is whose classes these are. A JVM that finds it made
by another Java, or of other jars, does without.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from compat_tests.jars import QUICK

ARCHIVE = Path(sys.prefix) / "spark.jsa"
# How Spark is told of options for its JVM.
OPTIONS = "SPARK_SUBMIT_OPTS"
JOB = """\
[source]
type = "files"
path = "{folder}/in"
[[steps]]
kind = "sql"
query = "SELECT CAST(value AS STRING) AS value, count(*) AS number FROM records GROUP BY ALL"
[sink]
type = "parquet"
path = "{folder}/out"
"""


def from_archive() -> tuple[str, ...]:
    """Return the options with which a JVM begins with the archive, if there is one."""
    # Java tells of what does not fit on stdout.
    return (f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable") if ARCHIVE.exists() else ()


def main() -> None:
    """Make the archive of what a small job loads; not every Java can."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        (folder / "in" / "lines").write_text("one\ntwo\n")
        (folder / "job.toml").write_text(JOB.format(folder=folder))
        made = ARCHIVE.with_suffix(f".{os.getpid()}")
        options = " ".join([*QUICK, f"-XX:ArchiveClassesAtExit={made}"])
        command = [sys.executable, "-P", "-m", "ottla", "pipeline", "run", str(folder / "job.toml"), "--once"]
        environment = {**os.environ, OPTIONS: options}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        if made.exists():
            made.replace(ARCHIVE)
        else:
            sys.stderr.write(f"Spark has no archive of its classes to start from:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
