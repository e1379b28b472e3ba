"""`ottla delete-records`: delete the first records of partitions.

Counterpart in Kafka: kafka-delete-records.sh.
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from ottla.client.admin import records
from ottla.client.admin.offsets import EARLIEST, LATEST, LogRange, list_offsets, log_ranges
from ottla.client.cluster import Client
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.partitions import Chosen, find_partitions, place, read_partitions
from ottla.scripts.terminal.records.ranges import Point, read_point
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition


class _Cut(NamedTuple):
    """The start of a partition's log, and the offset before which its records are deleted."""

    start: int
    before: int

    @property
    def records(self) -> int:
        """Return how many offsets are deleted; in a log with gaps there are fewer records."""
        return max(0, self.before - self.start)


@click.command("delete-records")
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC[:P]...", type=TOPIC_NAME)
@click.option(
    "--before",
    required=True,
    metavar="OFFSET|TIME|latest",
    help="Keep records from here on. TIME is a date, @ with milliseconds, or @ with a duration ago, such as @7d.",
)
@DRY_RUN
@YES
@asks_cluster
def delete_records(session: Session, partitions: Sequence[str], before: str, is_dry_run: bool, yes: bool) -> None:
    """Delete the first records of partitions.

    Records before an offset or a time are deleted on all replicas. Segments without other records are removed from the
    disk.
    """
    session.run(_delete, read_partitions(partitions), _point(before), is_dry_run, yes)


def _point(text: str) -> Point:
    now_ms = round(time.time() * 1000)
    try:
        return read_point(text, now_ms)
    except click.UsageError:
        return read_point(f"@{text}", now_ms)


async def _delete(
    client: Client, session: Session, wanted: Sequence[Chosen], point: Point, is_dry_run: bool, yes: bool
) -> None:
    known = await find_partitions(client, wanted)
    there = [each for each, found in known.items() if not isinstance(found, KafkaError)]
    cuts: dict[TopicPartition, _Cut | KafkaError] = await _cuts(client, there, point)
    for each, found in known.items():
        if isinstance(found, KafkaError):
            cuts[each] = found
    good = {each: cut for each, cut in cuts.items() if not isinstance(cut, KafkaError) and cut.records}
    results: Mapping[TopicPartition, int | KafkaError] = {}
    if good and not session.dry_run(is_dry_run):
        session.confirm(f"Delete {_counted(good)}?", yes=yes)
        results = await records.delete_records(client, {each: cut.before for each, cut in good.items()})
    session.out.begin("topic", "partition", "start_offset", "before", "records", "low_watermark", *ERROR)
    for each in known:
        cut, result = cuts[each], results.get(each)
        if isinstance(cut, KafkaError):
            session.out.item(cut, **place(each))
            continue
        values = {"start_offset": cut.start, "before": cut.before, "records": cut.records}
        if isinstance(result, KafkaError):
            session.out.item(result, **place(each), **values)
        else:
            session.out.item(None, **place(each), **values, low_watermark=result)


def _counted(cuts: Mapping[TopicPartition, _Cut]) -> str:
    total = sum(cut.records for cut in cuts.values())
    topics = ", ".join(sorted({each.topic for each in cuts}))
    partitions = "a partition" if len(cuts) == 1 else f"{len(cuts)} partitions"
    return f"up to {total} records of {partitions} ({topics})"


async def _cuts(
    client: Client, partitions: Sequence[TopicPartition], point: Point
) -> dict[TopicPartition, _Cut | KafkaError]:
    """Return the cut of each partition, within its log."""
    ranges = await log_ranges(client, partitions)
    found: dict[TopicPartition, _Cut | KafkaError] = {}
    at_time = {}
    if point.time_ms is not None:
        led = [each for each in partitions if isinstance(ranges[each], LogRange)]
        at_time = await list_offsets(client, dict.fromkeys(led, point.time_ms))
    for each in partitions:
        log = ranges[each]
        offset = at_time.get(each)
        if isinstance(log, KafkaError):
            found[each] = log
        elif isinstance(offset, KafkaError):
            found[each] = offset
        else:
            before = {EARLIEST: log.start, LATEST: log.end}.get(point.base, 0) + point.offset
            if offset is not None:
                before = log.end if offset.offset < 0 else offset.offset
            found[each] = _Cut(log.start, min(max(before, log.start), log.end))
    return found
