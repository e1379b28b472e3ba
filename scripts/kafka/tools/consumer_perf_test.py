"""kafka-consumer-perf-test: read records as a member of a group, and print rates.

Counterpart: org.apache.kafka.tools.ConsumerPerformance.
"""

import random
import re
from collections.abc import Sequence
from typing import Final

import trio

from ottla.client.cluster import Client
from ottla.client.config import ClientConfig
from ottla.client.consuming.chunks import Chunk
from ottla.client.consuming.consumer import open_consumer
from ottla.client.consuming.group_member import GroupMember, open_member
from ottla.client.errors import ClientError
from ottla.scripts.kafka.client_properties import client_config, key_values, properties_of
from ottla.scripts.kafka.face import Face, JavaError, illegal_argument
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_invalid,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java.date_formats import DateFormat
from ottla.scripts.kafka.java.numbers import INTEGER, LONG, fixed, quotient
from ottla.scripts.kafka.perf.metrics import Client as MeasuredClient
from ottla.scripts.kafka.perf.metrics import consumer_metrics, print_metrics
from ottla.scripts.kafka.perf.producer_stats import now_ms
from ottla.scripts.kafka.records.client_errors import consumer_error
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import KafkaError

_MEGABYTE: Final = 1024 * 1024
_TIMEOUT_MS: Final = 10_000
_MOST_GROUPS: Final = 100_000
_ABOUT: Final = "This tool is used to verify the consumer performance."
_RATES: Final = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
_TIMES: Final = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
_COMMON: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="server to connect to", help="The brokers to find the cluster at (required)."),
    flag("topic", argument="topic", help="The topic to read."),
    flag("group", argument="gid", help="The group to read as."),
    flag("fetch-size", argument="size", type=INTEGER.convert, default=1024 * 1024, help="Bytes of one partition."),
    flag("from-latest", help="Begin at the end, unless the group has committed."),
    flag("socket-buffer-size", argument="size", type=INTEGER.convert, default=2 * 1024 * 1024,
         help="Bytes of the socket's buffer."),
    flag("consumer.config", argument="config file", help="A file of properties of the consumer."),
    flag("print-metrics", help="Print the consumer's metrics at the end."),
    flag("show-detailed-stats", help="Print a line each interval."),
    flag("timeout", argument="milliseconds", type=LONG.convert, default=_TIMEOUT_MS, is_optional_argument=True,
         help="End when no record comes for so long."),
    flag("messages", argument="count", type=LONG.convert, help="How many records to read."),
    flag("reporting-interval", argument="interval_ms", type=LONG.convert, default=5000, help="Between two lines."),
    flag("date-format", argument="date format", default="yyyy-MM-dd HH:mm:ss:SSS", help="A pattern of Java's."),
    flag("hide-header", help="Print no header."),
)  # fmt: skip
_FLAGS: Final = (
    *_COMMON,
    flag("include", argument="Java regex (String)", help="A regular expression for the topics to read."),
    flag("command-property", argument="prop1=val1", help="key=value: a property of the consumer."),
    flag("command-config", argument="config file", help="A file of properties of the consumer."),
    flag("num-records", argument="count", type=LONG.convert, help="How many records to read (required)."),
)
_OLDER_FLAGS: Final = (
    *_COMMON,
    flag("broker-list", argument="broker-list", help="An older name of --bootstrap-server."),
    flag("threads", argument="count", type=INTEGER.convert, default=10, help="Has no effect."),
    flag("num-fetch-threads", argument="count", type=INTEGER.convert, default=1, help="Has no effect."),
)


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    flags = _OLDER_FLAGS if face.is_3_9 else _FLAGS
    try:
        parsed = parse(flags, arguments)
    except JavaError as error:
        raise print_usage_and_exit(face, flags, str(error.message)) from None
    (_check_older if face.is_3_9 else _check)(parsed, flags, arguments, face)
    try:
        _run(parsed, face)
    except JavaError as error:
        face.complain("null" if error.message is None else error.message)
        face.complain_trace(error)
        return 1
    return 0


