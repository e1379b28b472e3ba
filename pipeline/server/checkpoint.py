"""How far a job has come, as Connect tells it. Counterparts in Kafka: ConnectorOffsets, SinkUtils."""

from pathlib import Path
from typing import Any

from ottla.pipeline.checkpoint import Checkpoint, are_of_topics


def offsets(directory: Path) -> list[dict[str, Any]]:
    """Where the last batch ended that is done; empty where none is."""
    return [offset for number, end in Checkpoint(directory).ends() for offset in _told(number, end)]


def _told(number: int, end: Any) -> list[dict[str, Any]]:
    """One source's end: of topics, each partition's as Connect's sinks tell it; of others as it stands there."""
    if not are_of_topics(end):
        return [{"partition": {"source": number}, "offset": end if isinstance(end, dict) else {"offset": end}}]
    return [
        {"partition": {"kafka_topic": topic, "kafka_partition": int(partition)}, "offset": {"kafka_offset": offset}}
        for topic, partitions in sorted(end.items())
        for partition, offset in sorted(partitions.items(), key=lambda pair: int(pair[0]))
    ]
