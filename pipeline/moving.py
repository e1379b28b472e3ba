"""How a job is moved: to other offsets of its topics, or back to where its file has it begin.

Owns which partitions that is about, and that the job's group shows it. What steps had gathered is gone with the job's
place, and its other inputs begin again. Must not know how a job is run. Counterparts in Kafka: StreamsResetter,
Worker.modifyConnectorOffsets.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Final

from ottla.pipeline.checkpoint import Checkpoint, Offsets
from ottla.pipeline.job import Job
from ottla.pipeline.positions import EARLIEST, LATEST, Partition, Positions, by_topic
from ottla.pipeline.settings import JobError
from ottla.pipeline.topics import TopicSource

_PATIENCE_S: Final = 10.0


def to_time(job: Job, kept: Checkpoint, timestamp: int) -> Offsets:
    """Have a job begin anew at a time in milliseconds, or at EARLIEST or LATEST; return where that is."""
    topics = _topics(job)
    with kept.locked(), closing(Positions(topics.bootstrap)) as positions:
        offsets = by_topic(positions.at(dict.fromkeys(topics.partitions(positions), timestamp)))
        _move(job, kept, positions, offsets)
    return offsets


def to_offsets(job: Job, kept: Checkpoint, changes: Mapping[Partition, int | None]) -> Offsets:
    """Have a job begin anew where it is, but for some partitions; None is where its file has one begin."""
    topics = _topics(job)
    with kept.locked(), closing(Positions(topics.bootstrap)) as positions:
        wanted = {each: topics.starts_at(*each) for each in topics.partitions(positions)}
        for topic, partition in changes:
            if (topic, partition) not in wanted:
                raise JobError(f"{job.file}: the job does not read {topic}-{partition}")
        wanted |= places(kept, wanted)
        for each, offset in changes.items():
            wanted[each] = topics.starts_at(*each) if offset is None else offset
        found = positions.at({each: offset for each, offset in wanted.items() if offset in (EARLIEST, LATEST)})
        offsets = by_topic(wanted | found)
        _move(job, kept, positions, offsets)
    return offsets


def to_start(job: Job, kept: Checkpoint) -> None:
    """Have a job begin anew where its file has it begin, whatever its source is."""
    with kept.locked():
        if job.source.topics is None:
            kept.forget()
            return
        with closing(Positions(job.source.topics.bootstrap)) as positions:
            positions.forget(job.group, _PATIENCE_S)
            kept.forget()


def places(kept: Checkpoint, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Where a job is in these, of which it may not have seen all.

    Spark has its sources in the order in which steps read them: what is a job's source need not be the first.
    """
    found: dict[Partition, int] = {}
    wanted = set(partitions)
    for offsets in kept.offsets():
        for topic, of in offsets.items():
            for partition, offset in of.items():
                place = topic, int(partition)
                if place in wanted:
                    found[place] = min(offset, found.get(place, offset))
    return found


def _topics(job: Job) -> TopicSource:
    if job.source.topics is None:
        raise JobError(f"{job.file}: only a job whose source are topics can be moved to offsets of theirs")
    return job.source.topics


def _move(job: Job, kept: Checkpoint, positions: Positions, offsets: Offsets) -> None:
    # In this order: who cannot be told leaves the job where it is.
    positions.commit(job.group, offsets, _PATIENCE_S)
    kept.move(offsets)
