"""What has to be there before Spark starts."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.support.clients import create_topic
from compat_tests.support.jars import require
from ottla import Broker
from ottla.pipeline.session import NoSparkError, installed
from tests.pipeline.spark_command import jar_folder, run_once
from tests.pipeline.test_running import consumed, produce

AVRO = """\
name = "hostile"
"bootstrap.servers" = "{bootstrap}"
[source]
type = "topic"
topics = ["in"]
value.type = "avro"
value.schema = '{{"type": "array", "items": "int"}}'
[sink]
type = "topic"
topic = "out"
value.type = "json"
[errors]
tolerance = "all"
deadletterqueue.topic.name = "bad"
"""


def test_a_missing_pyspark_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoSparkError, match=r"^PySpark is not installed: pip install 'ottla\[spark\]'$"):
        installed()


def test_a_missing_java_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delitem(os.environ, "JAVA_HOME", raising=False)
    with pytest.raises(NoSparkError, match=r"^there is no java: install Java 17"):
        installed()


def test_a_java_home_without_a_java_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoSparkError, match=f"^JAVA_HOME is {tmp_path}, where there is no bin/java"):
        installed()


FAILING = """
import logging
from pathlib import Path
from ottla.pipeline.session import close_session, open_session
spark = open_session("quiet", (), given={}, jar_folder=None, cache=Path())
try:
    spark.sql("SELECT raise_error('failed')").collect()
except Exception:
    pass
# What py4j logs when its JVM is gone: the first line, which goes to the root logger, gives that a handler.
logging.basicConfig()
logging.getLogger("py4j.clientserver").error("There was an exception while executing the Python Proxy")
close_session(spark)
"""
# A source that cannot be told where to end, as all that are written in Python before PySpark 4.2.
ENDLESS = """
from pathlib import Path
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from ottla.pipeline.session import close_session, open_session

class Endless(DataSource):
    def schema(self):
        return "n int"
    def streamReader(self, schema):
        return Reader(self.options["path"])

class Reader(DataSourceStreamReader):
    def __init__(self, path):
        self.path = path
    def initialOffset(self):
        return {"n": 0}
    def latestOffset(self, *_):
        return {"n": int(Path(self.path).read_text())}
    def partitions(self, start, end):
        return [InputPartition((start["n"], end["n"]))]
    def read(self, partition):
        return ((n,) for n in range(*partition.value))

spark = open_session("endless", (), given={}, jar_folder=None, cache=Path())
spark.dataSource.register(Endless)
end = Path("end").absolute()

def run(do):
    writer = spark.readStream.format("Endless").option("path", str(end)).load().writeStream.foreachBatch(do)
    query = writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()

end.write_text("1")
try:
    run(lambda batch, _: 1 / 0)
except Exception:
    pass
end.write_text("3")
run(lambda batch, _: print([row.n for row in batch.collect()], flush=True))
close_session(spark)
"""


def run_script(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    require("java")
    pytest.importorskip("pyspark", reason="pyspark is missing")
    (folder / "script.py").write_text(text)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=100)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_spark_itself_says_nothing_of_what_fails(tmp_path: Path) -> None:
    said = run_script(FAILING, tmp_path).stderr.splitlines()
    # What the JVM says of its own modules is not Spark's.
    assert [line for line in said if not line.startswith("WARNING: ")] == []


@pytest.mark.slow
def test_what_is_run_once_after_a_kill_is_run_to_the_end(tmp_path: Path) -> None:
    assert run_script(ENDLESS, tmp_path).stdout.splitlines() == ["[0]", "[1, 2]"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_record_of_avro_that_promises_more_than_there_is_memory_is_a_bad_record(tmp_path: Path) -> None:
    job, jars = tmp_path / "job.toml", jar_folder(tmp_path)
    # Two thousand million numbers, of which the first is there; and one, which is.
    values: list[bytes | None] = [bytes([0x80, 0xD0, 0xAC, 0xF3, 0x0E, 2]), bytes([2, 14, 0])]
    with Broker() as broker:
        for topic in ("in", "out", "bad"):
            create_topic(broker.bootstrap, topic)
        produce(broker.bootstrap, "in", values)
        job.write_text(AVRO.format(bootstrap=broker.bootstrap))
        done = subprocess.run(run_once(job, jars), capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        assert [each.value() for each in consumed(broker.bootstrap, "out", 1)] == [b"[7]"]
        assert [each.value() for each in consumed(broker.bootstrap, "bad", 1)] == values[:1]
