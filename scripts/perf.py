"""`ottla perf`: throughput and latency of a topic, measured by Ottla's client.

Counterparts in Kafka: kafka-producer-perf-test.sh, kafka-consumer-perf-test.sh, kafka-e2e-latency.sh.
"""

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import trio

from ottla.client.cluster import Client
from ottla.client.consuming.consumer import Chunk, open_consumer
from ottla.client.errors import ClientError
from ottla.client.producing.producer import Delivery, Producer, open_producer
from ottla.client.tasks import background
from ottla.scripts.load.measurement import COLUMNS, Measurement
from ottla.scripts.load.pace import Pace
from ottla.scripts.load.payloads import Payloads, chosen, letters
from ottla.scripts.load.round_trips import AT_ONCE, open_round_trips
from ottla.scripts.terminal.durations import duration_ms
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import asks_cluster
from ottla.scripts.terminal.output import ERROR, explained
from ottla.scripts.terminal.progress import Progress
from ottla.scripts.terminal.properties import PROPERTIES, read_properties
from ottla.scripts.terminal.records.ranges import END, Range, resolve
from ottla.scripts.terminal.records.selection import read_bounds, read_numbers, some_partitions
from ottla.scripts.terminal.session import Session, describe
from ottla.scripts.terminal.signals import ending_by_signal
from ottla.wire.errors import KafkaError

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_LOOK_SECONDS: Final = 0.2
_DEFAULT_SECONDS: Final = 10.0
_DEFAULT_SIZE: Final = 100

_TOPIC = click.argument("topic", type=TOPIC_NAME)
_RECORDS = click.option("-n", "--records", type=click.IntRange(1), metavar="N", help="End after N records.")
_DURATION = click.option("--duration", type=duration_ms, metavar="DURATION", help="End after this time, such as 30s.")
_WARM_UP = click.option(
    "--warm-up", type=click.IntRange(0), default=0, metavar="N", help="The first N records are not measured."
)
_SIZE = click.option(
    "--size",
    type=click.IntRange(0),
    metavar="BYTES",
    help=f"Values are this many random letters. The default is {_DEFAULT_SIZE}.",
)
_PAYLOAD_FILE = click.option(
    "--payload-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Values are lines of this file, chosen at random.",
)
_KEY = click.option("-k", "--key", metavar="TEXT", help="The key of all records.")
_RATE = click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="The most records a second."
)
_COMPRESSION = click.option("-z", "--compression", type=click.Choice(_CODECS), help="Compress batches.")


class _Plan(NamedTuple):
    """The options of all three commands."""

    topic: str
    most: int | None
    seconds: float
    warm_up: int


class _Writing(NamedTuple):
    """The records to write, and their rate."""

    payloads: Payloads
    key: bytes | None
    keys: int | None
    rate: float | None


@click.group()
def perf() -> None:
    """Measure throughput and latency of a topic."""


# Writing


@perf.command("produce")
@_TOPIC
@_RECORDS
@_DURATION
@_WARM_UP
@_SIZE
@_PAYLOAD_FILE
@_KEY
@click.option("--keys", type=click.IntRange(1), metavar="N", help="Keys are the numbers below N, in turn.")
@_RATE
@_COMPRESSION
@click.option("--acks", type=click.Choice(["all", "1", "0"]), help="Replicas that must have a record; default: `all`.")
@PROPERTIES
@asks_cluster
def produce(
    session: Session, key: str | None, keys: int | None, acks: str | None, compression: str | None, **options: Any
) -> None:
    """Write records, and measure how fast they are acknowledged.

    The run ends after --records, after --duration, or after 10 seconds. Latency is the time from sending a record to
    its acknowledgement. Bytes are those of keys and values before compression; a megabyte has 1,000,000 bytes. Failed
    records are in rows of their own, one for each error, and make the exit code 1.
    """
    if key is not None and keys is not None:
        raise click.UsageError("--key and --keys contradict each other")
    writing = _writing(key, keys, options)
    properties = _properties(options.pop("properties"), {"acks": acks, "compression.type": compression})
    plan = _plan(options, default_seconds=_DEFAULT_SECONDS)
    session.run(_measure, plan, "producing", partial(_produce, plan=plan, writing=writing), properties=properties)


def _writing(key: str | None, keys: int | None, options: dict[str, Any]) -> _Writing:
    """Return the records to write, and remove their options. UsageError for options that contradict each other."""
    size, file, rate = options.pop("size"), options.pop("payload_file"), options.pop("rate")
    if size is not None and file is not None:
        raise click.UsageError("--size and --payload-file contradict each other")
    payloads = letters(_DEFAULT_SIZE if size is None else size) if file is None else chosen(_lines(file))
    return _Writing(payloads, None if key is None else key.encode(), keys, rate)


def _lines(file: Path) -> list[bytes]:
    lines = file.read_bytes().split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise click.UsageError(f"--payload-file {file}: the file is empty")
    return lines


