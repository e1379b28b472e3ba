"""kafka-e2e-latency: send records one after the other, and print the time of each round trip.

Counterpart: org.apache.kafka.tools.EndToEndLatency.
"""

import random
import string
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla.client.admin.topics import NewTopic, create_topics
from ottla.client.cluster import Client
from ottla.client.config import ClientConfig
from ottla.client.consuming.group_commits import commit
from ottla.client.errors import ClientError, OperationTimedOutError
from ottla.scripts.kafka.client_properties import client_config, config_exception, properties_of
from ottla.scripts.kafka.face import Face, JavaError, as_java, execution
from ottla.scripts.kafka.failures import TerseError
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Parsed,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java.hashes import double_text
from ottla.scripts.kafka.java.numbers import INTEGER, fixed
from ottla.scripts.kafka.records.client_errors import producer_error
from ottla.scripts.load.round_trips import RoundTrip, open_round_trips
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import KafkaError

_RUNTIME: Final = "java.lang.RuntimeException"
_LETTERS: Final = string.ascii_uppercase.encode()
_EACH: Final = 1000
_FOREVER_MS: Final = str((1 << 53) - 1)
_REQUIRED: Final = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
_USAGE: Final = "bootstrap-server topic num-records producer-acks record-size [optional] command-config"
_OLDER_USAGE: Final = (
    "USAGE: java org.apache.kafka.tools.EndToEndLatency broker_list topic num_messages producer_acks "
    "message_size_bytes [optional] properties_file"
)
_DEPRECATED: Final = (
    "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named "
    "arguments instead: --bootstrap-server, --topic, --num-records, --producer-acks, --record-size, --command-config"
)
_ABOUT: Final = "This tool measures end-to-end latency in Kafka by sending messages and timing their reception."
_FLAGS: Final = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="bootstrap-server", help="The brokers to find the cluster at (required)."),
    flag("topic", argument="topic-name", help="The topic to use (required)."),
    flag("num-records", argument="count", type=INTEGER.convert, help="How many records (required)."),
    flag("producer-acks", argument="producer-acks", help="1 or all (required)."),
    flag("record-size", argument="bytes", type=INTEGER.convert, help="Bytes of a value (required)."),
    flag("record-key-size", argument="bytes", type=INTEGER.convert, default=0, is_optional_argument=True,
         help="Bytes of a key."),
    flag("record-header-key-size", argument="bytes", type=INTEGER.convert, default=0, is_optional_argument=True,
         help="Bytes of a header's name."),
    flag("record-header-size", argument="bytes", type=INTEGER.convert, default=0, is_optional_argument=True,
         help="Bytes of a header's value; -1: null."),
    flag("num-headers", argument="count", type=INTEGER.convert, default=0, is_optional_argument=True,
         help="Headers of a record."),
    flag("command-config", argument="config-file", is_optional_argument=True, help="A file of client properties."),
)  # fmt: skip
_LEAST: Final = (
    ("record-size", 0, "a non-negative integer."),
    ("record-key-size", 0, "a non-negative integer."),
    ("record-header-key-size", 0, "a non-negative integer."),
    ("record-header-size", -1, "a non-negative integer or -1 for null header value."),
    ("num-headers", 0, "a non-negative integer."),
)


class _Plan(NamedTuple):
    """The records to send. A key of None is null."""

    bootstrap: str
    topic: str
    records: int
    acks: str
    size: int
    file: str | None
    key_size: int | None = None
    headers: int = 0
    header_key_size: int = 0
    header_size: int = 0


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        plan = _older_plan(arguments) if face.is_3_9 else _plan(arguments, face)
        config = _config(plan)
        try:
            face.with_client(config, _measure, plan, face)
        except ConfigError as error:
            raise config_exception(error) from None
        except (KafkaError, ClientError) as error:
            raise producer_error(error, plan.topic) from None
    except TerseError as error:
        face.complain(str(error))
        return 1
    except JavaError as error:
        face.complain("null" if error.message is None else error.message)
        face.complain_trace(error)
        return 1
    return 0


def _older_plan(arguments: Sequence[str]) -> _Plan:
    if len(arguments) not in (5, 6):
        raise TerseError(_OLDER_USAGE)
    bootstrap, topic, records, acks, size, *rest = arguments
    plan = _Plan(bootstrap, topic, _number(records), acks, _number(size), next(filter(str.strip, rest), None))
    if acks not in ("1", "all"):
        message = "Latency testing requires synchronous acknowledgement. Please use 1 or all"
        raise JavaError("java.lang.IllegalArgumentException", message)
    return plan


def _number(text: str) -> int:
    try:
        number: int = INTEGER.convert(text)
    except ValueError as error:
        raise JavaError("java.lang.NumberFormatException", str(error)) from None
    return number


