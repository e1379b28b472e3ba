"""Ottla deletes the same old segments as Apache Kafka, after the same commands of Kafka's tools."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from compat_tests.support.brokers import Broker, Ottla, ZooKeeperKafka, running
from compat_tests.support.clients import create_topic
from compat_tests.support.tools import Tools

pytestmark = pytest.mark.slow
OFTEN_MS = {
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 200,
    "log.segment.delete.delay.ms": 300,
}
DAY_MS = 86_400_000
# Less than two batches of one record.
CONFIG = {"segment.bytes": "1600"}
RECORDS = 6
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    with Tools(tmp_path_factory.mktemp("tools")) as started:
        yield started


@pytest.fixture(scope="module", params=[Ottla, ZooKeeperKafka], ids=lambda kind: kind.name)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with running(request.param, [f"{key}={value}" for key, value in OFTEN_MS.items()]) as started:
        yield started


def fill(broker: Broker, topic: str, *, age_ms: int = 0, **config: str) -> None:
    """Create a topic of six segments with one record each."""
    named = {key.replace("_", "."): value for key, value in config.items()}
    create_topic(broker.bootstrap, topic, config=CONFIG | named)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    now_ms = time.time_ns() // 1_000_000
    for number in range(RECORDS):
        producer.produce(topic, bytes([number]) * 1000, timestamp=now_ms - age_ms)
        assert producer.flush(120) == 0


def files(broker: Broker, topic: str) -> list[str]:
    """Return the files of a partition's segments, without the offset index of an empty one, which may be missing."""
    folder = broker.data / "log" / f"{topic}-0"
    empty = {path.stem + ".index" for path in folder.glob("*.log") if not path.stat().st_size}
    return sorted(path.name for path in folder.iterdir() if re.match(r"\d{20}\.", path.name) and path.name not in empty)


def of_segments(*offsets: int) -> list[str]:
    """Return the names of the files of segments; the segment at offset 0 has no snapshot."""
    kinds = ["index", "log", "snapshot", "timeindex"]
    return [f"{offset:020d}.{kind}" for offset in offsets for kind in kinds if offset or kind != "snapshot"]


def offsets(broker: Broker, topic: str) -> tuple[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    found = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=120)
    consumer.close()
    assert found is not None
    return found


def wait_for(expected: object, found: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (last := found()) != expected:
        assert time.monotonic() < deadline, f"expected {expected}, found {last}"
        time.sleep(0.05)


def run(tools: Tools, main_class: str, *arguments: str) -> str:
    printed = tools.run(main_class, *arguments)
    assert printed.code == 0, printed
    return printed.stdout


def configure(tools: Tools, broker: Broker, topic: str, config: str) -> None:
    run(
        tools,
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", broker.bootstrap, "--alter", "--topic", topic, "--add-config", config),
    )


def test_segments_go_by_age_as_soon_as_retention_is_shorter(tools: Tools, broker: Broker) -> None:
    fill(broker, "by-age", age_ms=DAY_MS)
    assert files(broker, "by-age") == of_segments(*range(RECORDS))
    configure(tools, broker, "by-age", "retention.ms=3600000")
    wait_for((RECORDS, RECORDS), lambda: offsets(broker, "by-age"))
    new = [f"{RECORDS:020d}.{kind}" for kind in ("log", "snapshot", "timeindex")]
    wait_for(new, lambda: files(broker, "by-age"))


def test_segments_go_by_size_and_the_rest_is_read(tools: Tools, broker: Broker) -> None:
    fill(broker, "by-size")
    configure(tools, broker, "by-size", "retention.bytes=2500")
    wait_for((3, RECORDS), lambda: offsets(broker, "by-size"))
    wait_for(of_segments(3, 4, 5), lambda: files(broker, "by-size"))
    folder = broker.data / "log" / "by-size-0"
    logs = ",".join(str(path) for path in sorted(folder.glob("*.log")))
    printed = run(tools, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", logs)
    assert re.findall(r"baseOffset: (\d+)", printed) == ["3", "4", "5"]
    assert "isvalid: false" not in printed


def test_a_consumer_below_the_start_is_told_so(broker: Broker) -> None:
    fill(broker, "too-late", age_ms=DAY_MS, retention_ms="3600000")
    wait_for((RECORDS, RECORDS), lambda: offsets(broker, "too-late"))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "late", "auto.offset.reset": "error"}
    )
    consumer.assign([confluent_kafka.TopicPartition("too-late", 0, 1)])
    message = consumer.poll(PATIENCE_S)
    consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET


def test_what_delete_records_leaves_below_the_start_leaves_the_disk(
    tools: Tools, broker: Broker, tmp_path: Path
) -> None:
    fill(broker, "deleted")
    wanted = tmp_path / "deleted.json"
    partitions = [{"topic": "deleted", "partition": 0, "offset": 4}]
    wanted.write_text(json.dumps({"partitions": partitions, "version": 1}))
    size = described_size(tools, broker, "deleted")
    printed = run(
        tools,
        "org.apache.kafka.tools.DeleteRecordsCommand",
        *("--bootstrap-server", broker.bootstrap, "--offset-json-file", str(wanted)),
    )
    assert "low_watermark: 4" in printed
    wait_for(of_segments(4, 5), lambda: files(broker, "deleted"))
    assert described_size(tools, broker, "deleted") == size * 2 // RECORDS


def described_size(tools: Tools, broker: Broker, topic: str) -> int:
    printed = run(
        tools,
        "org.apache.kafka.tools.LogDirsCommand",
        *("--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", topic),
    )
    (sizes,) = re.findall(r'"size":(\d+)', printed)
    return int(sizes)
