"""kafka-console-producer: write the lines of stdin as records.

Counterparts: org.apache.kafka.tools.ConsoleProducer, and kafka.tools.ConsoleProducer before 4.0.
"""

import sys
from collections.abc import Sequence
from typing import Final

from ottla.client.cluster import Client
from ottla.client.errors import ClientError
from ottla.client.producing.batches import Delivery
from ottla.client.producing.producer import Producer, open_producer
from ottla.scripts.kafka.client_properties import (
    client_config,
    config_exception,
    key_values,
    merge_flags,
    properties_of,
)
from ottla.scripts.kafka.face import Face, JavaError, execution
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java.numbers import INTEGER, LONG
from ottla.scripts.kafka.records.client_errors import log_error, producer_error
from ottla.scripts.kafka.records.line_reader import LineMessageReader, LineRecord, Lines
from ottla.scripts.terminal.standard_input import pieces
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import KafkaError

_READER: Final = "org.apache.kafka.tools.LineMessageReader"
_OLD_READER: Final = "kafka.tools.ConsoleProducer$LineMessageReader"
_CALLBACK: Final = "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback"
_ABOUT: Final = "This tool helps to read data from standard input and publish it to Kafka."
_COMMON: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("topic", argument="topic", help="The topic to write to (required)."),
    flag("bootstrap-server", argument="server to connect to", help="The brokers to find the cluster at (required)."),
    flag("sync", help="Wait for each record before the next one is read."),
    flag("compression-codec", argument="compression-codec", is_optional_argument=True,
         help="none, gzip (also without a value), snappy, lz4 or zstd."),
    flag("batch-size", argument="size", type=INTEGER.convert, default=16384, help="Bytes of a batch."),
    flag("message-send-max-retries", argument="Integer", type=INTEGER.convert, default=3,
         help="How often a batch is sent again."),
    flag("retry-backoff-ms", argument="Long", type=LONG.convert, default=100, help="The pause before that."),
    flag("timeout", argument="timeout_ms", type=LONG.convert, default=1000,
         help="Milliseconds that a record waits for others."),
    flag("request-required-acks", argument="request required acks", default="-1", help="all, -1, 1 or 0."),
    flag("request-timeout-ms", argument="request timeout ms", type=INTEGER.convert, default=1500,
         help="How long to wait for a response."),
    flag("metadata-expiry-ms", argument="metadata expiration interval", type=LONG.convert, default=300000,
         help="How long metadata counts as fresh."),
    flag("max-block-ms", argument="max block on send", type=LONG.convert, default=60000,
         help="How long to wait for room or metadata."),
    flag("max-memory-bytes", argument="total memory in bytes", type=LONG.convert, default=33554432,
         help="Bytes of records that may wait."),
    flag("max-partition-memory-bytes", argument="memory in bytes per partition", type=INTEGER.convert, default=16384,
         help="An older name of --batch-size."),
    flag("line-reader", argument="reader_class", default=_READER, help=f"Only {_READER} is here."),
    flag("socket-buffer-size", argument="size", type=INTEGER.convert, default=102400, help="Bytes; has no effect."),
    flag("property", argument="prop", help="An older name of --reader-property."),
    flag("reader-config", argument="config file", help="A file of properties of the reader."),
    flag("producer-property", argument="producer_prop", help="key=value: a property of the producer."),
    flag("producer.config", argument="config file", help="A file of properties of the producer."),
)  # fmt: skip
_FLAGS: Final = (
    *_COMMON,
    flag("reader-property", argument="prop", help="key=value: parse.key, key.separator, parse.headers, null.marker, "
         "ignore.error, headers.delimiter, headers.separator, headers.key.separator."),
    flag("command-property", argument="producer_prop", help="key=value: a property of the producer."),
    flag("command-config", argument="config file", help="A file of properties of the producer."),
)  # fmt: skip
_OLDER_FLAGS: Final = (
    *_COMMON,
    flag("broker-list", argument="broker-list", help="An older name of --bootstrap-server."),
)
_RENAMED: Final = (
    ("command-config", "producer.config"),
    ("command-property", "producer-property"),
    ("reader-property", "property"),
)
_MERGED: Final = {
    "linger.ms": "timeout",
    "acks": "request-required-acks",
    "request.timeout.ms": "request-timeout-ms",
    "retries": "message-send-max-retries",
    "retry.backoff.ms": "retry-backoff-ms",
    "buffer.memory": "max-memory-bytes",
    "metadata.max.age.ms": "metadata-expiry-ms",
    "max.block.ms": "max-block-ms",
}


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    flags = _OLDER_FLAGS if face.is_3_9 else _FLAGS
    try:
        parsed = parse(flags, arguments)
    except JavaError as error:
        raise print_usage_and_exit(face, flags, str(error.message)) from None
    try:
        return _run(parsed, _checked(parsed, flags, arguments, face), face)
    except JavaError as error:
        if error.java_class.startswith("joptsimple."):
            face.complain(str(error.message))
        else:
            for line in error.trace():
                face.complain(line)
        return 1