def _plan(arguments: Sequence[str], face: Face) -> _Plan:
    if arguments and not any(f"--{name}" in arguments for name in _REQUIRED):
        if len(arguments) not in (5, 6):
            raise TerseError(
                f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(arguments)}. "
                f"Usage: {_USAGE}"
            )
        face.print(_DEPRECATED)
        names = (*_REQUIRED, "command-config")
        arguments = [word for pair in zip(names, arguments, strict=False) for word in (f"--{pair[0]}", pair[1])]
    try:
        parsed = parse(_FLAGS, arguments)
    except JavaError as error:
        raise print_usage_and_exit(face, _FLAGS, str(error.message)) from None
    maybe_print_help_or_version(face, _FLAGS, parsed, arguments, _ABOUT)
    check_required(face, _FLAGS, parsed, *_REQUIRED)
    _check(parsed, face)
    return _Plan(
        bootstrap=parsed.value("bootstrap-server"),
        topic=parsed.value("topic"),
        records=parsed.value("num-records"),
        acks=parsed.value("producer-acks"),
        size=parsed.value("record-size"),
        file=parsed.value("command-config"),
        key_size=_value(parsed, "record-key-size"),
        headers=_value(parsed, "num-headers"),
        header_key_size=_value(parsed, "record-header-key-size"),
        header_size=_value(parsed, "record-header-size"),
    )


def _value(parsed: Parsed, name: str) -> Any:
    """Return the number of a flag, or its default."""
    value = parsed.value(name)
    return parsed.flag(name).default if value is None else value


def _check(parsed: Parsed, face: Face) -> None:
    if parsed.value("producer-acks") not in ("1", "all"):
        text = "Latency testing requires synchronous acknowledgement. Please use '1' or 'all'."
        raise print_usage_and_exit(face, _FLAGS, f"Invalid value for --producer-acks. {text}")
    if parsed.value("num-records") <= 0:
        raise print_usage_and_exit(face, _FLAGS, "Value for --num-records must be a positive integer.")
    for name, least, what in _LEAST:
        if _value(parsed, name) < least:
            raise print_usage_and_exit(face, _FLAGS, f"Value for --{name} must be {what}")


def _config(plan: _Plan) -> ClientConfig:
    return client_config(
        {
            **properties_of(plan.file),
            "bootstrap.servers": plan.bootstrap,
            "group.id": f"test-group-{time.time_ns() // 1_000_000}",
            "fetch.max.wait.ms": "0",
            "linger.ms": "0",
            "max.block.ms": _FOREVER_MS,
            "acks": plan.acks,
        }
    )


async def _measure(client: Client, plan: _Plan, face: Face) -> None:
    if plan.topic not in [topic.name for topic in (await client.metadata(None)).topics]:
        await _create_topic(client, plan.topic, face)
    times: list[float] = []
    async with open_round_trips(client, plan.topic) as trips:
        try:
            for number in range(plan.records):
                key = None if plan.key_size is None else _text(plan.key_size)
                value, headers = _text(plan.size), _headers(plan)
                trip = await _trip(trips.make(value, key, headers))
                _validate(trip, value, key, headers)
                milliseconds = trip.seconds * 1000
                if number % _EACH == 0:
                    face.print(f"{number}\t{double_text(round(milliseconds, 6))}")
                    face.flush()
                times.append(milliseconds)
            _print_results(times, face)
        finally:
            places = {each: (offset, -1) for each, offset in trips.positions.items()}
            await commit(client, client.config["group.id"], places, -1, "", None)


async def _trip(made: Any) -> RoundTrip:
    try:
        trip: RoundTrip = await made
    except OperationTimedOutError:
        raise JavaError(_RUNTIME, "poll() timed out before finding a result (timeout:[60000ms])") from None
    except KafkaError as error:
        raise execution(as_java(error)) from None
    return trip


def _text(size: int) -> bytes:
    """Return a text of one random letter."""
    return bytes([random.choice(_LETTERS)]) * size


def _headers(plan: _Plan) -> list[tuple[str, bytes | None]]:
    return [
        (_text(plan.header_key_size).decode(), None if plan.header_size < 0 else _text(plan.header_size))
        for _ in range(plan.headers)
    ]


def _validate(trip: RoundTrip, value: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> None:
    """Raise JavaError unless the only received record equals the sent one."""
    record = trip.records[0]
    texts = [
        ("value", (record.value or b"").decode("utf-8", "replace"), value.decode()),
        ("key", (record.key or b"").decode("utf-8", "replace"), (key or b"").decode()),
    ]
    for what, read, sent in texts:
        if read != sent:
            raise JavaError(
                _RUNTIME, f"The message {what} read [{read}] did not match the message {what} sent [{sent}]"
            )
    if list(record.headers) != list(headers):
        raise JavaError(_RUNTIME, "Header count mismatch between sent and received messages")
    if len(trip.records) != 1:
        raise JavaError(_RUNTIME, f"Only one result was expected during this test. We found [{len(trip.records)}]")


async def _create_topic(client: Client, topic: str, face: Face) -> None:
    face.print(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
    found = (await create_topics(client, [NewTopic(topic, 1, 1, (), {})]))[topic]
    if isinstance(found, KafkaError):
        face.print(f"Creation of topic {topic} failed")
        cause = execution(as_java(found))
        raise JavaError(_RUNTIME, str(cause), cause)


def _print_results(times: Sequence[float], face: Face) -> None:
    face.print(f"Avg latency: {fixed(sum(times) / len(times), 4)} ms")
    ordered = sorted(times)
    p50, p99, p999 = (int(ordered[int(share * len(ordered))]) for share in (0.5, 0.99, 0.999))
    face.print(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")