def _properties(given: tuple[str, ...], own: Mapping[str, str | None]) -> dict[str, str]:
    """Return the properties of a client that creates no topics."""
    return {"allow.auto.create.topics": "false", **read_properties(given, own)}


def _plan(options: dict[str, Any], default_seconds: float) -> _Plan:
    """Return the plan of the options; without --records and --duration it ends after `default_seconds`."""
    most, milliseconds = options["records"], options["duration"]
    seconds = math.inf if milliseconds is None else milliseconds / 1000
    if most is None and milliseconds is None:
        seconds = default_seconds
    return _Plan(options["topic"], most, seconds, options["warm_up"])


class _Run:
    """A measured run: its progress, and the rows at its end."""

    def __init__(self, plan: _Plan, what: str) -> None:
        self.measured = Measurement()
        self.is_warm = False
        self.total: int | None = plan.most
        self._plan = plan
        self._what = what
        self._failed: dict[tuple[str, str | None], int] = {}

    def begin(self) -> None:
        """Note that the warm-up is over."""
        self.is_warm = True
        self.measured.begin()

    def fail(self, error: Exception) -> None:
        """Count a record that failed."""
        code, text, _ = describe(error)
        where = (code, explained(error) if isinstance(error, KafkaError) else text)
        self._failed[where] = self._failed.get(where, 0) + 1

    async def show_forever(self, progress: Progress) -> None:
        """Show the figures so far."""
        while True:
            rate, worst = self.measured.mb_per_second, self.measured.latencies.percentile_ms(0.99)
            words = [self._what if self.is_warm else "warming up"]
            words += [] if rate is None else [f"{rate:.1f} MB/s"]
            words += [] if worst is None else [f"p99 {worst:.1f} ms"]
            progress.update(self.measured.records, self.total, "  ".join(words))
            await trio.sleep(_LOOK_SECONDS)

    def print(self, session: Session) -> None:
        """Print the figures, and a row for each error."""
        session.out.begin("topic", *COLUMNS, *ERROR)
        session.out.row(topic=self._plan.topic, **self.measured.row())
        for (code, message), number in self._failed.items():
            session.out.row(topic=self._plan.topic, records=number, error=code, message=message)


async def _measure(
    client: Client, session: Session, plan: _Plan, what: str, work: Callable[[Client, _Run], Awaitable[None]]
) -> None:
    """Do the work and print the measurement, also after Ctrl-C or an error."""
    run = _Run(plan, what)
    failure: Exception | None = None
    async with ending_by_signal() as ending:
        with Progress(what) as progress:
            async with background() as nursery:
                nursery.start_soon(run.show_forever, progress)
                with ending.interruptible():
                    try:
                        await work(client, run)
                    except (KafkaError, ClientError) as error:
                        failure = error
    if failure is None or run.measured.records:
        run.print(session)
    if failure is not None:
        raise failure
    if ending.signal:
        raise KeyboardInterrupt


async def _produce(client: Client, run: _Run, *, plan: _Plan, writing: _Writing) -> None:
    await client.topics([plan.topic])
    async with open_producer(client) as producer:
        sending = _Sending(producer, plan.topic, writing, run)
        for _ in range(plan.warm_up):
            await sending.send()
        await producer.flush()
        run.begin()
        pace = Pace(writing.rate)
        with trio.move_on_after(plan.seconds):
            for _ in count() if plan.most is None else range(plan.most):
                await sending.send()
                await pace.step()
        await producer.flush()


