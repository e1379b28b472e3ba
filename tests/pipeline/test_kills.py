"""Jobs that are killed at random, again and again: what comes out is what went in, each record once."""

import random
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running
from compat_tests.support.clients import create_topic
from tests.pipeline.spark_command import jar_folder, run_once

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(3600)]
A_KILL = 10_000
A_BATCH = 2_500
PARTITIONS = 2
PATIENCE_S = 120.0
JOB = """\
name = "{name}"
"bootstrap.servers" = "{bootstrap}"
[source]
type = "topic"
topics = ["{name}-in"]
max.offsets.per.trigger = {a_batch}
key.type = "string"
value.type = "json"
value.schema = "id BIGINT"
[sink]
"""
SINKS = {
    "jdbc": 'type = "jdbc"\nurl = "jdbc:sqlite:{folder}/out.db"\ntable = "rows"\nauto.create = true\n',
    "parquet": 'type = "parquet"\npath = "{folder}/out"\n',
    "topic": 'type = "topic"\ntopic = "{name}-out"\ndelivery = "exactly-once"\nvalue.type = "json"\n',
}


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with running(request.param) as broker:
        yield broker


def fill(bootstrap: str, topic: str, count: int) -> None:
    create_topic(bootstrap, topic, partitions=PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": count + 1})
    for number in range(count):
        producer.produce(topic, b'{"id":%d}' % number, b"%d" % number)
        producer.poll(0)
    assert producer.flush(120) == 0


def run(command: Sequence[str], killed_after: Callable[[], float] | None) -> None:
    """Run a job to its end, or until some time after its first batch; a job that ends sooner is not killed."""
    said: list[str] = []
    timers: list[threading.Timer] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        timers.append(threading.Timer(PATIENCE_S, process.kill))
        timers[0].start()
        for line in process.stderr:
            said.append(line)
            if ": batch " in line and len(timers) == 1 and killed_after is not None:
                timers.append(threading.Timer(killed_after(), process.kill))
                timers[1].start()
        code = process.wait()
    for timer in timers:
        timer.cancel()
    assert code == 0 or (code == -signal.SIGKILL and killed_after is not None), "".join(said)


def found_in(kind: str, folder: Path, broker: Broker, name: str, count: int) -> list[int]:
    if kind == "jdbc":
        with closing(sqlite3.connect(folder / "out.db")) as connection:
            return [row[0] for row in connection.execute("SELECT id FROM rows")]
    if kind == "parquet":
        import pyarrow.parquet

        return list(pyarrow.parquet.read_table(folder / "out").column("id").to_pylist())
    return [int(value[6:-1]) for value in committed(broker.bootstrap, f"{name}-out", count)]


def committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-check", "isolation.level": "read_committed"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    found: list[bytes] = []
    silent_since = time.monotonic()
    # A while longer than all should take: what came twice comes, too.
    while time.monotonic() - silent_since < (3 if len(found) >= count else 30):
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            value: Any = message.value()
            found.append(value)
            silent_since = time.monotonic()
    consumer.close()
    return found


@pytest.mark.parametrize(
    ("broker", "kind"),
    [(Ottla, "topic"), (Ottla, "parquet"), *((ApacheKafka, kind) for kind in SINKS)],
    indirect=["broker"],
)
@pytest.mark.trials(few=2, soak=20)
def test_what_comes_out_is_what_went_in(
    broker: Broker, kind: str, tmp_path: Path, trials: int, seed: int, tell: Callable[[str], None]
) -> None:
    chance = random.Random(seed)
    count = A_KILL * trials
    name = f"killed-{kind}"
    fill(broker.bootstrap, f"{name}-in", count)
    if kind == "topic":
        create_topic(broker.bootstrap, f"{name}-out", partitions=PARTITIONS)
    job = tmp_path / "job.toml"
    text = JOB.format(name=name, bootstrap=broker.bootstrap, a_batch=A_BATCH)
    job.write_text(text + SINKS[kind].format(folder=tmp_path, name=name))
    command = run_once(job, jar_folder(tmp_path))
    for _ in range(trials):
        run(command, lambda: chance.uniform(0, 1.5))
    run(command, None)
    found = found_in(kind, tmp_path, broker, name, count)
    assert len(found) == count
    assert sorted(found) == list(range(count))
    tell(f"{name} on {broker.name}: {trials} kills, {count} records, each there once")
