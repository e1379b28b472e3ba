"""`ottla produce`: write records to a topic.

Counterparts: kafka-console-producer.sh; elsewhere kcat -P, rpk topic produce.
"""

import math
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import trio

from ottla.client.cluster import Client
from ottla.client.errors import ClientError
from ottla.client.producing.producer import Delivery, Producer, open_producer
from ottla.client.tasks import background
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import asks_cluster
from ottla.scripts.terminal.output import ERROR, explained
from ottla.scripts.terminal.records.json_lines import record_of_json
from ottla.scripts.terminal.records.reading import FormatReader, InputError, LineReader, Reader, ReadRecord
from ottla.scripts.terminal.session import Session, describe
from ottla.scripts.terminal.signals import ending_by_signal
from ottla.scripts.terminal.standard_input import pieces
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError

_LOOK_SECONDS: Final = 0.2
_FAREWELL_SECONDS: Final = 5.0
"""How long unsent records may take to arrive after Ctrl-C."""
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""The choices of --compression."""


class _Options(NamedTuple):
    """The options for all records."""

    topic: str
    files: Sequence[Path]
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    partition: int | None
    any_partition: bool
    tombstone: bool
    rate: float | None


@click.command()
@click.argument("topic", type=TOPIC_NAME)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("-k", "--key", help="The key of all records.")
@click.option("--key-separator", metavar="TEXT", help="The key is the part of each line before this text.")
@click.option("-H", "--header", "headers", multiple=True, metavar="KEY=VALUE", help="A header of all records.")
@click.option("-p", "--partition", metavar="N|any", help="The partition of all records; `any`: by the key.")
@click.option("--tombstone", is_flag=True, help="An empty value is null, which deletes the key in a compacted topic.")
@click.option("-z", "--compression", type=click.Choice(_CODECS), help="Compress batches.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), help="Replicas that must have a record; default: `all`.")
@click.option("-f", "--format", "text", metavar="FORMAT", help="Read records in this format, such as '%k\\t%v\\n'.")
@click.option("--input", "source", type=click.Choice(["lines", "ndjson"]), default="lines", show_default=True)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="The most records a second.")
@asks_cluster
def produce(
    session: Session,
    key: str | None,
    key_separator: str | None,
    headers: Sequence[str],
    partition: str | None,
    compression: str | None,
    acks: str | None,
    text: str | None,
    source: str,
    **options: Any,
) -> None:
    """Write records to a topic.

    The input is FILES or stdin. Each line is a value unless the options name another form.

    \b
    FORMAT has the verbs of `ottla consume --format`, for input:
      %k key  %v value  %p partition  %d timestamp in ms
      a text ends before the literal after it: '%k\\t%v\\n'
      or has the size before it: '%K{big32}%k%V{big32}%v'
      headers have their count before them: '%H %h{%k=%v }%v\\n'
      fields that a record does not keep (%t %o and others) are skipped

    --input ndjson reads the output of `ottla consume --output ndjson`. Records keep key, value, headers and timestamp
    exactly, and their partition, unless --partition names another one or `any`.

    There is a row for each partition that got records, and for each error with its count of failed records. An error
    makes the exit code 1. After Ctrl-C the records read before are still written.
    """
    if sum((key_separator is not None, text is not None, source == "ndjson")) > 1:
        raise click.UsageError("--key-separator, --format and --input ndjson exclude each other")
    found = _Options(
        key=None if key is None else key.encode(),
        headers=[_header(each) for each in headers],
        partition=_partition(partition),
        any_partition=partition == "any",
        **options,
    )
    given = {"compression.type": compression, "acks": acks}
    timeout_seconds = click.get_current_context().params["timeout_seconds"]
    if timeout_seconds is not None:
        given |= dict.fromkeys(("max.block.ms", "delivery.timeout.ms"), str(round(timeout_seconds * 1000)))
    properties = {name: value for name, value in given.items() if value is not None}
    session.run(_produce, found, _reader(text, key_separator, source), properties=properties)


def _partition(text: str | None) -> int | None:
    if text is None or text == "any":
        return None
    if not (text.isascii() and text.isdigit()):
        raise click.UsageError(f"--partition {text}: a partition is a number, or `any`")
    return int(text)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--header {text}: a header is KEY=VALUE")
    return name, value.encode()


def _reader(text: str | None, separator: str | None, source: str) -> Reader:
    if text is not None:
        return FormatReader(text)
    if source == "ndjson":
        return LineReader(parse=record_of_json)
    return LineReader(None if separator is None else separator.encode())


class _Results:
    """Counts of records by partition and by error."""

    def __init__(self, session: Session, topic: str) -> None:
        self._session = session
        self._topic = topic
        self._written: dict[int, tuple[int, int, int]] = {}
        self._failed: dict[tuple[int | None, str, str | None], int] = {}
        self.written = 0

    def add(self, delivery: Delivery) -> None:
        """Count a written record."""
        if delivery.error is not None:
            self.fail(delivery.error, delivery.partition)
            return
        self.written += 1
        count, first, last = self._written.get(delivery.partition, (0, delivery.offset, -1))
        self._written[delivery.partition] = (count + 1, min(first, delivery.offset), max(last, delivery.offset))

    def fail(self, error: Exception, partition: int | None = None) -> None:
        """Count a record that failed."""
        code, text, _ = describe(error)
        message = explained(error) if isinstance(error, KafkaError) else text
        where = (partition, code, message)
        self._failed[where] = self._failed.get(where, 0) + 1

    def print(self) -> None:
        """Print a row for each partition and each error."""
        out = self._session.out
        out.begin("topic", "partition", "records", "first_offset", "last_offset", *ERROR)
        for partition, (count, first, last) in sorted(self._written.items()):
            offsets = {} if first < 0 else {"first_offset": first, "last_offset": last}
            out.row(topic=self._topic, partition=partition, records=count, **offsets)
        for (number, code, message), count in self._failed.items():
            out.row(topic=self._topic, partition=number, records=count, error=code, message=message)
        failed = sum(self._failed.values())
        but = f", {failed} failed" if failed else ""
        self._session.say(f"{self.written} {'record' if self.written == 1 else 'records'} written{but}")


async def _produce(client: Client, session: Session, options: _Options, reader: Reader) -> None:
    results = _Results(session, options.topic)
    wrong: InputError | None = None
    count = await _partition_count(client, options)
    async with ending_by_signal() as ending, open_producer(client) as producer, background() as nursery:
        if sys.stderr.isatty() and not sys.stdin.isatty():
            nursery.start_soon(_show_progress, results)
        try:
            with ending.interruptible():
                await _send_all(producer, options, reader, results, count)
        except InputError as error:
            # The records read before are written.
            wrong = error
        with trio.move_on_after(_FAREWELL_SECONDS if ending.signal else math.inf):
            await producer.flush()
    results.print()
    if ending.signal:
        raise KeyboardInterrupt
    if wrong is not None:
        raise ClientError(f"the input cannot be read: {wrong}")


async def _partition_count(client: Client, options: _Options) -> int | None:
    """Return the topic's partition count; None if it does not exist yet. ConfigError if it lacks --partition."""
    topic = (await client.metadata([options.topic])).topics[0]
    count = len(topic.partitions) or None
    if count is not None and options.partition is not None and options.partition >= count:
        raise ConfigError(f"{options.topic} has no partition {options.partition}")
    return count


