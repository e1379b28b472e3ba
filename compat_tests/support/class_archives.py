"""Archives of classes and bytecode, made once, so that the JVMs of tests and Spark's Python workers start faster.

`python -m compat_tests.support.class_archives` makes archives of the classes that Apache Kafka's brokers, ZooKeeper,
Kafka's tools, members of groups and Spark load. It adds bytecode to the zip files from which Spark's workers import
PySpark. A JVM ignores an archive of another Java or of other jars.
"""

import importlib.util
import marshal
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from compat_tests.groups.members import JAVA, Member, wait_until
from compat_tests.support import java
from compat_tests.support.brokers import (
    LAST_WITH_ZOOKEEPER,
    NEWEST,
    ApacheKafka,
    Broker,
    ZooKeeperKafka,
    run_tool,
    running,
)
from compat_tests.support.clients import create_topic
from compat_tests.support.jars import QUICK, require
from compat_tests.support.spark import ARCHIVE, OPTIONS
from compat_tests.support.tools import Tools
from compat_tests.support.verifiable import KEYS, VerifiableConsumer, VerifiableProducer, Verification

TOPIC = "classes"
SESSION_TIMEOUT_MS = 10_000
TOOLS = "org.apache.kafka.tools"
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


def main() -> None:
    """Make all archives that this Java supports."""
    for path in _zips_of_pyspark():
        add_bytecode(path)
    for make in (archive_spark, archive_kafka):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            make(Path(folder))


# Kafka


def archive_kafka(folder: Path) -> None:
    """Start JVMs of all kinds, then archive the loaded classes of each class path."""
    lists = folder / "lists"
    lists.mkdir()
    with java.listing_classes(lists) as paths:
        for kind, release in ((ApacheKafka, NEWEST), (ZooKeeperKafka, LAST_WITH_ZOOKEEPER)):
            data = folder / kind.__name__
            data.mkdir()
            with running(kind, ["offsets.topic.num.partitions=1"], data) as broker:
                create_topic(broker.bootstrap, TOPIC)
                _use(broker, data, release)
    # A line is a class, or the creation of a lambda.
    lines = {line for each in lists.iterdir() for line in each.read_text().splitlines() if not line.startswith("#")}
    classes = folder / "classes"
    classes.write_text("\n".join(sorted(lines)) + "\n")
    java.ARCHIVES.mkdir(exist_ok=True)
    for old in java.ARCHIVES.iterdir():
        old.unlink()
    for path in sorted(paths):
        _archive(classes, path)


def _use(broker: Broker, folder: Path, release: tuple[str, str]) -> None:
    """Run the clients and tools that tests often run."""
    with VerifiableProducer(folder, broker.bootstrap, TOPIC, 0, 100, {}) as producer:
        producer.wait_for_acknowledgements(KEYS)
        with VerifiableConsumer(folder, broker.bootstrap, TOPIC, "verifiable", SESSION_TIMEOUT_MS) as consumer:
            consumer.wait_until(lambda: bool(consumer.committed))
    with Member(broker, JAVA, "members", TOPIC) as member:
        wait_until(lambda: bool(member.read), member)
        member.ask("commit")
        member.close()
    if release == LAST_WITH_ZOOKEEPER:
        with Verification(folder, broker.bootstrap, TOPIC) as verification:
            verification.wait_for_no_lag()
    bootstrap = ("--bootstrap-server", broker.bootstrap)
    with Tools(folder, release) as tools:
        tools.run(f"{TOOLS}.TopicCommand", *bootstrap, "--describe")
        tools.run(f"{TOOLS}.consumer.group.ConsumerGroupCommand", *bootstrap, "--describe", "--all-groups")
        tools.run("kafka.admin.ConfigCommand", *bootstrap, "--describe", "--entity-type", "brokers")
        read = ("--topic", TOPIC, "--from-beginning", "--max-messages", "1", "--timeout-ms", "10000")
        tools.run(f"{TOOLS}.consumer.ConsoleConsumer", *bootstrap, *read)
    if release == NEWEST:
        (log,) = broker.data.glob(f"log/{TOPIC}-0/*.log")
        run_tool(f"{TOOLS}.DumpLogSegments", "--deep-iteration", "--files", str(log))


def _archive(classes: Path, path: str) -> None:
    archive = java.archive_of(path)
    made = archive.with_suffix(f".{os.getpid()}")
    options = ("-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={made}", "-Xlog:disable")
    command = [require("java"), *options, "-cp", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.exists():
        made.replace(archive)
    else:
        sys.stderr.write(f"Kafka has no archive of its classes to start from:\n{done.stdout}{done.stderr}")


# Spark


def archive_spark(folder: Path) -> None:
    """Archive the loaded classes of a small job."""
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


def _zips_of_pyspark() -> Iterator[Path]:
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent.glob("python/lib/*.zip")


def add_bytecode(path: Path) -> None:
    """Add bytecode for each Python file in a zip file, because Python cannot write it there itself.

    Without bytecode each worker process of Spark compiles PySpark anew, which takes half a second.
    """
    with zipfile.ZipFile(path) as old:
        if any(name.endswith(".pyc") for name in old.namelist()):
            return
        made = path.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
            for info in old.infolist():
                content = old.read(info)
                new.writestr(info, content)
                if info.filename.endswith(".py"):
                    new.writestr(f"{info.filename}c", _bytecode(content, f"{path}/{info.filename}"))
    made.replace(path)


def _bytecode(source: bytes, name: str) -> bytes:
    """Return the bytes of a `.pyc` file that is valid for any time of its source (PEP 552)."""
    unchecked = (0b01).to_bytes(4, "little")
    code = compile(source, name, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + marshal.dumps(code)


if __name__ == "__main__":
    main()
