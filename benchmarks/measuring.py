"""Common parts of measurements: a quiet disk, a topic of its own, the broker's processor time, and medians.

Owns the warm-up. Must not know the workload.
"""

import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.raw_client import Check, drive
from compat_tests.support.brokers import Broker
from compat_tests.support.clients import create_topic

WARM_UP_SECONDS: Final = 30.0
"""Before this, an Apache Kafka broker serves about half of its later rate, because the JVM still compiles."""
CONFIDENCE: Final = 0.9
PATIENCE_S: Final = 60.0
# The files of a deleted topic are removed at once, so that the disk does not fill during a row.
_DELETED_SOON: Final = {"file.delete.delay.ms": "1000"}
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_numbers = itertools.count(1)


class Sample(NamedTuple):
    """One measurement: the figure of its row, and the broker's processor time for each request or record."""

    figure: float
    cpu_us: float | None = None


class Interval(NamedTuple):
    """A median, and bounds that contain the true median with `CONFIDENCE`."""

    median: float
    low: float
    high: float


class Driven(NamedTuple):
    """A broker's result under a load: replies and received bytes a second, processor time for each reply."""

    replies: float
    received: float
    cpu_us: float


def unique(prefix: str) -> str:
    """Return a name that is unique in this process."""
    return f"{prefix}-{next(_numbers)}"


@contextmanager
def topic_of(broker: Broker, prefix: str, partitions: int = 1, config: dict[str, str] | None = None) -> Iterator[str]:
    """Create a topic for the block, and delete it afterwards."""
    name = unique(prefix)
    create_topic(broker.bootstrap, name, partitions, {**_DELETED_SOON, **(config or {})})
    _wait_until_led(broker, name, partitions)
    try:
        yield name
    finally:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 4})
        admin.delete_topics([name], operation_timeout=PATIENCE_S)[name].result(PATIENCE_S)


def _wait_until_led(broker: Broker, topic: str, partitions: int) -> None:
    """Wait until the broker answers for each partition, because Kafka's metadata has leaders before they lead."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "log_level": 4})
    deadline = time.monotonic() + PATIENCE_S
    try:
        for partition in range(partitions):
            while True:
                try:
                    consumer.get_watermark_offsets(TopicPartition(topic, partition), 1.0)
                    break
                except KafkaException:
                    if time.monotonic() > deadline:
                        raise
    finally:
        consumer.close()


def cpu_seconds(broker: Broker) -> float:
    """Return the processor time that the broker's process has used so far."""
    fields = Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def driven(
    broker: Broker,
    frames_of: Callable[[int], Sequence[bytes]],
    *,
    connections: int,
    in_flight: int,
    seconds: float,
    check: Check,
) -> Driven:
    """Drain the disk, then load a broker over raw sockets, and return its result."""
    host, port = broker.bootstrap.split(":")
    os.sync()
    before, began = cpu_seconds(broker), time.perf_counter()
    replies, received = drive(
        (host, int(port)), frames_of, connections=connections, in_flight=in_flight, seconds=seconds, check=check
    )
    used, took = cpu_seconds(broker) - before, time.perf_counter() - began
    return Driven(replies, received, 1e6 * used / (replies * took))


def warm_up(measure: Callable[[Broker], Sample], broker: Broker) -> None:
    """Run the workload on a broker for `WARM_UP_SECONDS`."""
    began = time.perf_counter()
    while time.perf_counter() - began < WARM_UP_SECONDS:
        measure(broker)


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median and its interval by order statistics, which assume no distribution of values.

    With too few values for `CONFIDENCE`, the bounds are the least and the greatest value.
    """
    ordered = sorted(values)
    count = len(ordered)

    def is_held(left_out: int) -> bool:
        # The probability that at most so many values are below the true median is binomial, as for a fair coin.
        outside: float = 2 * sum(math.comb(count, heads) for heads in range(left_out + 1)) / 2**count
        return 1 - outside >= CONFIDENCE

    left_out = max(filter(is_held, range((count + 1) // 2)), default=0)
    return Interval(statistics.median(ordered), ordered[left_out], ordered[count - 1 - left_out])
