"""A pytest plugin: one Spark for all tests of a process, in a JVM that ends with the process."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.jars import QUICK, require, spark_jars

ARCHIVE = Path(sys.prefix) / "spark.jsa"
# The variables with options for Spark's JVM, and for its launcher, a JVM that makes the command line.
OPTIONS = "SPARK_SUBMIT_OPTS"
LAUNCHER_OPTIONS = "SPARK_LAUNCHER_OPTS"
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def from_archive() -> tuple[str, ...]:
    """Return the options for a JVM with the archive of `class_archives`, if there is one."""
    # Without this, Java prints to stdout why it does not use an archive.
    return (f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable") if ARCHIVE.exists() else ()


def pytest_configure() -> None:
    """Set the options of the JVMs of all jobs, and of the one Spark of a process.

    Without Java's second compiler, because it takes more time from other tests than its code saves here.
    """
    os.environ.setdefault(OPTIONS, " ".join([*QUICK, *from_archive()]))
    os.environ.setdefault(LAUNCHER_OPTIONS, " ".join(QUICK))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use Spark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.process("spark"))


@contextmanager
def running_spark(folder: Path) -> Iterator[Any]:
    """Run one Spark, whose files are in a folder, during the block."""
    # Imported here, because fast tests must run without PySpark.
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings = {
        **SETTINGS,
        "spark.jars": ",".join(map(str, spark_jars())),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # Because otherwise the first python3 of the path would run Python functions.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]").appName("tests")
        session = builder.config(map=settings).getOrCreate()
    yield session
    session.stop()
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Run one Spark for all tests of this process."""
    require("java")
    if not os.environ.get("CI"):
        pytest.importorskip("pyspark", reason="pyspark is missing")
    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session
