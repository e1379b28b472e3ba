"""Spark reads a topic as a batch: with its own source for Kafka from either broker, and from the files of the log.

One Spark reads from all brokers in turn. Each read has all columns of all records, and its result is dropped.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.footprint import Row
from benchmarks.measuring import WARM_UP_SECONDS
from compat_tests.support.brokers import Broker, measured_tool, running
from compat_tests.support.clients import create_topic
from ottla.log.state.checkpoint import HIGH_WATERMARK_FILE, read_offsets

TITLE = "Spark reads 5,000,000 records of 100 B"
RECORDS = 5_000_000
TOPIC = "table"
# At least as many as the tasks of Spark's source at a time.
PARTITIONS = 4
PATIENCE_S = 60.0

SOURCE = Row("Spark's source for Kafka", "s", 1.0)
LOG = Row("ottla-log", "s", 0.5)
Figures = Mapping[tuple[str, str], Sequence[float]]


def measure(system: type[Broker], spark: Any, records: int = RECORDS) -> Iterator[tuple[Row, float]]:
    """Yield the seconds of both ways, on a fresh broker, after a warm-up of each."""
    from ottla.pipeline.log_source import register

    register(spark)
    with tempfile.TemporaryDirectory(prefix="spark-") as parent, running(system, parent=Path(parent)) as broker:
        _fill(broker, records)
        from_broker = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": broker.bootstrap})
        from_disk = spark.read.format("ottla-log").option("path", str(broker.data / "log"))
        frames = {row: reader.option("subscribe", TOPIC) for row, reader in ((SOURCE, from_broker), (LOG, from_disk))}
        for reader in frames.values():
            found = reader.load().count()
            if found != records:
                raise RuntimeError(f"{found} of {records} records were read")
            began = time.perf_counter()
            while time.perf_counter() - began < WARM_UP_SECONDS:
                _seconds(reader)
        for row, reader in frames.items():
            yield row, _seconds(reader)


def _fill(broker: Broker, records: int) -> None:
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    measured_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", TOPIC, "--num-records", str(records), "--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", broker.bootstrap),
        timeout_s=300,
    )
    # Reading from files ends at the high watermark in the broker's checkpoint.
    deadline = time.monotonic() + PATIENCE_S
    while True:
        committed = read_offsets(broker.data / "log" / HIGH_WATERMARK_FILE)
        if sum(offset for partition, offset in committed.items() if partition.topic == TOPIC) == records:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all records are committed: {committed}")
        time.sleep(0.1)


def _seconds(reader: Any) -> float:
    began = time.perf_counter()
    reader.load().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def table(systems: Sequence[type[Broker]], figures: Figures) -> list[str]:
    """Return the lines of a table of medians, which compares the brokers, and the two ways for each broker."""
    median = {key: statistics.median(found) for key, found in figures.items()}
    kafka, ottla = (system.name for system in systems)
    compared = [(f"{SOURCE.name}: {kafka}, {ottla}", (kafka, SOURCE), (ottla, SOURCE), SOURCE.bar)]
    compared += [
        (f"{name}: {SOURCE.name}, {LOG.name}", (name, SOURCE), (name, LOG), LOG.bar) for name in (kafka, ottla)
    ]
    lines = ["| what is compared | unit | one | other | ratio | bar | reached |", "|---|---|---:|---:|---:|---:|---|"]
    for what, first, second, bar in compared:
        one, other = (median[name, row.name] for name, row in (first, second))
        assert bar is not None
        reached = "yes" if other / one <= bar else "no"
        lines.append(f"| {what} | s | {one:.2f} | {other:.2f} | {other / one:.3f} | ≤ {bar} | {reached} |")
    return lines
