"""The time until a broker serves again: after a clean stop with many logs, and after a kill with much to recover."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.footprint import PATIENCE_S, SETTLE_S, Row, create_many
from benchmarks.machine_memory import touch_free_memory
from benchmarks.raw_client import drive
from benchmarks.workloads import address, batch_of, no_produce_error, produce_frame
from compat_tests.support.brokers import Broker, running
from compat_tests.support.clients import create_topic

MANY: Final = "many-0"
UNFLUSHED: Final = "unflushed"
UNFLUSHED_BYTES: Final = 1_000_000_000
RECORDS: Final = 145
# No log is flushed before its segment is full.
ONE_SEGMENT: Final = ("log.segment.bytes=2147483647",)

ROWS: Final = (
    Row("served again after a clean stop, 1,000 partitions", "s", 0.5),
    Row("served again after a kill, 1 GB in 16 KB batches not flushed", "s", None),
)


def measure(system: type[Broker], parent: Path) -> Iterator[tuple[Row, float]]:
    """Yield the figures of all rows, each from the start of the process to the first acknowledged record."""
    with running(system, parent=parent) as broker:
        create_many(broker, 0)
        time.sleep(SETTLE_S)
        broker.stop()
        yield ROWS[0], _served_again_in(broker, MANY)
    touch_free_memory()
    folder = Path(tempfile.mkdtemp(dir=parent))
    with running(system, ONE_SEGMENT, folder) as broker:
        _fill(broker)
        broker.kill()
        yield ROWS[1], _served_again_in(broker, UNFLUSHED)
    shutil.rmtree(folder)


def _fill(broker: Broker) -> None:
    create_topic(broker.bootstrap, UNFLUSHED)
    frame = produce_frame(UNFLUSHED, 0, batch_of(RECORDS, time.time_ns() // 1_000_000))
    replies = 0

    def count(reply: memoryview) -> None:
        nonlocal replies
        no_produce_error(reply)
        replies += 1

    while replies * len(frame) < UNFLUSHED_BYTES:
        drive(address(broker), lambda _: [frame], connections=1, in_flight=4, seconds=0.2, check=count)


def _served_again_in(broker: Broker, topic: str) -> float:
    began = time.perf_counter()
    broker.start()
    frame = produce_frame(topic, 0, batch_of(1, time.time_ns() // 1_000_000))
    while not _is_written(broker, frame):
        if time.perf_counter() - began > PATIENCE_S:
            raise RuntimeError(f"{broker.name} does not serve {topic} after its restart")
    return time.perf_counter() - began


def _is_written(broker: Broker, frame: bytes) -> bool:
    try:
        replies, _ = drive(
            address(broker), lambda _: [frame], connections=1, in_flight=1, seconds=0.001, check=no_produce_error
        )
    except (OSError, RuntimeError):
        return False
    return replies > 0
