"""A disk that is full ends a job with one line; with room again the job goes on, and each record is there once."""

import subprocess
from pathlib import Path

import confluent_kafka
import pytest

from compat_tests.support.clients import create_topic
from ottla import Broker
from tests.pipeline.spark_command import jar_folder, run_once
from tests.support.disks import fill, small_disk

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(400)]
DISK_BYTES = 4 << 20
PAGE = 4096
RECORDS = 1000
PATIENCE_S = 120
JOB = """\
name = "full"
"bootstrap.servers" = "{bootstrap}"
[source]
type = "topic"
topics = ["full"]
value.type = "json"
value.schema = "id BIGINT"
[sink]
type = "parquet"
path = "{out}"
"""


@pytest.mark.parametrize("is_of_sink", [True, False], ids=["sink", "checkpoint"])
def test_a_full_disk_is_told_in_one_line_and_loses_nothing(tmp_path: Path, is_of_sink: bool) -> None:
    import pyarrow.parquet

    with Broker() as broker, small_disk(tmp_path, DISK_BYTES) as disk:
        create_topic(broker.bootstrap, "full", partitions=2)
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS):
            producer.produce("full", b'{"id":%d}' % number)
        assert producer.flush(120) == 0
        out, checkpoint = (disk, tmp_path) if is_of_sink else (tmp_path, disk)
        job = tmp_path / "job.toml"
        job.write_text(JOB.format(bootstrap=broker.bootstrap, out=out / "out"))
        command = run_once(job, jar_folder(tmp_path), f"--checkpoint={checkpoint / 'place'}")
        ballast = fill(disk, leave=3 * PAGE)
        full = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert full.returncode == 1
        # Java tells of modules of its own.
        (said,) = [line for line in full.stderr.splitlines() if not line.startswith("WARNING: Using incubator")]
        assert said.startswith("ottla: ")
        assert "No space left on device" in said
        assert (f"{job}: sink.path" in said) == is_of_sink
        ballast.unlink()
        again = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert again.returncode == 0, again.stderr
        found = pyarrow.parquet.read_table(out / "out").column("id").to_pylist()
        assert sorted(found) == list(range(RECORDS))
