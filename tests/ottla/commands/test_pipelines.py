"""`ottla pipeline`, as far as it needs no Spark."""

import re
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla import Broker
from ottla.cli import main
from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.job import Job
from ottla.pipeline.job_file import read_settings
from ottla.pipeline.positions import Positions
from ottla.pipeline.settings import JobError

JOB = """\
name = "orders"
"bootstrap.servers" = "{bootstrap}"
[source]
type = "topic"
topics = ["orders"]
[sink]
type = "console"
"""
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(JOB.format(bootstrap="127.0.0.1:1"))
    return path


def said(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", *map(str, arguments)])


def test_validate_confirms_a_valid_job(job: Path) -> None:
    result = said("validate", job)
    assert (result.exit_code, result.output) == (0, f"{job}: orders can be run\n")


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.stem)
def test_every_example_can_be_run(example: Path) -> None:
    assert said("validate", example).exit_code == 0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("sink.nam = 1", "sink.nam is unknown"),
        ('source.starting.offsets = "soon"', "source.starting.offsets is to be earliest, latest or"),
        ('[[transforms]]\nname = "m"\ntype = "Maskfield"', "transforms.m.type "),
        ('[[steps]]\nkind = "sql"', "steps[0].query is missing"),
        ('[errors]\ntolerance = "some"', "errors.tolerance is to be one of none, all, not 'some'"),
        ('[trigger]\ncontinuous = "1 second"', "trigger.continuous is for jobs from topics to topics"),
        ('[trigger]\nprocessing.time = "10 bananas"', "trigger.processing.time is to be a duration such as"),
        ("source.ending.offsets = latest", "source.ending.offsets is for inputs that are tables"),
        (
            '[[inputs]]\nname = "a"\ntype = "topic"\ntopics = ["b"]\nending.offsets = "latest"',
            "inputs[0].ending.offsets is for inputs that are tables",
        ),
        ("source.max.offsets.per.trigger = ten", "source.max.offsets.per.trigger is to be a whole number, not 'ten'"),
        ('sink.type = "bucket"', "Cannot"),
    ],
)
def test_an_error_in_a_job_is_one_line_that_names_file_and_key(job: Path, text: str, line: str) -> None:
    if not text.startswith("["):
        key, _, value = text.partition(" = ")
        result = said("validate", job, "--override", f"{key}={value.strip(chr(34))}")
        line = "sink.type is to be one of topic, mirror, console" if key == "sink.type" else line
    else:
        job.write_text(job.read_text() + text)
        result = said("validate", job)
    assert result.exit_code == 1
    assert result.output.startswith(f"ottla: {job}: {line}")
    assert result.output.count("\n") == 1


def test_a_continuous_job_does_not_write_exactly_once(job: Path) -> None:
    sink = 'type = "topic"\ntopic = "out"\ndelivery = "exactly-once"\n[trigger]\ncontinuous = "1 second"'
    job.write_text(job.read_text().replace('type = "console"', sink))
    result = said("validate", job)
    assert result.output.startswith(f"ottla: {job}: trigger.continuous cannot write exactly once")
    assert said("validate", job, "--override", "sink.delivery=at-least-once").exit_code == 0


