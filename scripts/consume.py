"""`ottla consume`: print the records of topics.

Counterparts: kafka-console-consumer.sh; elsewhere kcat -C, rpk topic consume.
"""

import re
from collections.abc import Sequence
from fnmatch import translate
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ottla.client.cluster import Client
from ottla.scripts.terminal.names import GROUP_NAME, TOPIC_NAME
from ottla.scripts.terminal.options import asks_cluster
from ottla.scripts.terminal.patterns import chosen, is_pattern
from ottla.scripts.terminal.records.filters import Wanted, wanted
from ottla.scripts.terminal.records.formats import Shown
from ottla.scripts.terminal.records.output import HEX_FORMAT, RecordOutput
from ottla.scripts.terminal.records.ranges import BEGINNING, END, Bounds, Point, Range, resolve
from ottla.scripts.terminal.records.selection import read_bounds, read_numbers, some_partitions
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_RESETS: Final = {BEGINNING: "earliest", END: "latest"}


class _Options(NamedTuple):
    """The parsed options."""

    topics: Sequence[str]
    regex: bool
    partitions: Sequence[int]
    range: Range
    last: int | None
    most: int | None
    exit_at_end: bool
    follow: bool
    group: str | None
    wanted: Wanted | None


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", type=TOPIC_NAME)
@click.option("--regex", is_flag=True, help="TOPIC is a regular expression, not a shell pattern.")
@click.option("-p", "--partition", "partitions", metavar="N[,N...]", help="Only these partitions.")
@click.option("--from", "first", metavar="PLACE", help="Begin here. The default is `beginning`.")
@click.option("--until", metavar="PLACE", help="End before this place: `end` is the current end.")
@click.option("--offset", metavar="RANGE", help="--from and --until in one, as in rpk: 10:20, :end, @-1h, @T1:T2.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="The last N records of each partition, by time.")
@click.option("-n", "--count", "most", type=click.IntRange(1), metavar="N", help="End after N printed records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="End at the current end of all partitions.")
@click.option("--follow", is_flag=True, help="Continue with new records after --last.")
@click.option("-g", "--group", metavar="GROUP", type=GROUP_NAME, help="Read as a member of this group, and commit.")
@click.option("--read-committed", is_flag=True, help="Leave out records of open and aborted transactions.")
@click.option(
    "-f", "--format", "text", metavar="FORMAT", help="Print each record in this format. The default is '%v\\n'."
)
@click.option("--hex", "is_hex", is_flag=True, help="Print values in hexadecimal: short for --format '%v{hex}\\n'.")
@click.option("--decode", type=click.Choice(["avro"]), help="Decode values, and print them as JSON.")
@click.option("--schema", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Avro's schema.")
@click.option("--key", "keys", multiple=True, metavar="PATTERN", help="Only records whose key matches.")
@click.option("--value", "values", multiple=True, metavar="PATTERN", help="Only records whose value matches.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME[:PATTERN]", help="Only records with a matching header."
)
@asks_cluster
def consume(
    session: Session,
    text: str | None,
    is_hex: bool,
    decode: str | None,
    schema: Path | None,
    read_committed: bool,
    **options: Any,
) -> None:
    """Print the records of topics.

    All records from the beginning are printed, and then new records, until Ctrl-C. With --until, --count, --last or
    --exit-at-end the command ends by itself. Without --output each record is printed by --format.

    A member of a group begins at the committed offset, and without one at --from (`beginning` or `end`).

    \b
    PLACE  beginning, end, an offset, +N or -N from either, @TIME
    TIME   2026-11-20, 2026-11-20T08:00:00Z, 13 digits (ms), 1h30m (ago), now

    \b
    FORMAT is a text with
      %t topic  %p partition  %o offset  %e leader epoch  %d timestamp
      %k key  %v value  %h headers  %K %V %H their lengths and count
      %a attributes  %x %y producer's id and epoch  %] end of the log
      %i number of the record  %% %{ %}  \\n \\t \\r \\\\ \\xNN
    and takes a modifier in braces:
      %v{hex} {base64} {base64raw}, %o{big32} {little64} {hex16} {byte},
      %d{strftime[%F %T]} {go[15:04:05]}, %h{%k=%v{hex};}
    as in rpk. kcat's %s and %S (value), %R and %T (timestamp) work, too; so
    %T is not the length of the topic's name, as in rpk.

    PATTERN is a glob for the whole text, or /a regular expression/ for a part of it; !PATTERN excludes. If an option is
    given several times, one pattern must match. A key or value that is null matches no pattern.

    --output ndjson prints records so that `ottla produce --input ndjson` restores them exactly. On a terminal, control
    characters are shown as \\xNN.
    """
    form = click.get_current_context().params["form"]
    if text is not None and (form is not None or is_hex):
        raise click.UsageError("--format excludes --output and --hex")
    if (decode is None) != (schema is None):
        raise click.UsageError("--decode and --schema need each other")
    decoder = None
    if schema is not None:
        from ottla.scripts.terminal.records.avro import reader_of

        decoder = reader_of(schema)
    found = _read_options(**options)
    output = RecordOutput(session.out, form, HEX_FORMAT if is_hex else text, decoder)
    session.run(_consume, found, output, properties=_properties(found, read_committed))


def _read_options(
    first: str | None,
    until: str | None,
    offset: str | None,
    keys: Sequence[str],
    values: Sequence[str],
    headers: Sequence[str],
    **options: Any,
) -> _Options:
    """Return the parsed options. UsageError for options that contradict each other."""
    places = {"--from": first, "--until": until, "--offset": offset}
    given = next((name for name, value in places.items() if value is not None), None)
    if options["last"] and given is not None:
        raise click.UsageError(f"{given} and --last contradict each other")
    if options["follow"] and not options["last"]:
        raise click.UsageError("--follow needs --last: without it, consume does not end anyway")
    span = read_bounds(first, until, offset)
    if options["last"]:
        span = Range(Point(END.base, -options["last"]), END)
    elif options["exit_at_end"] and span.stop is None:
        span = span._replace(stop=END)
    has_range = until or options["last"] or options["partitions"] or span.start not in _RESETS or (offset and span.stop)
    if options["group"] and has_range:
        raise click.UsageError("--group excludes --partition and all ranges but --from beginning or end")
    numbers = read_numbers(options.pop("partitions"))
    return _Options(range=span, wanted=wanted(keys, values, headers), partitions=numbers, **options)


def _properties(options: _Options, read_committed: bool) -> dict[str, str]:
    found = {"allow.auto.create.topics": "false"}
    if read_committed:
        found["isolation.level"] = "read_committed"
    if options.group is not None:
        found |= {"group.id": options.group, "auto.offset.reset": _RESETS[options.range.start]}
    return found


class _Printing:
    """Prints the records that match the options, up to --count."""

    def __init__(self, options: _Options, output: RecordOutput) -> None:
        self._wanted = options.wanted
        self._most = options.most
        self._output = output
        self._number = 0

    def take(self, shown: Shown) -> bool:
        """Print a record if it matches; return whether more are wanted."""
        if self._wanted is None or self._wanted(shown.record):
            self._number += 1
            self._output.write(shown._replace(number=self._number))
        return self._number != self._most


async def _consume(client: Client, session: Session, options: _Options, output: RecordOutput) -> None:
    from ottla.scripts.terminal.records.source import read_as_member, read_between, read_by_time

    take, flush = _Printing(options, output).take, output.flush
    if options.group is not None:
        topics, pattern = _subscription(options)
        await read_as_member(client, topics, pattern, take, flush, exit_at_end=options.exit_at_end)
        return
    partitions = await _partitions(client, options)
    is_committed = client.config["isolation.level"] == "read_committed"
    bounds = await resolve(client, partitions, options.range, is_committed=is_committed)
    if not options.last:
        await read_between(client, bounds, take, flush)
    elif await read_by_time(client, bounds, take, flush) and options.follow:
        rest = {each: Bounds(bound.stop or 0, None) for each, bound in bounds.items()}
        await read_between(client, rest, take, flush)


def _subscription(options: _Options) -> tuple[Sequence[str], re.Pattern[str] | None]:
    """Return the names of topics, or the pattern for their names."""
    if not options.regex and not any(map(is_pattern, options.topics)):
        return options.topics, None
    try:
        return (), re.compile("|".join(each if options.regex else translate(each) for each in options.topics))
    except re.error as error:
        raise click.UsageError(f"the regular expression is invalid: {error}") from None


async def _partitions(client: Client, options: _Options) -> list[TopicPartition]:
    """Return the partitions to read. KafkaError for a topic or a partition that does not exist."""
    plain = not options.regex and not any(map(is_pattern, options.topics))
    found = {topic.name or "": topic for topic in (await client.metadata(options.topics if plain else None)).topics}
    partitions: list[TopicPartition] = []
    for name in options.topics if plain else chosen(found, options.topics, regex=options.regex):
        partitions += some_partitions(found[name], options.partitions)
    if not partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic matches {' '.join(options.topics)}")
    return partitions