def _checked(parsed: Parsed, flags: Sequence[Flag], arguments: Sequence[str], face: Face) -> str:
    """Return the servers. ToolExit for invalid flags."""
    if face.is_3_9 and not any(map(parsed.has, ("help", "version", "bootstrap-server", "broker-list"))):
        raise print_usage_and_exit(face, flags, "Missing required option(s) [bootstrap-server]")
    maybe_print_help_or_version(face, flags, parsed, arguments, _ABOUT)
    check_required(face, flags, parsed, "topic")
    if face.is_3_9:
        servers = parsed.value("bootstrap-server" if parsed.has("bootstrap-server") else "broker-list")
        wrong = "Please provide valid host:port like host1:9091,host2:9092\n "
    else:
        _check_renamed(parsed, face)
        servers = parsed.value("bootstrap-server") or ""
        wrong = "Please provide valid host:port like host1:9091,host2:9092\n"
        if not servers.strip():
            raise print_usage_and_exit(face, flags, "Error while validating the bootstrap address\n")
    if not all(each.rpartition(":")[2].isdigit() and ":" in each for each in servers.split(",")):
        raise print_usage_and_exit(face, flags, wrong)
    return str(servers)


def _check_renamed(parsed: Parsed, face: Face) -> None:
    for new, old in _RENAMED:
        if parsed.has(new) and parsed.has(old):
            text = f"Options --{new} and --{old} cannot be specified together."
            raise print_usage_and_exit(face, _FLAGS, text)
    for new, old in (_RENAMED[1], _RENAMED[0], _RENAMED[2]):
        if parsed.has(old):
            face.print(f"Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    if parsed.has("max-partition-memory-bytes"):
        face.print(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. Use "
            "--batch-size instead."
        )


def _either(parsed: Parsed, new: str, old: str) -> str:
    """Return the given one of a renamed flag's two names."""
    return new if parsed.knows(new) and not parsed.has(old) else old


def _run(parsed: Parsed, servers: str, face: Face) -> int:
    # Kafka 4 creates the reader first, and 3.9 the producer.
    if not face.is_3_9:
        reader = _reader(parsed, face)
    properties = properties_of(parsed.value(_either(parsed, "command-config", "producer.config")))
    properties |= key_values(parsed.values(_either(parsed, "command-property", "producer-property")))
    properties["bootstrap.servers"] = servers
    properties["compression.type"] = "none"
    if parsed.has("compression-codec"):
        properties["compression.type"] = parsed.value("compression-codec") or "gzip"
    properties.setdefault("client.id", "console-producer")
    merge_flags(properties, parsed, _MERGED)
    merge_flags(properties, parsed, {"batch.size": "batch-size"})
    merge_flags(properties, parsed, {"batch.size": "max-partition-memory-bytes"})
    config = client_config(properties)
    if face.is_3_9:
        reader = _reader(parsed, face)
    try:
        return face.with_client(config, _produce, parsed, reader, face)
    except ConfigError as error:
        raise config_exception(error) from None


def _reader(parsed: Parsed, face: Face) -> LineMessageReader:
    if parsed.value("line-reader") not in (_READER, _OLD_READER):
        name = parsed.value("line-reader")
        raise JavaError("java.lang.ClassNotFoundException", f"{name}: no class of Java can run here, only {_READER}")
    properties = properties_of(parsed.value("reader-config"))
    properties |= key_values(parsed.values(_either(parsed, "reader-property", "property")))
    return LineMessageReader(properties)


async def _produce(client: Client, parsed: Parsed, reader: LineMessageReader, face: Face) -> int:
    topic = parsed.value("topic")
    prompts = sys.stdin.isatty() and sys.stdout.isatty()
    lines = Lines()
    async with open_producer(client) as producer:
        _prompt(face, prompts)
        wrong: JavaError | None = None
        async for piece in pieces():
            try:
                for line in lines.end() if piece is None else lines.feed(piece):
                    await _send(producer, topic, reader.read(line), parsed.has("sync"), face)
                    _prompt(face, prompts)
            except JavaError as error:
                # The lines read before are sent.
                wrong = error
                break
        await producer.flush()
    if wrong is not None:
        raise wrong
    return 0


def _prompt(face: Face, prompts: bool) -> None:
    if prompts:
        face.print(">", end="")
        face.flush()


async def _send(producer: Producer, topic: str, record: LineRecord, is_sync: bool, face: Face) -> None:
    def on_completion(delivery: Delivery) -> None:
        if delivery.error is not None:
            _log(face, topic, record, delivery.error)

    try:
        if is_sync:
            await producer.deliver(topic, record.value, record.key, record.headers)
        else:
            await producer.send(topic, record.value, record.key, record.headers, on_completion=on_completion)
    except (KafkaError, ClientError) as error:
        if is_sync:
            raise execution(producer_error(error, topic)) from None
        _log(face, topic, record, error)


def _log(face: Face, topic: str, record: LineRecord, error: Exception) -> None:
    """Write the log lines of Kafka's callback for a record that failed."""
    key = "null" if record.key is None else f"{len(record.key)} bytes"
    value = "null" if record.value is None else f"{len(record.value)} bytes"
    text = f"Error when sending message to topic {topic} with key: {key}, value: {value} with error: "
    log_error(face, text.rstrip(), _CALLBACK, producer_error(error, topic))
