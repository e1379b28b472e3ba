"""How far a job has come, and where it is to begin, as Connect says it. Counterparts: ConnectorOffsets, SinkUtils."""

from pathlib import Path
from typing import Any, Final

from ottla.pipeline.checkpoint import Checkpoint, are_of_topics
from ottla.pipeline.positions import Partition
from ottla.pipeline.server.answers import RestError

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"


def offsets(directory: Path) -> list[dict[str, Any]]:
    """Where the last batch ended that is done; empty where none is."""
    return [offset for number, end in Checkpoint(directory).ends() for offset in _told(number, end)]


def _told(number: int, end: Any) -> list[dict[str, Any]]:
    """One source's end: of topics, each partition's as Connect's sinks tell it; of others as it stands there."""
    if not are_of_topics(end):
        return [{"partition": {"source": number}, "offset": end if isinstance(end, dict) else {"offset": end}}]
    return [
        {"partition": {TOPIC: topic, PARTITION: int(partition)}, "offset": {OFFSET: offset}}
        for topic, partitions in sorted(end.items())
        for partition, offset in sorted(partitions.items(), key=lambda pair: int(pair[0]))
    ]


def changes(body: Any) -> dict[Partition, int | None]:
    """What a request says of where a job is to begin; null for a partition is where its config says."""
    given = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(given, list) or not given:
        raise RestError(400, "Partitions / offsets need to be provided for an alter offsets request")
    return dict(map(_change, given))


def _change(given: Any) -> tuple[Partition, int | None]:
    partition = given.get("partition") if isinstance(given, dict) else None
    if not isinstance(partition, dict) or not {TOPIC, PARTITION} <= partition.keys():
        raise RestError(400, f"Each partition is to be an object with {TOPIC} and {PARTITION}, not {given!r}")
    offset = given.get("offset")
    if offset is not None and (not isinstance(offset, dict) or OFFSET not in offset):
        raise RestError(400, f"Each offset is to be null or an object with {OFFSET}, not {offset!r}")
    place = str(partition[TOPIC]), _number(partition[PARTITION])
    return place, None if offset is None else _number(offset[OFFSET])


def _number(value: Any) -> int:
    """A whole number, as such or as a text."""
    if isinstance(value, int | str) and not isinstance(value, bool) and str(value).isdecimal():
        return int(value)
    raise RestError(400, f"Partitions and offsets are to be whole numbers, not {value!r}")