def test_a_checkpoint_that_is_not_on_a_disk_is_refused_and_makes_no_folder(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = "s3a://bucket/there"
    for command in (("run", job), ("status", job), ("reset", job, "--to", "latest")):
        result = said(*command, "--checkpoint", elsewhere)
        line = "ottla: --checkpoint s3a:/bucket/there is not on a disk of this machine, where it has to be\n"
        assert (result.exit_code, result.output) == (1, line)
    result = said("serve", elsewhere, "--bootstrap-server", "127.0.0.1:1")
    assert result.output.startswith("ottla: DIR s3a:/bucket/there is not on a disk")
    assert [path.name for path in tmp_path.iterdir()] == ["job.toml"]
    here = said("status", job, "--checkpoint", f"file:{tmp_path / 'kept'}")
    assert here.output == "orders: has not run\n"


def test_without_the_extra_each_command_prints_one_line_that_names_it(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith("ottla.pipeline.server")]:
        monkeypatch.delitem(sys.modules, name)
    extra = ("kafka", "pyspark", "confluent_kafka", "pyarrow", "pandas", "py4j")
    for name in {*extra, *(each for each in sys.modules if each.partition(".")[0] in extra)}:
        monkeypatch.setitem(sys.modules, name, None)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        there = f"127.0.0.1:{listening.getsockname()[1]}"
        given = ("--override", f"bootstrap.servers={there}")
        (job.parent / "jobs").mkdir()
        for command in (
            ("serve", job.parent / "jobs", "--bootstrap-server", there),
            ("reset", job, "--to", "latest", *given),
            ("run", job, *given),
        ):
            result = said(*command)
            assert result.exit_code == 1
            assert re.fullmatch(r"ottla: [\w.]+ is not installed: pip install 'ottla\[spark\]'\n", result.output)
    assert said("validate", job).exit_code == 0
    assert said("status", job).output == "orders: has not run\n"


def test_an_unreachable_broker_is_reported_before_spark_starts(job: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{nobody.getsockname()[1]}"
        result = said("reset", job, "--to", "earliest", "--override", f"bootstrap.servers={bootstrap}")
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert result.output.startswith(f"ottla: {bootstrap} does not answer: ")


def test_status_names_a_job_that_has_not_run_and_a_job_that_was_moved(job: Path) -> None:
    assert said("status", job).output == "orders: has not run\n"
    (wrong := job.with_name("wrong.toml")).write_text("name = ")
    both = said("status", wrong, job)
    assert (both.exit_code, both.stdout) == (1, "orders: has not run\n")
    Checkpoint(job.parent / ".checkpoints" / "orders").directory.mkdir(parents=True)
    Checkpoint(job.parent / ".checkpoints" / "orders").move({"orders": {"0": 3}})
    assert said("status", job).output == "orders: was moved, and has not run since\n"


@pytest.mark.slow
def test_the_topic_of_bad_records_is_made_before_spark_starts_if_it_is_missing(job: Path) -> None:
    job.write_text(job.read_text() + '[errors]\ntolerance = "all"\ndeadletterqueue.topic.name = "unread"\n')
    with Broker(auto_create_topics_enable=False) as broker, closing(Positions(broker.bootstrap)) as positions:
        positions.create("orders", 2)
        there = {"bootstrap.servers": broker.bootstrap}
        with pytest.raises(
            JobError, match=r"name names unread, which is missing and cannot be made: .* factor"
        ) as error:
            Job(read_settings(job, there)).check()
        assert str(error.value).startswith(f"{job}: errors.deadletterqueue.topic.")
        there["errors.deadletterqueue.topic.replication.factor"] = "1"
        for _ in range(2):
            Job(read_settings(job, there)).check()
        assert positions.partitions(["unread"]) == [("unread", 0)]


@pytest.mark.slow
def test_a_job_is_moved_to_a_time_and_its_group_shows_it(job: Path) -> None:
    from kafka import KafkaAdminClient, KafkaProducer

    with Broker() as broker:
        there = ("--override", f"bootstrap.servers={broker.bootstrap}")
        missing = said("reset", job, "--to", "earliest", *there)
        assert missing.output == f"ottla: {broker.bootstrap} has no topic orders\n"
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for second in range(5):
            producer.send("orders", b"v", timestamp_ms=1_893_456_000_000 + 1000 * second).get(10)
        producer.close()
        assert said("reset", job, "--to", "2030-01-01T00:00:03Z", *there).output == "orders-0 3\n"
        assert said("reset", job, "--to", "1969-12-31T23:59:59.999Z", *there).output == "orders-0 0\n"
        assert said("reset", job, "--to", "latest", *there).output == "orders-0 5\n"
        kept = Checkpoint(job.parent / ".checkpoints" / "orders")
        for folder, text in (("offsets", 'v1\n{}\n{"payments":{"0":9}}\n{"orders":{"0":2}}'), ("commits", "v1\n{}")):
            (kept.spark / folder).mkdir(parents=True)
            (kept.spark / folder / "0").write_text(text)
        assert said("status", job, *there).output == "orders: 1 batches are done, lag 3\n"
        assert said("reset", job, "--to", "soon", *there).output.startswith("ottla: --to takes earliest, latest or")
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        ((partition, committed),) = admin.list_group_offsets({"ottla-pipeline-orders": None})[
            "ottla-pipeline-orders"
        ].items()
        admin.close()
        assert (partition.topic, committed.offset) == ("orders", 5)
