"""Apache Kafka's jars: found in the local Maven repository, fetched with `mvn` when missing.

`python -m compat_tests.support.jars` fetches all jars that the tests always need. The paths that Maven resolved are
kept under `.cache/jars`.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

SPECIFICATIONS = ("org.apache.kafka:kafka-clients:3.9.2", "org.apache.kafka:kafka-clients:4.4.0")
BROKER = "org.apache.kafka:kafka_2.13:4.3.1"
TOOLS = "org.apache.kafka:kafka-tools:4.3.1"
ZOOKEEPER_BROKER = "org.apache.kafka:kafka_2.13:3.9.2"
ZOOKEEPER_TOOLS = "org.apache.kafka:kafka-tools:3.9.2"
JACKSON = "com.fasterxml.jackson.core:jackson-databind:2.21.2"
# Connect's transforms, and the converter that writes their records as JSON.
CONNECT = ("org.apache.kafka:connect-transforms:3.9.2", "org.apache.kafka:connect-json:3.9.2")
# Spark's Kafka source and sink, Avro, Delta and databases, with the jars that Spark's installation lacks, and Kafka
# Streams, whose serializers run in Spark's JVM; each without its dependencies.
SPARK = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
    "org.apache.spark:spark-avro_2.13:4.1.1",
    "io.delta:delta-spark_4.2_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.postgresql:postgresql:42.7.7",
    "org.apache.kafka:kafka-streams:3.9.2",
)

# The options of the fastest start, for JVMs that end before the second compiler would help.
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "jars"
# The implementation of Kafka's logging: only errors, on stderr. The last release with ZooKeeper needs log4j 1.
SIMPLE_LOGGING = "org.slf4j:slf4j-simple:1.7.36"
LOG4J_1 = "org.slf4j:slf4j-reload4j:1.7.36"
QUIET = {
    "simplelogger.properties": "org.slf4j.simpleLogger.defaultLogLevel=error\n",
    "log4j.properties": (
        "log4j.rootLogger=ERROR, stderr\n"
        "log4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.stderr.target=System.err\n"
        "log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.stderr.layout.ConversionPattern=%p %m (%c)%n\n"
    ),
}
POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def jar(coordinates: str) -> Path:
    """Return one jar, without its dependencies."""
    _, artifact, version = coordinates.split(":")
    name = f"{artifact}-{version}.jar"
    return next(path for path in _with_all_it_needs(coordinates) if path.name == name)


def classpath(coordinates: str) -> str:
    """Return the class path of a jar and its dependencies, with logging of errors only."""
    return os.pathsep.join(str(path) for path in (_quiet(), *_with_all_it_needs(coordinates)))


def _quiet() -> Path:
    """Return a jar with QUIET, because Java archives no classes if a directory is in the class path."""
    text = "".join(QUIET.values())
    return archive(CACHE / f"quiet-{zlib.crc32(text.encode()):08x}.jar", {k: v.encode() for k, v in QUIET.items()})


def archive(path: Path, entries: Mapping[str, bytes]) -> Path:
    """Return the path of a zip file, and write it if it is missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(made, "w") as file:
            for name, content in entries.items():
                file.writestr(name, content)
        made.replace(path)
    return path


def spark_jars() -> list[Path]:
    """Return the jars that Spark needs beyond its installation."""
    return _resolved("spark", "".join(_dependency(each, ALONE) for each in SPARK))


def require(tool: str) -> str:
    """Return the path of a program; if it is missing, the test fails in CI and is skipped elsewhere."""
    return shutil.which(tool) or lack(f"{tool} is missing")


def lack(what: str) -> NoReturn:
    """End a test because the machine lacks something: it fails in CI and is skipped elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def _with_all_it_needs(coordinates: str) -> list[Path]:
    logging = LOG4J_1 if coordinates in (ZOOKEEPER_BROKER, ZOOKEEPER_TOOLS) else SIMPLE_LOGGING
    return _resolved(coordinates.replace(":", "_"), _dependency(coordinates) + _dependency(logging))


def _dependency(coordinates: str, exclusions: str = "") -> str:
    return DEPENDENCY.format(*coordinates.split(":"), exclusions)


def _resolved(name: str, dependencies: str) -> list[Path]:
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    listing = folder / "classpath"
    with (folder / "lock").open("w") as lock:  # test processes run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        paths = _read(listing)
        pom = folder / "pom.xml"
        wanted = POM.format(dependencies=dependencies)
        is_the_same = pom.exists() and pom.read_text() == wanted
        if not paths or not is_the_same or not all(path.exists() for path in paths):
            pom.write_text(wanted)
            _resolve(pom, listing)
            paths = _read(listing)
    return paths


def _read(listing: Path) -> list[Path]:
    text = listing.read_text().strip() if listing.exists() else ""
    return [Path(entry) for entry in text.split(os.pathsep) if entry]


def _resolve(pom: Path, listing: Path) -> None:
    mvn = require("mvn")
    options = ["-q", "-B", "-f", str(pom), "-DincludeScope=runtime", f"-Dmdep.outputFile={listing}"]
    done = subprocess.run([mvn, *options, "dependency:build-classpath"], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"mvn could not fetch what {pom} says:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Fetch all jars that the tests always need."""
    if shutil.which("mvn") is None and not os.environ.get("CI"):
        sys.stderr.write("mvn is missing: tests against Apache Kafka are skipped\n")
        return
    for coordinates in (*SPECIFICATIONS, JACKSON, BROKER, TOOLS, ZOOKEEPER_BROKER, ZOOKEEPER_TOOLS, *CONNECT):
        classpath(coordinates)
    spark_jars()


if __name__ == "__main__":
    main()
