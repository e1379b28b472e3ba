"""A server with a real job: made over HTTP, run by Spark, and there again after the server was killed."""

import contextlib
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from compat_tests.support.clients import create_topic
from ottla import Broker
from tests.pipeline.spark_command import COMMAND, jar_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PATIENCE_S = 90.0
SECRET = "p4ssw0rd-of-nobody"


@contextlib.contextmanager
def served(folder: Path, bootstrap: str, jars: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [*COMMAND, "serve", str(folder), "--bootstrap-server", bootstrap, "--listen", "127.0.0.1:0"]
    with (
        (folder.parent / "server.log").open("ab") as log,
        subprocess.Popen([*command, "--jars", str(jars)], stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ottla pipeline ready http://"), (folder.parent / "server.log").read_text()
        try:
            yield line.split()[-1], process
        finally:
            process.terminate()


def ask(method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def wait_for_rows(folder: Path, count: int, log: Path) -> list[int]:
    import pyarrow.parquet

    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = pyarrow.parquet.read_table(folder).column("id").to_pylist() if list(folder.glob("*.parquet")) else []
        if len(found) >= count:
            return sorted(found)
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.3)


def produce(bootstrap: str, start: int, stop: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(start, stop):
        producer.produce("orders", b'{"id":%d}' % number)
    assert producer.flush(120) == 0


def wait_for(url: str, path: list[object], value: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = ask("GET", url)
        for key in path:
            found = found[key]
        if found == value:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def with_the_secret() -> list[Path]:
    """Files that a kill would leave behind, and command lines, that have what stands for a password."""
    temporary = Path(tempfile.gettempdir())
    patterns = ("hsperfdata_*", "spark-*", "blockmgr-*", "log4j2-*", "ottla-pipeline-*")
    folders = [folder for pattern in patterns for folder in temporary.glob(pattern)]
    # Others of this machine remove theirs meanwhile, which `walk` takes.
    left = [Path(at, name) for folder in folders for at, _, names in os.walk(folder) for name in names]
    left += [folder for folder in folders if folder.is_file()]
    found = []
    for path in [*left, *Path("/proc").glob("[0-9]*/cmdline")]:
        with contextlib.suppress(OSError):
            if not path.is_symlink() and path.is_file() and SECRET.encode() in path.read_bytes():
                found.append(path)
    return found


def test_a_job_goes_on_after_its_server_was_killed_and_elsewhere_when_it_was_moved(tmp_path: Path) -> None:
    jars, jobs, out = jar_folder(tmp_path), tmp_path / "jobs", tmp_path / "out"
    config = {
        "source.type": "topic",
        "source.topics": "orders",
        "source.value.type": "json",
        "source.value.schema": "id BIGINT",
        "sink.type": "parquet",
        "sink.path": str(out),
        "source.consumer.client.id": f"of-{SECRET}",
        "spark.hadoop.fs.s3a.secret.key": SECRET,
    }
    with Broker() as broker:
        create_topic(broker.bootstrap, "orders")
        produce(broker.bootstrap, 0, 10)
        with served(jobs, broker.bootstrap, jars) as (url, process):
            wrong = ask("PUT", f"{url}/connector-plugins/Job/config/validate", {**config, "name": "a", "sink.typ": "x"})
            assert wrong["error_count"] == 1
            classes = {each["class"] for each in ask("GET", f"{url}/connector-plugins?connectorsOnly=false")}
            package = "org.apache.kafka.connect.transforms"
            assert {f"{package}.Cast$Value", f"{package}.predicates.RecordIsTombstone"} <= classes
            ask("PUT", f"{url}/connectors/orders/config", config)
            assert wait_for_rows(out, 10, tmp_path / "server.log") == list(range(10))
            assert ask("GET", f"{url}/connectors/orders/status")["connector"]["state"] == "RUNNING"
            assert with_the_secret() == []
            process.kill()
        produce(broker.bootstrap, 10, 15)
        with served(jobs, broker.bootstrap, jars) as (url, _):
            assert wait_for_rows(out, 15, tmp_path / "server.log") == list(range(15))
            # A batch is done a little later than its rows are there.
            offset = f"{url}/connectors/orders/offsets", ["offsets", 0, "offset", "kafka_offset"]
            wait_for(*offset, 15)
            ask("PUT", f"{url}/connectors/orders/stop")
            wait_for(f"{url}/connectors/orders/status", ["connector", "state"], "STOPPED")
            place = {"partition": {"kafka_topic": "orders", "kafka_partition": 0}, "offset": {"kafka_offset": 12}}
            ask("PATCH", f"{url}/connectors/orders/offsets", {"offsets": [place]})
            wait_for(*offset, 12)
            ask("PUT", f"{url}/connectors/orders/resume")
            again = sorted([*range(15), *range(12, 15)])
            assert wait_for_rows(out, 18, tmp_path / "server.log") == again
