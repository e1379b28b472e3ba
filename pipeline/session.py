"""The Spark that a job runs on: what has to be there before, and how it is set up.

Owns Spark's own settings. Must not know what a job does. Counterpart in Kafka: the worker's configuration.
"""

import importlib.util
import logging
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline import jars
from ottla.pipeline.failures import reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK: Final = "127.0.0.1"
# Of what fails, who runs the job tells in one line; what else Spark says is for those who look into Spark. Without an
# appender Spark would take logging for not configured, and without a level of its own this program for a shell.
_LOGGING: Final = """\
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""
# These tell a Java stack trace of what is wrong in a query, whoever catches the error.
_TALKATIVE: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_ALWAYS: Final = {
    # Spark generates longer methods of several transforms; Java's compiler leaves those alone, at a tenth of the speed.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Else one source that knows no end has `--once` make one batch: after a kill, the one that was killed. Those that
    # are written in Python know none before PySpark 4.2.
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
# All of it is on this machine: nobody else is to reach it, and Spark's 200 partitions of state would be many.
_LOCAL: Final = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.sql.shuffle.partitions": str(os.cpu_count()),
}
# Avro makes room for as much as a record says will follow. What a bad one says would end the JVM: here, 64 MiB.
_MOST_OF_AVRO: Final = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in {"bytes": 1 << 26, "string": 1 << 26, "collectionItems": 1 << 24}.items()
)
_SUBMIT_ARGS: Final = "PYSPARK_SUBMIT_ARGS"
_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class NoSparkError(Exception):
    """Spark that cannot be started; the text is one line that says why."""


def installed() -> str:
    """The version of PySpark, which is there with a Java to run it."""
    if importlib.util.find_spec("pyspark") is None:
        raise NoSparkError("PySpark is not installed: pip install 'ottla[spark]'")
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(Path(home) / "bin" / "java", os.X_OK):
        # Spark looks nowhere else then.
        raise NoSparkError(f"JAVA_HOME is {home}, where there is no bin/java that can be run")
    if not home and shutil.which("java") is None:
        raise NoSparkError("there is no java: install Java 17 (Debian: apt-get install openjdk-17-jre-headless)")
    import pyspark

    return str(pyspark.__version__)


def open_session(
    name: str,
    needs: Iterable[str],
    *,
    master: str | None = None,
    given: Mapping[str, str],
    jar_folder: Path | None,
    cache: Path,
) -> "SparkSession":
    """Start Spark: on this machine, or where `master` says. What is `given` counts over what is set here."""
    version = installed()
    needs = set(needs)
    settings = {**_ALWAYS, **({} if master else _LOCAL), **(_DELTA if jars.DELTA in needs else {})}
    settings |= jars.settings(needs, version, jar_folder, cache)
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for each in _TALKATIVE:
        PySparkLogger.getLogger(each).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    # That filter does not see what py4j logs with its own loggers, such as a callback that lost its JVM: it would reach
    # the handler that py4j's first line has added to the root logger.
    logging.getLogger("py4j").propagate = False
    if not master:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master or "local[*]")
    with tempfile.NamedTemporaryFile("w", prefix="log4j2-", suffix=".properties") as file:
        file.write(_LOGGING)
        file.flush()
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={file.name} {_MOST_OF_AVRO}"
        settings["spark.executor.extraJavaOptions"] = _MOST_OF_AVRO
        settings |= given
        try:
            _start_jvm({"spark.master": master or "local[*]", **settings})
            return builder.config(map=settings).getOrCreate()
        except Exception as error:
            raise NoSparkError(f"Spark does not start on {master or 'this machine'}: {reason(error)}") from None


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start Spark's JVM, with all settings in a file in memory.

    PySpark would pass them on the command line, because of which every user could read them, and Java would keep a copy
    below /tmp.
    """
    import javaproperties
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    with os.fdopen(os.memfd_create("spark"), "w", encoding="iso-8859-1") as file:
        file.write(javaproperties.dumps(settings, timestamp=False))
        file.flush()
        more = os.environ.get(_SUBMIT_ARGS, "pyspark-shell")
        told = f"--load-spark-defaults --properties-file /proc/self/fd/{file.fileno()} {more}"
        os.environ[_SUBMIT_ARGS] = told
        try:
            gateway = launch_gateway(popen_kwargs={"pass_fds": [file.fileno()]})
        finally:
            os.environ[_SUBMIT_ARGS] = more
    SparkContext._ensure_initialized(gateway=gateway)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Whether a record is another's than py4j's, which tells a JVM that is gone to the root logger, with a trace."""
    return Path(record.pathname).parent.name != "py4j"


def close_session(spark: "SparkSession") -> None:
    """End Spark, and the JVM that it runs in, if it has not ended by itself."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    with warnings.catch_warnings(), suppress(Py4JError, ConnectionError):
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()
        gateway.shutdown()
    gateway.proc.stdin.close()
