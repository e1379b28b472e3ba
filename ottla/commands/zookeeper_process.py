"""The ZooKeeper of `ottla cluster up`: where its jars are, and the command that starts it.

Owns the release, the cache, and the configuration of its one server. Must not know the cluster.
Counterpart in Kafka: zookeeper-server-start.sh.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import STDOUT
from typing import Final

import trio

# The versions of Kafka 3.9.2. The last two are in ZooKeeper's own release, but are no declared dependencies of its jar.
VERSION: Final = "3.8.4"
_JARS: Final = (
    ("org.apache.zookeeper", "zookeeper", VERSION),
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
)
_DEPENDENCY: Final = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_POM: Final = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>zookeeper</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
_FETCH_SECONDS: Final = 600.0

_MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_PROPERTIES: Final = """\
dataDir={data}
clientPort={port}
clientPortAddress={host}
admin.enableServer=false
maxClientCnxns=0
tickTime=1000
4lw.commands.whitelist=srvr
"""
_LOGGING: Final = """\
<configuration>
  <appender name="stdout" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>[%d] %p %m \\(%c\\)%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="stdout"/></root>
</configuration>
"""
_INSTEAD: Final = (
    "or name a ZooKeeper that runs with --zookeeper HOST:PORT, or a directory with its jars with --zookeeper-jars DIR"
)


class NoZooKeeperError(Exception):
    """ZooKeeper cannot be started; the text is one line with the reason."""


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for fetched files."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ottla"


def java() -> str:
    """Return the path of the program `java`; NoZooKeeperError if it is missing."""
    return _program("java", "Java, 11 or later (Debian: apt-get install default-jre-headless)", "--zookeeper HOST:PORT")


def given_jars(folder: Path) -> Path:
    """Return `folder`; NoZooKeeperError if ZooKeeper's jar is not in it."""
    if not any(folder.glob("zookeeper-*.jar")):
        raise NoZooKeeperError(f"{folder} holds no zookeeper-*.jar")
    return folder


async def fetched_jars(cache: Path) -> Path:
    """Return the directory of the jars, and fetch them if it does not exist."""
    folder = cache / f"zookeeper-{VERSION}"
    if folder.is_dir():
        return folder
    mvn = _program("mvn", "Maven, which fetches ZooKeeper (Debian: apt-get install maven)", _INSTEAD)
    sys.stderr.write(f"fetching ZooKeeper {VERSION} into {cache}\n")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as made:
        unfinished = Path(made)
        pom = unfinished / "pom.xml"
        pom.write_text(_POM.format("".join(_DEPENDENCY.format(*each) for each in _JARS)))
        options = ["-q", "-B", "-f", str(pom), "-DincludeScope=runtime"]
        options.append(f"-DoutputDirectory={unfinished / 'jars'}")
        with trio.move_on_after(_FETCH_SECONDS) as scope:
            command = [mvn, *options, "dependency:copy-dependencies"]
            # In a session of its own, so that Ctrl-C on a terminal reaches this process alone, which then ends mvn.
            done = await trio.run_process(
                command, capture_stdout=True, stderr=STDOUT, check=False, start_new_session=True
            )
        if scope.cancelled_caught:
            raise NoZooKeeperError(f"mvn has not fetched ZooKeeper within {_FETCH_SECONDS:.0f} s")
        if done.returncode:
            said = [line.partition("[ERROR] ")[2] for line in done.stdout.decode(errors="replace").split("\n")]
            raise NoZooKeeperError(f"mvn could not fetch ZooKeeper: {next(filter(None, said), 'it does not say why')}")
        # Another process may have fetched the same jars first.
        with suppress(OSError):
            (unfinished / "jars").rename(folder)
    return folder


def prepare(folder: Path, host: str, port: int, jars: Path) -> list[str]:
    """Write the configuration of a server that keeps its data in a folder; return the command that starts it."""
    folder.mkdir(parents=True, exist_ok=True)
    properties, logging = folder / "zookeeper.properties", folder / "logback.xml"
    properties.write_text(_PROPERTIES.format(data=folder / "data", host=host, port=port))
    logging.write_text(_LOGGING)
    options = ["-Xmx256M", f"-Dlogback.configurationFile={logging}", "-cp", f"{jars}{os.sep}*"]
    return [java(), *options, _MAIN_CLASS, str(properties)]


async def serves(host: str, port: int) -> bool:
    """Return whether a server answers `srvr`."""
    answer = b""
    with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(5.0):
        async with await trio.open_tcp_stream(host, port) as stream:
            await stream.send_all(b"srvr")
            async for data in stream:
                answer += data
    return b"Mode:" in answer


def _program(name: str, what: str, instead: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NoZooKeeperError(f"there is no {name}: install {what}, {instead.removeprefix('or ')}")
    return found