def _check(parsed: Parsed, flags: Sequence[Flag], arguments: Sequence[str], face: Face) -> None:
    maybe_print_help_or_version(face, flags, parsed, arguments, _ABOUT)
    check_required(face, flags, parsed, "bootstrap-server")
    for names in (("topic", "include"), ("messages", "num-records")):
        if sum(map(parsed.has, names)) != 1:
            shown = ", ".join(f"[{each}]" for each in names)
            text = f"Exactly one of the following arguments is required: {shown}"
            raise print_usage_and_exit(face, flags, text)
    check_invalid(face, flags, parsed, "consumer.config", ["command-config"])
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if parsed.has(old):
            face.print(f"Warning: --{old} is deprecated. Use --{new} instead.")


def _check_older(parsed: Parsed, flags: Sequence[Flag], arguments: Sequence[str], face: Face) -> None:
    if not any(map(parsed.has, ("help", "version", "bootstrap-server", "broker-list"))):
        raise print_usage_and_exit(face, flags, "Missing required option(s) [bootstrap-server]")
    if parsed.has("threads") or parsed.has("num-fetch-threads"):
        face.print(
            "WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the test"
        )
    maybe_print_help_or_version(face, flags, parsed, arguments, _ABOUT)
    check_required(face, flags, parsed, "topic", "messages")


def _run(parsed: Parsed, face: Face) -> None:
    is_detailed = parsed.has("show-detailed-stats")
    if not parsed.has("hide-header"):
        face.print(f"{'time, threadId' if is_detailed else 'start.time, end.time'}, {_RATES}, {_TIMES}")
    config = _config(parsed, face)
    reading = _Reading(parsed, config, face)
    try:
        face.with_client(config, reading.run)
    except (KafkaError, ClientError) as error:
        raise consumer_error(error) from None
    except ConfigError as error:
        raise JavaError("org.apache.kafka.common.KafkaException", str(error)) from None


def _config(parsed: Parsed, face: Face) -> ClientConfig:
    file = parsed.value("consumer.config")
    if not face.is_3_9:
        properties = properties_of(file or parsed.value("command-config"))
        properties |= key_values(parsed.values("command-property"))
    else:
        properties = properties_of(file)
    old = face.is_3_9 and not parsed.has("bootstrap-server")
    properties |= {
        "bootstrap.servers": parsed.value("broker-list" if old else "bootstrap-server"),
        "group.id": parsed.value("group") or f"perf-consumer-{random.randrange(_MOST_GROUPS)}",
        "receive.buffer.bytes": str(parsed.value("socket-buffer-size")),
        "max.partition.fetch.bytes": str(parsed.value("fetch-size")),
        "auto.offset.reset": "latest" if parsed.has("from-latest") else "earliest",
    }
    properties.setdefault("client.id", "perf-consumer-client")
    return client_config(properties)


