"""`ottla copy`: copy a topic, also to another cluster.

Counterpart in Kafka: MirrorMaker, for one topic; elsewhere kcat -C | kcat -P.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import trio

from ottla.client.admin.groups.committed_offsets import Committed, commit_offsets
from ottla.client.admin.offsets import log_ranges
from ottla.client.cluster import Client, check, open_client
from ottla.client.config import ClientConfig
from ottla.client.consuming.consumer import Chunk, open_consumer
from ottla.client.errors import ClientError
from ottla.client.producing.producer import Producer, open_producer
from ottla.client.tasks import background
from ottla.scripts.load.pace import Pace
from ottla.scripts.terminal.names import GROUP_NAME, TOPIC_NAME
from ottla.scripts.terminal.offsets.resets import Plan as ResetPlan
from ottla.scripts.terminal.offsets.resets import resettable
from ottla.scripts.terminal.options import DRY_RUN, asks_cluster
from ottla.scripts.terminal.output import ERROR, explained
from ottla.scripts.terminal.progress import Progress
from ottla.scripts.terminal.records.filters import Wanted, wanted
from ottla.scripts.terminal.records.ranges import END, Bounds, Range, resolve
from ottla.scripts.terminal.records.selection import read_bounds, read_numbers, some_partitions
from ottla.scripts.terminal.records.tracks import Track
from ottla.scripts.terminal.session import Reach, Session, describe
from ottla.scripts.terminal.signals import Ending, ending_by_signal
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataResponseTopic
from ottla.wire.records.batch import Record
from ottla.wire.types import TopicPartition

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_LOOK_SECONDS: Final = 0.2
_FAREWELL_SECONDS: Final = 5.0
_MOST_REQUEST_BYTES: Final = 100 << 20
"""A broker's default for its largest request, because the target decides whether a record is too large."""


class _Options(NamedTuple):
    """The parsed options."""

    topic: str
    name: str
    target: Reach | None
    partitions: Sequence[int]
    range: Range
    most: int | None
    follow: bool
    group: str | None
    wanted: Wanted | None
    rate: float | None
    compression: str | None
    timeout_seconds: float | None
    is_dry_run: bool


@click.command()
@click.argument("topic", type=TOPIC_NAME)
@click.option("--to", "to_bootstrap", metavar="HOST:PORT[,...]", help="Copy to the cluster at these addresses.")
@click.option("--to-profile", "to_profile", metavar="NAME", help="Copy to this cluster of profiles.toml.")
@click.option(
    "--to-config",
    "to_config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Kafka's client properties for the cluster to copy to.",
)
@click.option("--as", "name", metavar="NAME", help="The target topic. The default is the same name.")
@click.option("-p", "--partition", "partitions", metavar="N[,N...]", help="Only these partitions.")
@click.option("--from", "first", metavar="PLACE", help="Begin here. The default is `beginning`.")
@click.option("--until", metavar="PLACE", help="End before this place. The default is the current end.")
@click.option("--offset", metavar="RANGE", help="--from and --until in one: 10:20, :end, @-1h, @T1:T2.")
@click.option("-n", "--count", "most", type=click.IntRange(1), metavar="N", help="End after N copied records.")
@click.option("--follow", is_flag=True, help="Continue with new records, until Ctrl-C.")
@click.option(
    "-g", "--group", metavar="GROUP", type=GROUP_NAME, help="Continue at the committed offsets of this group."
)
@click.option("--read-uncommitted", is_flag=True, help="Copy records of open and aborted transactions, too.")
@click.option("--key", "keys", multiple=True, metavar="PATTERN", help="Only records whose key matches.")
@click.option("--value", "values", multiple=True, metavar="PATTERN", help="Only records whose value matches.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME[:PATTERN]", help="Only records with a matching header."
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="The most records a second.")
@click.option("-z", "--compression", type=click.Choice(_CODECS), help="Compress batches.")
@DRY_RUN
@asks_cluster
def copy(session: Session, read_uncommitted: bool, **options: Any) -> None:
    """Copy a topic, also to another cluster.

    --to, --to-profile or --to-config name another cluster; --as alone names another topic of the same cluster. The
    target topic must exist. Keys, values, headers and timestamps stay as they are, and null stays null.

    A record keeps its partition if both topics have the same number of partitions. If not, its key chooses the
    partition, as it does for a producer; a record without a key goes to any partition.

    The copy ends at the current end of the topic, or continues with --follow. Records of open and aborted transactions
    are left out. A record that the target refuses ends the copy.

    With --group the copy begins at the group's committed offsets. A partition without a commit begins at --from. Every
    few seconds and at the end the copy commits the offsets that the target has acknowledged, so that the next run
    continues there. After a run that was killed, the next one may copy some records again, but leaves none out. The
    group must have no members, and only one copy at a time may use it.

    PLACE, RANGE and PATTERN are those of `ottla consume`. A dry run reads the records up to the current end, and counts
    those that would be copied.
    """
    found = _read_options(**options)
    isolation = "read_uncommitted" if read_uncommitted else "read_committed"
    properties = {"isolation.level": isolation, "allow.auto.create.topics": "false"}
    session.run(_copy, found, properties=properties)


