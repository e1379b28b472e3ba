"""Tables of our client's metrics under the names of Kafka's Java client.

Counterparts: ToolsUtils.printMetrics, SenderMetricsRegistry, FetchMetricsRegistry.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client.producing.producer import Producer
from ottla.scripts.kafka.face import Face
from ottla.scripts.kafka.java.numbers import fixed, quotient

_LEAST_SECONDS: Final = 30.0
"""The shortest time over which Kafka's client computes a rate."""
Metrics = dict[str, float | str]


class Client(NamedTuple):
    """A client: its id, its start, and its age."""

    id: str
    begun_ms: int
    seconds: float


def print_metrics(face: Face, metrics: Mapping[str, float | str]) -> None:
    """Print a table, ordered by the names."""
    width = max(map(len, metrics))
    face.print(f"\n{'Metric Name':<{width}}   Value")
    for name in sorted(metrics):
        value = metrics[name]
        face.print(f"{name:<{width}} : {fixed(value, 3) if isinstance(value, float) else value}")


def producer_metrics(face: Face, client: Client, producer: Producer, topic: str, memory: int) -> Metrics:
    """Return the metrics of a producer that wrote to one topic."""
    counts = producer.counts
    own = {
        "batch-size-avg": quotient(counts.batch_bytes, counts.batches),
        "batch-size-max": float(counts.largest_batch),
        "buffer-available-bytes": float(producer.free_memory),
        "buffer-total-bytes": float(memory),
        "records-per-request-avg": quotient(counts.records, counts.requests),
        "request-latency-avg": quotient(counts.latency * 1000, counts.responses),
        "request-latency-max": counts.longest * 1000,
        "requests-in-flight": float(producer.requests_in_flight),
    }
    shared = {}
    for name, total in (("error", counts.failed), ("retry", counts.retried), ("send", counts.records)):
        shared.update(_with_rate(f"record-{name}", total, client))
    of_topic = {**shared, **_with_rate("byte", counts.batch_bytes, client)}
    found = _of_group("producer-metrics", {**own, **shared}, client)
    found |= _of_group("producer-topic-metrics", of_topic, client, topic=topic)
    return _with_process(face, found, client)


def consumer_metrics(face: Face, client: Client, records: int, size: int, partitions: int) -> Metrics:
    """Return the metrics of a consumer that read so many records and bytes, and has so many partitions."""
    consumed = {**_with_rate("records-consumed", records, client), **_with_rate("bytes-consumed", size, client)}
    found = _of_group("consumer-fetch-manager-metrics", consumed, client)
    found |= _of_group("consumer-coordinator-metrics", {"assigned-partitions": float(partitions)}, client)
    # The tool of 3.9 prints after the end of its consumer, when the consumer's own metrics are gone.
    return _with_count(found, client) if face.is_3_9 else _with_process(face, found, client)


def _with_rate(name: str, total: int, client: Client) -> dict[str, float]:
    return {f"{name}-total": float(total), f"{name}-rate": total / max(client.seconds, _LEAST_SECONDS)}


def _of_group(group: str, values: Mapping[str, float], client: Client, **tags: str) -> Metrics:
    shown = ", ".join(f"{name}={value}" for name, value in {"client-id": client.id, **tags}.items())
    return {f"{group}:{name}:{{{shown}}}": value for name, value in values.items()}


def _with_process(face: Face, found: Metrics, client: Client) -> Metrics:
    """Return metrics together with those of every client."""
    tags = f"{{client-id={client.id}}}"
    own = {
        f"app-info:commit-id:{tags}": face.release.commit,
        f"app-info:start-time-ms:{tags}": str(client.begun_ms),
        f"app-info:version:{tags}": face.release.version,
    }
    return _with_count({**found, **own}, client)


def _with_count(found: Metrics, client: Client) -> Metrics:
    return {**found, f"kafka-metrics-count:count:{{client-id={client.id}}}": float(len(found) + 1)}
