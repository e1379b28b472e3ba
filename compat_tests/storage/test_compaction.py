"""Ottla and Apache Kafka 3.9.2 clean copies of the same directory, with the same result."""

import random
import re
import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.support.brokers import Broker, Ottla, QuickKafka, run_tool
from compat_tests.support.clients import CODECS, PATIENCE_S, create_topic
from compat_tests.support.zookeeper import running

pytestmark = pytest.mark.slow
TOPIC = "cleaned"
CONFIG = {"cleanup.policy": "compact", "segment.bytes": "30000", "min.cleanable.dirty.ratio": "0.01"}
WRITTEN = 10_000
CLEANING = ("log.cleaner.enable=true", "log.cleaner.backoff.ms=100")


def fill(bootstrap: str, chance: random.Random) -> None:
    """Write many values of few keys, tombstones and records without value, in all codecs."""
    for codec in CODECS:
        settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "batch.size": 5000}
        producer = Producer({**settings, "enable.idempotence": codec != "none"})
        for number in range(WRITTEN // len(CODECS)):
            key = b"%d" % chance.randrange(300)
            value = None if chance.random() < 0.1 else b"%d %s " % (number, codec.encode()) * chance.randrange(20)
            producer.produce(TOPIC, key=key, value=value, headers=[("h", b"x")] if number % 7 == 0 else [])
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0


def cleaned(broker: Broker) -> int:
    """Start the broker, wait until it has cleaned the log, and stop it; return the first offset not cleaned."""
    broker.start()
    checkpoint = broker.data / "log" / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + PATIENCE_S
    try:
        while True:
            lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
            for line in lines:
                if line.startswith(f"{TOPIC} 0 ") and not line.endswith(" 0"):
                    return int(line.split()[2])
            assert time.monotonic() < deadline, broker.output()[-4000:]
            time.sleep(0.1)
    finally:
        broker.stop()


def contents(broker: Broker) -> tuple[list[str], list[str]]:
    """Return the names of the segments, and the batches and records of Kafka's tool without positions and sizes."""
    logs = sorted((broker.data / "log" / f"{TOPIC}-0").glob("*.log"))
    printed = run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--deep-iteration", "--print-data-log", "--files", ",".join(map(str, logs))),
    )
    told = [line for line in printed.splitlines() if line.startswith(("baseOffset:", "| offset:"))]
    # Positions, checksums and sizes depend on the base of timestamps, and delete horizons on the time.
    hidden = r" (position|size|crc|deleteHorizonMs): \S+"
    assert "isvalid: false" not in printed
    return [path.name for path in logs], [re.sub(hidden, "", line) for line in told]


def test_both_leave_the_same_of_the_same_directory(tmp_path: Path) -> None:
    with running(tmp_path / "zookeeper", ["tickTime=200"]) as zookeeper:
        settings = ["broker.id=1", f"zookeeper.connect={zookeeper.connect}", "controlled.shutdown.enable=false"]
        (tmp_path / "ottla").mkdir()
        (tmp_path / "kafka").mkdir()
        writer = Ottla(tmp_path / "ottla", [*settings, "log.cleaner.enable=false"])
        writer.start()
        create_topic(writer.bootstrap, TOPIC, config=CONFIG)
        fill(writer.bootstrap, random.Random(9))
        writer.stop()
        shutil.copytree(tmp_path / "ottla" / "log", tmp_path / "kafka" / "log")
        ottla = Ottla(tmp_path / "ottla", [*settings, *CLEANING])
        kafka = QuickKafka(tmp_path / "kafka", [*settings, *CLEANING])
        assert cleaned(ottla) == cleaned(kafka) > 0
        left = contents(ottla)
        assert left == contents(kafka)
        records = [line for line in left[1] if line.startswith("|")]
        assert 300 <= len(records) < WRITTEN // 3