def _read_options(
    topic: str,
    name: str | None,
    to_bootstrap: str | None,
    to_profile: str | None,
    to_config: Path | None,
    partitions: str | None,
    first: str | None,
    until: str | None,
    offset: str | None,
    keys: Sequence[str],
    values: Sequence[str],
    headers: Sequence[str],
    **options: Any,
) -> _Options:
    """Return the parsed options. UsageError for options that contradict each other."""
    timeout_seconds = click.get_current_context().params["timeout_seconds"]
    target = None
    if any(each is not None for each in (to_bootstrap, to_profile, to_config)):
        target = Reach(to_bootstrap, to_profile, to_config, timeout_seconds)
    elif name is None:
        raise click.UsageError("name a target: --to, --to-profile or --to-config, or --as for the same cluster")
    if target is None and name == topic:
        raise _onto_itself(topic)
    span = read_bounds(first, until, offset)
    if options["follow"] and span.stop is not None:
        raise click.UsageError("--follow excludes --until, and an end in --offset")
    if span.stop is None and (options["is_dry_run"] or not options["follow"]):
        span = span._replace(stop=END)
    return _Options(
        topic=topic,
        name=name or topic,
        target=target,
        partitions=read_numbers(partitions),
        range=span,
        wanted=wanted(keys, values, headers),
        timeout_seconds=timeout_seconds,
        **options,
    )


def _onto_itself(topic: str) -> click.UsageError:
    return click.UsageError(f"{topic} is source and target: give another cluster, or another name by --as")


# Source and target


async def _copy(client: Client, session: Session, options: _Options) -> None:
    session.dry_run(options.is_dry_run)
    source = (await client.metadata([options.topic])).topics[0]
    partitions = some_partitions(source, options.partitions)
    async with open_client(_target_config(client, options)) as target:
        topic = (await target.metadata([options.name])).topics[0]
        if options.name == options.topic and _are_one(client, target):
            raise _onto_itself(options.topic)
        _check_target(topic, options.name)
        bounds = await _bounds(client, session, options, partitions)
        keeps_partitions = len(topic.partitions) == len(source.partitions)
        await _Copying(client, session, options, bounds, keeps_partitions).run(target)


def _target_config(client: Client, options: _Options) -> ClientConfig:
    """Return the properties of the writing client; with acks=all, because acknowledged offsets are committed."""
    config = client.config if options.target is None else options.target.config()
    found = {"max.request.size": str(_MOST_REQUEST_BYTES), **config.texts, "acks": "all"}
    if options.compression is not None:
        found["compression.type"] = options.compression
    if options.timeout_seconds is not None:
        found |= dict.fromkeys(("max.block.ms", "delivery.timeout.ms"), str(round(options.timeout_seconds * 1000)))
    return ClientConfig(found)


def _are_one(source: Client, target: Client) -> bool:
    """Whether both clients have the same cluster."""
    if source.cluster_id is not None and target.cluster_id is not None:
        return source.cluster_id == target.cluster_id
    return source.nodes == target.nodes


def _check_target(topic: MetadataResponseTopic, name: str) -> None:
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        text = f"the target topic {name} does not exist: create it by `ottla topics create`"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    check(topic.error_code, name)