async def _send_all(
    producer: Producer, options: _Options, reader: Reader, results: _Results, count: int | None
) -> None:
    begun, sent = trio.current_time(), 0
    async with aclosing(pieces(options.files)) as source:
        async for piece in source:
            for record in reader.end() if piece is None else reader.feed(piece):
                if options.rate is not None:
                    await trio.sleep_until(begun + sent / options.rate)
                await _send(producer, options, record, results, count)
                sent += 1


async def _send(
    producer: Producer, options: _Options, record: ReadRecord, results: _Results, count: int | None
) -> None:
    partition = None if options.any_partition else record.partition
    if options.partition is not None:
        partition = options.partition
    if count is not None and partition is not None and partition >= count:
        detail = f"{options.topic} has no partition {partition}: --partition any chooses it by the key"
        results.fail(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail), partition)
        return
    try:
        await producer.send(
            options.topic,
            None if options.tombstone and not record.value else record.value,
            record.key if record.key is not None else options.key,
            [*record.headers, *options.headers] if options.headers else record.headers,
            timestamp=record.timestamp,
            partition=partition,
            on_completion=results.add,
        )
    except KafkaError as error:
        results.fail(error, partition)


async def _show_progress(results: _Results) -> None:
    try:
        while True:
            await trio.sleep(_LOOK_SECONDS)
            sys.stderr.write(f"\r{results.written} records written")
            sys.stderr.flush()
    finally:
        sys.stderr.write("\r\x1b[K")
