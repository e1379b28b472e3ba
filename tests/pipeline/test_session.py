"""What has to be there before Spark starts."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.clients import create_topic
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