async def _bounds(
    client: Client, session: Session, options: _Options, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Bounds]:
    """Return the offsets to read of each partition. KafkaError if the group cannot be used."""
    is_committed = client.config["isolation.level"] == "read_committed"
    bounds = await resolve(client, partitions, options.range, is_committed=is_committed)
    if options.group is None:
        return bounds
    plan = ResetPlan()
    states = await resettable(client, [options.group], plan)
    if plan.refused:
        group, _, error = plan.refused[0]
        raise KafkaError(error.code, f"group {group}: {explained(error) or ''}".rstrip(": "))
    committed = {each: place.offset for each, place in states[0].offsets.items() if each in bounds}
    for each, log in (await log_ranges(client, committed)).items():
        if isinstance(log, KafkaError):
            raise log
        offset = committed[each]
        if offset > log.end:
            text = (
                f"group {options.group} committed {offset} for {each}, but the log ends at {log.end}: reset the group"
            )
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if offset < log.start:
            _say_gap(session, each, offset, log.start)
        bounds[each] = bounds[each]._replace(start=max(offset, log.start))
    return bounds


def _say_gap(session: Session, partition: TopicPartition, first: int, behind: int) -> None:
    session.say(f"{partition}: the offsets {first} to {behind - 1} were deleted, and are not copied")


# Copying


