"""kafka-producer-perf-test: write records, and print rates and latencies.

Payloads are random letters, but not those of Kafka's generator. Transactions are refused, because the producer does not
support them. Counterpart: org.apache.kafka.tools.ProducerPerformance.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.client.cluster import Client
from ottla.client.config import ClientConfig
from ottla.client.errors import ClientError
from ottla.client.producing.producer import Delivery, Producer, open_producer
from ottla.scripts.kafka.client_properties import client_config, config_exception, properties_of
from ottla.scripts.kafka.face import Face, Release, illegal_argument
from ottla.scripts.kafka.java.numbers import DOUBLE, INTEGER, LONG
from ottla.scripts.kafka.perf.metrics import Client as MeasuredClient
from ottla.scripts.kafka.perf.metrics import print_metrics, producer_metrics
from ottla.scripts.kafka.perf.producer_stats import Stats, now_ms
from ottla.scripts.kafka.records.client_errors import ProducerErrors
from ottla.scripts.kafka.subcommands import Argument, OneOf, Parser, ParserError, argument, help_lines, report
from ottla.scripts.load.pace import Pace
from ottla.scripts.load.payloads import Payloads, chosen, counted, letters
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import KafkaError

_TRANSACTIONAL_ID: Final = "transactional.id"
_INTERVAL_MS: Final = 5000
_NO_PAYLOAD: Final = {
    Release.V3_9: "no payload File Path or record Size or payload-monotonic option provided",
    Release.V4_3: "No payload file, record size or payload-monotonic option provided.",
}
_NO_TRANSACTIONS: Final = (
    "kafka-producer-perf-test: the producer has no transactions: leave out --transactional-id, "
    "--transaction-duration-ms and transactional.id"
)


def _properties_argument(name: str, destination: str) -> Argument:
    return argument(name, many="+", metavar="PROP-NAME=PROP-VALUE", destination=destination, help="Set properties.")


def _parser(*, is_3_9: bool) -> Parser:
    payload = OneOf(is_required=True)
    bootstrap = argument("--bootstrap-server", metavar="BOOTSTRAP-SERVER", help="The brokers to find the cluster at.")
    shared = [
        argument("--topic", is_required=True, metavar="TOPIC", help="The topic to write to."),
        argument("--num-records", is_required=True, type=LONG, metavar="NUM-RECORDS", help="How many records."),
        argument("--record-size", type=INTEGER, metavar="RECORD-SIZE", group=payload, help="Bytes of a value."),
        argument("--payload-file", metavar="PAYLOAD-FILE", group=payload, help="A file of values to choose from."),
        argument("--payload-monotonic", action="store_true", group=payload, help="Values are numbers from 0 on."),
        argument("--payload-delimiter", metavar="PAYLOAD-DELIMITER", default="\\n", help="What parts the values."),
        argument("--throughput", is_required=True, type=DOUBLE, metavar="THROUGHPUT",
                 help="Records a second at most; -1: no limit."),
        _properties_argument("--producer-props", "properties"),
    ]  # fmt: skip
    command_property = _properties_argument("--command-property", "command_property")
    file = argument("--producer.config", metavar="CONFIG-FILE", destination="file", help="A file of properties.")
    command_file = argument("--command-config", metavar="CONFIG-FILE", help="A file of properties.")
    metrics = argument("--print-metrics", action="store_true", help="Print the producer's metrics at the end.")
    transactions = [
        argument("--transactional-id", metavar="TRANSACTIONAL-ID", help="There are no transactions here."),
        argument("--transaction-duration-ms", type=LONG, metavar="TRANSACTION-DURATION", help="The same."),
    ]
    more = [
        argument("--warmup-records", type=LONG, default=0, metavar="WARMUP-RECORDS",
                 help="Records that the second summary leaves out."),
        argument("--reporting-interval", type=LONG, default=_INTERVAL_MS, metavar="INTERVAL-MS",
                 help="Milliseconds between two lines."),
    ]  # fmt: skip
    about = "Write records, and print rates and latencies."
    if is_3_9:
        return Parser("producer-performance", about, [*shared, file, metrics, *transactions])
    arguments = [bootstrap, *shared, command_property, file, command_file, metrics, *transactions, *more]
    return Parser("kafka-producer-perf-test", about, arguments)


class _Plan(NamedTuple):
    """The records to write."""

    topic: str
    records: int
    warm_up: int
    interval_ms: int
    rate: float
    payloads: Payloads
    config: ClientConfig
    prints_metrics: bool


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    parser = _parser(is_3_9=face.is_3_9)
    try:
        values = parser.parse(arguments)
        _check(parser, values, is_3_9=face.is_3_9)
    except ParserError as error:
        if not arguments:
            for line in help_lines(parser):
                face.print(line)
            return 0
        report(face, error)
        return 1
    values = {"warmup_records": 0, "reporting_interval": _INTERVAL_MS, **values}
    plan = _plan(values, face)
    if plan is None:
        face.complain(_NO_TRANSACTIONS)
        return 1
    try:
        face.with_client(plan.config, _produce, plan, face)
    except ConfigError as error:
        raise config_exception(error) from None
    return 0


def _check(parser: Parser, values: Mapping[str, Any], *, is_3_9: bool) -> None:
    """Raise ParserError for values that exclude each other."""
    if is_3_9:
        if values["properties"] is None and values["file"] is None:
            raise ParserError(parser, "Either --producer-props or --producer.config must be specified.")
        return
    duration = values["transaction_duration_ms"]
    sources = ("bootstrap_server", "command_property", "properties", "file", "command_config")
    wrong = {
        "--num-records should be greater than zero.": values["num_records"] <= 0,
        "The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records.":
            max(values["warmup_records"], 0) >= values["num_records"],
        "--record-size should be greater than zero.": values["record_size"] is not None and values["record_size"] <= 0,
        "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or "
        "--command-config must be specified.": all(values[each] is None for each in sources),
        "--command-property and --producer-props cannot be specified together.":
            None not in (values["command_property"], values["properties"]),
        "--command-config and --producer.config cannot be specified together.":
            None not in (values["command_config"], values["file"]),
        "--transaction-duration-ms should be greater than zero.": duration is not None and duration <= 0,
        "--reporting-interval should be greater than zero.": values["reporting_interval"] <= 0,
    }  # fmt: skip
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise ParserError(parser, message)


def _plan(values: Mapping[str, Any], face: Face) -> _Plan | None:
    """Return the plan; None if it needs transactions. JavaError for a file that cannot be read."""
    payloads = _payloads(values, face)
    if not face.is_3_9:
        for flag, key in (("producer-props", "properties"), ("producer.config", "file")):
            if values[key] is not None:
                new = "command-property" if key == "properties" else "command-config"
                face.print(
                    f"Option --{flag} has been deprecated and will be removed in a future version. Use --{new} instead."
                )
    properties = properties_of(values["file"] or values.get("command_config"))
    for text in values["properties"] or values.get("command_property") or ():
        parts = text.rstrip("=").split("=")
        if len(parts) != 2:
            raise illegal_argument(f"Invalid property: {text}")
        properties[parts[0]] = parts[1]
    if values.get("bootstrap_server") is not None:
        properties["bootstrap.servers"] = values["bootstrap_server"]
    duration = values["transaction_duration_ms"]
    wants_transactions = _TRANSACTIONAL_ID in properties or values["transactional_id"] is not None
    if (duration or 0) > 0 if face.is_3_9 else wants_transactions or duration is not None:
        return None
    properties.setdefault("client.id", "perf-producer-client")
    return _Plan(
        topic=values["topic"],
        records=values["num_records"],
        warm_up=max(values["warmup_records"], 0),
        interval_ms=values["reporting_interval"],
        rate=values["throughput"],
        payloads=payloads,
        config=client_config(properties),
        prints_metrics=values["print_metrics"],
    )


def _payloads(values: Mapping[str, Any], face: Face) -> Payloads:
    if values["payload_file"] is not None:
        found = _read_payloads(Path(values["payload_file"]), values["payload_delimiter"], face)
        if not found:
            raise illegal_argument(_NO_PAYLOAD[face.release])
        return chosen(found)
    if values["record_size"] is not None:
        return letters(values["record_size"])
    return counted()


def _read_payloads(path: Path, delimiter: str, face: Face) -> list[bytes]:
    face.print(f"Reading payloads from: {path.absolute()}")
    if not path.exists() or not path.stat().st_size:
        raise illegal_argument("File does not exist or empty file provided.")
    parts = re.split("\n" if delimiter == "\\n" else delimiter, path.read_text("utf-8"))
    if face.is_3_9:
        while parts and not parts[-1]:
            parts.pop()
    else:
        # Like Java's Scanner: a delimiter before the first or after the last value adds no empty value.
        first, last = not parts[0], len(parts) - (not parts[-1])
        parts = parts[first:last]
    face.print(f"Number of {'messages' if face.is_3_9 else 'records'} read: {len(parts)}")
    return [each.encode() for each in parts]


async def _produce(client: Client, plan: _Plan, face: Face) -> None:
    begun_ms = now_ms()
    if plan.warm_up:
        count = plan.warm_up
        face.print(f"Warmup first {count} records. Steady state results will print after the complete test summary.")

    def print_line(line: str) -> None:
        face.print(line)
        face.flush()

    stats = Stats(plan.records, plan.interval_ms, print_line)
    async with open_producer(client) as producer:
        steady = await _send_all(producer, plan, stats, face)
        await producer.flush()
        stats.print_total()
        if steady is not None:
            steady.print_total()
        if plan.prints_metrics:
            measured = MeasuredClient(plan.config["client.id"], begun_ms, (now_ms() - begun_ms) / 1000)
            memory = plan.config["buffer.memory"]
            print_metrics(face, producer_metrics(face, measured, producer, plan.topic, memory))


async def _send_all(producer: Producer, plan: _Plan, stats: Stats, face: Face) -> Stats | None:
    """Send all records; return the statistics of those after the warm-up, if there is one."""
    steady: Stats | None = None
    errors = ProducerErrors(plan.topic)

    def print_error(error: Exception) -> None:
        for line in errors.next(error).trace():
            face.complain(line)

    pace = Pace(plan.rate if plan.rate >= 0 else None)
    for number in range(plan.records):
        payload = plan.payloads()
        if plan.warm_up and number == plan.warm_up:
            left = plan.records - plan.warm_up
            steady = Stats(left, plan.interval_ms, stats.print_line, is_steady_state=True)
            stats.prints_windows = False
        begun = now_ms()
        completed = partial(_completed, print_error, begun, len(payload), stats, steady)
        try:
            await producer.send(plan.topic, payload, on_completion=completed)
        except (KafkaError, ClientError) as error:
            print_error(error)
        await pace.step()
    return steady


def _completed(
    print_error: Callable[[Exception], None],
    begun: int,
    size: int,
    stats: Stats,
    steady: Stats | None,
    delivery: Delivery,
) -> None:
    if delivery.error is not None:
        print_error(delivery.error)
        return
    now = now_ms()
    stats.record(now - begun, size, now)
    if steady is not None:
        steady.record(now - begun, size, now)
