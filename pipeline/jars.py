"""Which jars a job needs beyond those that PySpark comes with, for the PySpark that is installed.

Owns the one table of coordinates, and how jars are fetched: by Maven where there is one, which knows the user's
mirrors, else by Spark itself. Must not know jobs. Counterpart in Kafka: plugin.path.
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

FETCH_SECONDS: Final = 600
_POM: Final = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
# Each without what it depends on: Spark has the rest, and another version of it would be in the way.
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)


class NoJarsError(Exception):
    """Jars that there are not; the text is one line that says which, and what to do."""


class _Release(NamedTuple):
    """What fits a minor release of Spark, each of its patches: Maven has not every part of every patch."""

    kafka: str
    avro: str
    iceberg: str | None = None


_RELEASES: Final = {
    "4.0": _Release(kafka="4.0.4", avro="4.0.2", iceberg="1.10.0"),
    "4.1": _Release(kafka="4.1.3", avro="4.1.1", iceberg="1.11.0"),
    "4.2": _Release(kafka="4.2.0", avro="4.1.1"),
}
_TOKEN_PROVIDER: Final = "4.0.0"
_DELTA: Final = "4.4.0"
KAFKA, AVRO, DELTA, ICEBERG = "kafka", "avro", "delta", "iceberg"
_DRIVERS: Final = {"sqlite": "org.xerial:sqlite-jdbc:3.50.3.0", "postgresql": "org.postgresql:postgresql:42.7.7"}


def coordinates(needs: Iterable[str], spark: str) -> list[str]:
    """What Maven calls the jars that are needed, for a version of PySpark."""
    minor = ".".join(spark.split(".")[:2])
    release = _RELEASES.get(minor)
    if release is None:
        raise NoJarsError(f"PySpark {spark} is installed; known are {', '.join(_RELEASES)}: install one of them")
    if ICEBERG in needs and release.iceberg is None:
        known = [each for each, of in _RELEASES.items() if of.iceberg]
        raise NoJarsError(f"there is no Iceberg for PySpark {spark}: install PySpark {' or '.join(known)}")
    by_need = {
        KAFKA: [
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{release.kafka}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{_TOKEN_PROVIDER}",
            "org.apache.kafka:kafka-clients:3.9.2",
            "org.apache.commons:commons-pool2:2.13.1",
        ],
        AVRO: [f"org.apache.spark:spark-avro_2.13:{release.avro}"],
        DELTA: [f"io.delta:delta-spark_{minor}_2.13:{_DELTA}", f"io.delta:delta-storage:{_DELTA}"],
        ICEBERG: [f"org.apache.iceberg:iceberg-spark-runtime-{minor}_2.13:{release.iceberg}"],
        **{name: [driver] for name, driver in _DRIVERS.items()},
    }
    return [each for need in sorted(set(needs)) for each in by_need[need]]


def settings(needs: Iterable[str], spark: str, jars: Path | None, cache: Path) -> dict[str, str]:
    """The keys of Spark that bring the jars in: from a directory of them, from Maven, or by Spark's own means."""
    wanted = coordinates(needs, spark)
    if jars is not None:
        missing = [each for each in wanted if not (jars / file_name(each)).is_file()]
        if missing:
            raise NoJarsError(f"{jars} lacks {', '.join(map(file_name, missing))}")
        return {"spark.jars": ",".join(map(str, sorted(jars.glob("*.jar"))))}
    if not wanted:
        return {}
    if shutil.which("mvn") is None:
        return {"spark.jars.packages": ",".join(wanted)}
    return {"spark.jars": ",".join(map(str, fetched(wanted, cache)))}


def file_name(coordinate: str) -> str:
    """What the file of a jar is called."""
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


def fetched(wanted: list[str], cache: Path) -> list[Path]:
    """The jars, which Maven fetches when they are not there yet."""
    folder = cache / f"spark-{hashlib.sha256(' '.join(wanted).encode()).hexdigest()[:16]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as made:
            _copy(wanted, Path(made))
            # Somebody else may have been quicker, with the same.
            with suppress(OSError):
                (Path(made) / "jars").rename(folder)
    return sorted(folder.glob("*.jar"))


def _copy(wanted: list[str], folder: Path) -> None:
    pom = folder / "pom.xml"
    pom.write_text(_POM.format("".join(_DEPENDENCY.format(*each.split(":")) for each in wanted)))
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(pom),
        f"-DoutputDirectory={folder / 'jars'}",
        "dependency:copy-dependencies",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        raise NoJarsError(f"mvn has not fetched {', '.join(wanted)} within {FETCH_SECONDS} s") from None
    if done.returncode:
        said = [line.partition("[ERROR] ")[2] for line in done.stdout.splitlines()]
        reason = next(filter(None, said), "it does not say why")
        raise NoJarsError(f"mvn could not fetch the jars: {reason}; name a directory that has them with --jars")