class _Copying:
    """One run: it reads, sends, and commits acknowledged offsets."""

    def __init__(
        self,
        client: Client,
        session: Session,
        options: _Options,
        bounds: Mapping[TopicPartition, Bounds],
        keeps_partitions: bool,
    ) -> None:
        self._client = client
        self._session = session
        self._options = options
        self._bounds = bounds
        self._keeps_partitions = keeps_partitions
        self._tracks = {each: Track(bound.start, self._stop) for each, bound in bounds.items()}
        self._committed: dict[TopicPartition, int] = {}
        self._sent = 0
        self._failure: Exception | None = None
        self._scope = trio.CancelScope()

    async def run(self, target: Client) -> None:
        """Copy, and print a row for each partition, also after Ctrl-C."""
        async with ending_by_signal() as ending:
            with Progress("counting" if self._options.is_dry_run else "copying") as progress:
                async with background() as nursery:
                    nursery.start_soon(self._show_forever, progress)
                    if self._options.is_dry_run:
                        await self._count(ending)
                    else:
                        await self._commit()
                        nursery.start_soon(self._commit_forever)
                        await self._write(target, ending)
            await self._commit_at_end(is_hasty=bool(ending.signal))
            self._print()
        if ending.signal:
            raise KeyboardInterrupt
        if self._failure is not None:
            raise self._failure

    def _stop(self) -> None:
        """End the reading after a failure."""
        self._scope.cancel()

    async def _count(self, ending: Ending) -> None:
        with ending.interruptible():
            await self._read(None)

    async def _write(self, target: Client, ending: Ending) -> None:
        with trio.CancelScope() as producing:
            async with open_producer(target) as producer:
                with ending.interruptible(), self._scope:
                    try:
                        await self._read(producer)
                    except (KafkaError, ClientError) as error:
                        self._failure = error
                    else:
                        await producer.flush()
                        return
                # Records in flight get some time to arrive.
                with trio.move_on_after(_FAREWELL_SECONDS):
                    await producer.flush()
                producing.cancel()

    async def _read(self, producer: Producer | None) -> None:
        left = {each: stop for each, (start, stop) in self._bounds.items() if stop is None or start < stop}
        pace = Pace(self._options.rate)
        async with open_consumer(self._client, reset="earliest") as consumer:
            consumer.assign({each: self._bounds[each].start for each in left})
            while left:
                chunk = await consumer.next()
                stop = left[chunk.partition]
                self._check_order(chunk)
                if not await self._take(chunk, stop, producer, pace):
                    return
                if stop is not None and self._tracks[chunk.partition].reached >= stop:
                    consumer.stop(chunk.partition)
                    del left[chunk.partition]

    def _check_order(self, chunk: Chunk) -> None:
        """Report offsets that were deleted before they were read. KafkaError for a log that begins anew."""
        reached = self._tracks[chunk.partition].reached
        if chunk.start > reached:
            _say_gap(self._session, chunk.partition, reached, chunk.start)
        if chunk.start < reached:
            text = f"{chunk.partition} went back from offset {reached} to {chunk.start}: was the topic created anew?"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)

    async def _take(self, chunk: Chunk, stop: int | None, producer: Producer | None, pace: Pace) -> bool:
        """Copy the records of a chunk before `stop`; return whether more are wanted."""
        track, fits = self._tracks[chunk.partition], self._options.wanted
        for _, record in chunk.records():
            if stop is not None and record.offset >= stop:
                break
            track.read += 1
            if fits is None or fits(record):
                self._sent += 1
                if producer is None:
                    track.sent += 1
                else:
                    await self._send(producer, chunk.partition, record, track)
                    await pace.step()
            track.reach(record.offset + 1)
            if self._sent == self._options.most:
                return False
        track.reach(chunk.next_offset if stop is None else min(stop, chunk.next_offset))
        return True

    async def _send(self, producer: Producer, partition: TopicPartition, record: Record, track: Track) -> None:
        try:
            await producer.send(
                self._options.name,
                record.value,
                record.key,
                record.headers,
                timestamp=record.timestamp,
                partition=partition.partition if self._keeps_partitions else None,
                on_completion=track.send(record.offset),
            )
        except (KafkaError, ClientError) as error:
            track.fail(record.offset, error)
            await trio.lowlevel.checkpoint()

    # The group's offsets

    async def _commit_forever(self) -> None:
        while self._options.group is not None:
            await trio.sleep(self._client.config.seconds("auto.commit.interval.ms"))
            try:
                await self._commit()
            except (KafkaError, ClientError) as error:
                self._failure = error
                self._stop()
                return

    async def _commit_at_end(self, *, is_hasty: bool) -> None:
        if self._options.is_dry_run:
            return
        with trio.move_on_after(_FAREWELL_SECONDS if is_hasty or self._failure else math.inf):
            try:
                await self._commit()
            except (KafkaError, ClientError) as error:
                self._failure = self._failure or error

    async def _commit(self) -> None:
        """Commit the offsets that changed since the last commit. KafkaError if the group refuses them."""
        group = self._options.group
        news = {each: track.position for each, track in self._tracks.items()}
        news = {each: offset for each, offset in news.items() if self._committed.get(each) != offset}
        if group is None or not news:
            return
        places = {each: Committed(offset) for each, offset in news.items()}
        for each, error in (await commit_offsets(self._client, group, places)).items():
            if error is not None:
                raise KafkaError(error.code, f"group {group}, {each}: {explained(error) or ''}".rstrip(": "))
        self._committed.update(news)

    # Output

    async def _show_forever(self, progress: Progress) -> None:
        total = self._options.most
        if total is None and not self._options.follow:
            total = sum(max(0, (bound.stop or 0) - bound.start) for bound in self._bounds.values())
        while True:
            done = sum(track.reached - track.start for track in self._tracks.values())
            progress.update(done if self._options.most is None else self._sent, total)
            await trio.sleep(_LOOK_SECONDS)

    def _print(self) -> None:
        options, out = self._options, self._session.out
        out.begin(
            *("topic", "partition", "target", "first_offset", "next_offset", "read", "matching", "copied"), *ERROR
        )
        for partition, track in self._tracks.items():
            row = {
                "topic": partition.topic,
                "partition": partition.partition,
                "target": options.name,
                "first_offset": track.start,
                "next_offset": track.reached if options.is_dry_run else track.position,
                "read": track.read,
                "matching": track.sent,
                "copied": track.copied,
            }
            out.row(**row, **_error(track))
        if options.is_dry_run:
            self._session.say(f"{_counted(self._sent)} would be copied to {options.name}")
        else:
            copied = sum(track.copied for track in self._tracks.values())
            self._session.say(f"{_counted(copied)} copied to {options.name}")


def _error(track: Track) -> dict[str, str]:
    if track.failure is None:
        return {}
    offset, error = track.failure
    code, text, _ = describe(error)
    more = explained(error) if isinstance(error, KafkaError) else text
    return {"error": code, "message": f"offset {offset}{'' if more is None else f': {more}'}"}


def _counted(number: int) -> str:
    return f"{number} {'record' if number == 1 else 'records'}"