class _Reading:
    """One run: the counts of records, and the time of joining."""

    def __init__(self, parsed: Parsed, config: ClientConfig, face: Face) -> None:
        self._face = face
        self._parsed = parsed
        self._client_id: str = config["client.id"]
        self._most: int = parsed.value("messages") or 0
        if not face.is_3_9 and not parsed.has("messages"):
            self._most = parsed.value("num-records")
        timeout_ms = parsed.value("timeout")
        self._timeout_ms: int = _TIMEOUT_MS if timeout_ms is None else timeout_ms
        self._interval_ms: int = parsed.value("reporting-interval")
        if self._interval_ms <= 0:
            raise illegal_argument("Reporting interval must be greater than 0.")
        self._is_detailed = parsed.has("show-detailed-stats")
        self._dates = DateFormat(parsed.value("date-format"))
        self._records = self._bytes = 0
        self._reported_records = self._reported_bytes = 0
        self._begun_ms = self._join_begun_ms = self._reported_ms = now_ms()
        self._joining_ms = self._joining_of_round_ms = 0
        self._partitions = 0

    async def run(self, client: Client) -> None:
        """Read until --messages or a timeout, and print the rates."""
        parsed = self._parsed
        topics = [parsed.value("topic")] if parsed.has("topic") else []
        pattern = None
        if not topics:
            try:
                pattern = re.compile(parsed.value("include"))
            except re.error as error:
                text = f"{error} near {parsed.value('include')}"
                raise JavaError("java.util.regex.PatternSyntaxException", text) from None
        async with open_consumer(client) as consumer, open_member(client, consumer, topics, pattern) as member:
            member.on_revoked = lambda partitions: self._note_join_begun()
            member.on_assigned = lambda partitions: self._note_joined(len(partitions))
            self._begun_ms = self._join_begun_ms = self._reported_ms = now_ms()
            await self._read(member)
            ended_ms = now_ms()
            if not self._is_detailed:
                self._print_total(ended_ms)
            if parsed.has("print-metrics"):
                measured = MeasuredClient(self._client_id, self._begun_ms, (ended_ms - self._begun_ms) / 1000)
                metrics = consumer_metrics(self._face, measured, self._records, self._bytes, self._partitions)
                print_metrics(self._face, metrics)
            self._face.flush()

    def _note_join_begun(self) -> None:
        self._join_begun_ms = now_ms()

    def _note_joined(self, partitions: int) -> None:
        elapsed_ms = now_ms() - self._join_begun_ms
        self._joining_ms += elapsed_ms
        self._joining_of_round_ms += elapsed_ms
        self._partitions = partitions

    async def _read(self, member: GroupMember) -> None:
        while self._records < self._most:
            with trio.move_on_after(max(0, self._timeout_ms) / 1000) as patience:
                chunk = await member.next()
            if patience.cancelled_caught or chunk is None:
                break
            self._take(chunk)
            member.processed(chunk.partition, chunk.next_offset, chunk.leader_epoch)
        if self._records < self._most:
            what = "messages" if self._face.is_3_9 else "records"
            self._face.print(
                f"WARNING: Exiting before consuming the expected number of {what}: timeout ({self._timeout_ms} ms) "
                "exceeded. You can use the --timeout option to increase the timeout."
            )

    def _take(self, chunk: Chunk) -> None:
        now = now_ms()
        for _, record in chunk.records():
            self._records += 1
            self._bytes += len(record.key or b"") + len(record.value or b"")
            if now - self._reported_ms >= self._interval_ms:
                self._report(now)

    def _report(self, now: int) -> None:
        """Begin a new interval, and print a line for the last one if --show-detailed-stats was given."""
        if self._is_detailed:
            elapsed_ms = now - self._reported_ms
            size = (self._bytes - self._reported_bytes) / _MEGABYTE
            count = self._records - self._reported_records
            fetch_ms = elapsed_ms - self._joining_of_round_ms
            rates = [1000.0 * size / fetch_ms, 1000.0 * count / fetch_ms] if fetch_ms > 0 else [0.0, 0.0]
            values = (
                self._dates.format(now),
                "0",
                fixed(self._bytes / _MEGABYTE, 4),
                fixed(quotient(1000.0 * size, elapsed_ms), 4),
                str(self._records),
                fixed(quotient(count, elapsed_ms) * 1000.0, 4),
                str(self._joining_of_round_ms),
                str(fetch_ms),
                *(fixed(each, 4) for each in rates),
            )
            self._face.print(", ".join(values))
            self._face.flush()
        self._joining_of_round_ms = 0
        self._reported_ms, self._reported_records, self._reported_bytes = now, self._records, self._bytes

    def _print_total(self, ended_ms: int) -> None:
        seconds = (ended_ms - self._begun_ms) / 1000
        fetch_ms = ended_ms - self._begun_ms - self._joining_ms
        size = self._bytes / _MEGABYTE
        values = (
            self._dates.format(self._begun_ms),
            self._dates.format(ended_ms),
            fixed(size, 4),
            fixed(quotient(size, seconds), 4),
            str(self._records),
            fixed(quotient(self._records, seconds), 4),
            str(self._joining_ms),
            str(fetch_ms),
            fixed(quotient(size, fetch_ms / 1000), 4),
            fixed(quotient(self._records, fetch_ms / 1000), 4),
        )
        self._face.print(", ".join(values))