class _Sending:
    """Sends records one by one, and measures each."""

    def __init__(self, producer: Producer, topic: str, writing: _Writing, run: _Run) -> None:
        self._producer = producer
        self._topic = topic
        self._writing = writing
        self._run = run
        self._number = 0

    async def send(self) -> None:
        """Send the next record. KafkaError for a record that fits no batch, because all others would fail, too."""
        writing = self._writing
        key = writing.key if writing.keys is None else b"%d" % (self._number % writing.keys)
        value = writing.payloads()
        self._number += 1
        size = len(value) + (0 if key is None else len(key))
        completed = partial(self._completed, time.perf_counter(), size)
        await self._producer.send(self._topic, value, key, on_completion=completed)

    def _completed(self, begun: float, size: int, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._run.fail(delivery.error)
        else:
            self._run.measured.add(1, size, time.perf_counter() - begun)


# Reading


@perf.command("consume")
@_TOPIC
@click.option("-p", "--partition", "partitions", metavar="N[,N...]", help="Only these partitions.")
@click.option("--from", "first", metavar="PLACE", help="Begin here. The default is `beginning`.")
@_RECORDS
@_DURATION
@_WARM_UP
@click.option("--read-committed", is_flag=True, help="Leave out records of open and aborted transactions.")
@PROPERTIES
@asks_cluster
def consume(session: Session, partitions: str | None, first: str | None, read_committed: bool, **options: Any) -> None:
    """Read records, and measure how fast they come.

    The run ends after --records or after --duration; without either, at the current end of the topic. Nothing is
    committed. Latency is the time from a record's timestamp to its arrival, for records that are written while the
    command runs: try --from end --duration 30s.

    PLACE is that of `ottla consume`: beginning, end, an offset, +N or -N from either, @TIME.
    """
    numbers, start = read_numbers(partitions), read_bounds(first, None, None).start
    isolation = "read_committed" if read_committed else None
    properties = _properties(options.pop("properties"), {"isolation.level": isolation})
    plan = _plan(options, default_seconds=math.inf)
    ends = plan.most is None and plan.seconds == math.inf
    span = Range(start, END if ends else None)
    work = partial(_consume, plan=plan, numbers=numbers, span=span)
    session.run(_measure, plan, "consuming", work, properties=properties)


async def _consume(client: Client, run: _Run, *, plan: _Plan, numbers: Sequence[int], span: Range) -> None:
    topic = (await client.metadata([plan.topic])).topics[0]
    is_committed = client.config["isolation.level"] == "read_committed"
    bounds = await resolve(client, some_partitions(topic, numbers), span, is_committed=is_committed)
    stops = {each: bound.stop for each, bound in bounds.items() if bound.stop is None or bound.start < bound.stop}
    if span.stop is not None:
        run.total = sum(max(0, (bound.stop or 0) - bound.start) for bound in bounds.values())
    async with open_consumer(client, reset="earliest") as consumer:
        consumer.assign({each: bounds[each].start for each in stops})
        reading = _Reading(plan, run)
        with trio.move_on_after(plan.seconds):
            while stops and not reading.is_finished:
                chunk = await consumer.next()
                stop = stops[chunk.partition]
                reading.take(chunk, stop)
                if stop is not None and chunk.next_offset >= stop:
                    consumer.stop(chunk.partition)
                    del stops[chunk.partition]


class _Reading:
    """Counts records as they arrive."""

    def __init__(self, plan: _Plan, run: _Run) -> None:
        self._most = plan.most
        self._warm_up = plan.warm_up
        self._run = run
        self._begun_ms = 0
        self._begin_if_warm()

    def _begin_if_warm(self) -> None:
        if self._warm_up == 0:
            self._run.begin()
            self._begun_ms = time.time_ns() // 1_000_000

    @property
    def is_finished(self) -> bool:
        """Whether --records have arrived."""
        return self._run.measured.records == self._most

    def take(self, chunk: Chunk, stop: int | None) -> None:
        """Count the records of a chunk before `stop`."""
        run, now_ms = self._run, time.time_ns() / 1_000_000
        for _, record in chunk.records():
            if self.is_finished or (stop is not None and record.offset >= stop):
                return
            if self._warm_up:
                self._warm_up -= 1
                self._begin_if_warm()
                continue
            size = len(record.key or b"") + len(record.value or b"")
            is_new = record.timestamp >= self._begun_ms
            run.measured.add(1, size, max(0.0, now_ms - record.timestamp) / 1000 if is_new else None)


# Round trips


@perf.command("latency")
@_TOPIC
@_RECORDS
@_DURATION
@_WARM_UP
@_SIZE
@_PAYLOAD_FILE
@_KEY
@_RATE
@_COMPRESSION
@click.option("--acks", type=click.Choice(["all", "1"]), help="Replicas that must have a record; default: `all`.")
@PROPERTIES
@asks_cluster
def latency(session: Session, key: str | None, acks: str | None, compression: str | None, **options: Any) -> None:
    """Measure round trips, one after the other.

    Each record is written after the one before was acknowledged and read. The run ends after --records, after
    --duration, or after 10 seconds.
    """
    writing = _writing(key, None, options)
    own = {"acks": acks, "compression.type": compression}
    properties = {"acks": "all", **AT_ONCE, **_properties(options.pop("properties"), own)}
    if properties["acks"] == "0":
        raise click.UsageError("--property acks=0: a latency needs acknowledgements")
    plan = _plan(options, default_seconds=_DEFAULT_SECONDS)
    session.run(_measure, plan, "round trips", partial(_make_trips, plan=plan, writing=writing), properties=properties)


async def _make_trips(client: Client, run: _Run, *, plan: _Plan, writing: _Writing) -> None:
    async with open_round_trips(client, plan.topic) as trips:
        for _ in range(plan.warm_up):
            await trips.complete(writing.payloads(), writing.key)
        run.begin()
        pace = Pace(writing.rate)
        with trio.move_on_after(plan.seconds):
            for _ in count() if plan.most is None else range(plan.most):
                value = writing.payloads()
                seconds = await trips.complete(value, writing.key)
                run.measured.add(1, len(value) + len(writing.key or b""), seconds)
                await pace.step()
