"""kafka-console-consumer: print the records of topics.

Counterpart: org.apache.kafka.tools.consumer.ConsoleConsumer.
"""

import math
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from ottla.client.cluster import Client
from ottla.client.consuming.chunks import Chunk
from ottla.client.consuming.consumer import open_consumer
from ottla.client.consuming.group_member import open_member
from ottla.client.errors import AuthenticationError, ClientError
from ottla.client.tasks import background
from ottla.scripts.kafka.client_properties import client_config
from ottla.scripts.kafka.face import Face, JavaError
from ottla.scripts.kafka.records.client_errors import consumer_error, log_error
from ottla.scripts.kafka.records.console_consumer_flags import ConsumerOptions, read_options
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition

_CLASS: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_SIGNALLED: Final = 128
_NO_LIMIT: Final = -1
_NEW_PROTOCOL: Final = (
    "The consumer rebalance protocol (KIP-848) is production-ready! Set group.protocol=consumer to try it out. See "
    "https://kafka.apache.org/documentation/#consumer_rebalance_protocol"
)
Next = Callable[[], Awaitable[Chunk | None]]
Processed = Callable[[TopicPartition, int, int], None]


class _TimeoutError(Exception):
    """No record came within --timeout-ms."""


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    options = read_options(arguments, face)
    consuming = _Consuming(options, face)
    try:
        return consuming.run()
    except AuthenticationError as error:
        _log(face, "Authentication failed: terminating consumer process", consumer_error(error))
    except (JavaError, KafkaError, ClientError, ConfigError) as error:
        _log(face, "Unknown error when running consumer: ", consumer_error(error))
    return 1


class _Consuming:
    """One run of the tool."""

    def __init__(self, options: ConsumerOptions, face: Face) -> None:
        self._options = options
        self._face = face
        self._count = 0
        self._signal = 0

    def run(self) -> int:
        """Read until --max-messages or a timeout; return the exit code."""
        properties = self._options.properties
        protocol = properties.get("group.protocol", "classic")
        if protocol.lower() != "classic":
            raise ConfigError(f"group.protocol={protocol}: only the classic protocol is here")
        config = client_config(properties)
        if self._options.partition is None and not self._face.is_3_9:
            self._face.complain(_NEW_PROTOCOL)
        self._face.flush()
        read = self._read_partition if self._options.partition is not None else self._read_as_member
        try:
            self._face.with_client(config, self._until_signal, read)
        finally:
            self._face.flush()
            self._face.complain(f"Processed a total of {self._count} messages")
        if self._options.parsed.has("enable-systest-events"):
            self._face.print("shutdown_complete")
        return _SIGNALLED + self._signal if self._signal else 0

    async def _until_signal(self, client: Client, read: Callable[[Client, int], Awaitable[None]]) -> None:
        """Read until the end, or until SIGINT or SIGTERM, and leave the group in all cases."""
        most: int | None = self._options.parsed.value("max-messages")
        with trio.CancelScope() as scope:
            async with background() as nursery:
                nursery.start_soon(self._watch_signals, scope)
                await read(client, _NO_LIMIT if most is None else most)

    async def _watch_signals(self, scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                self._signal = number
                scope.cancel()

    async def _read_partition(self, client: Client, most: int) -> None:
        options = self._options
        assert options.topic is not None
        assert options.partition is not None
        async with open_consumer(client) as consumer:
            consumer.assign({TopicPartition(options.topic, options.partition): options.offset})
            await self._read(consumer.next, lambda partition, offset, epoch: None, most)

    async def _read_as_member(self, client: Client, most: int) -> None:
        options = self._options
        topics = [] if options.topic is None else [options.topic]
        try:
            pattern = re.compile(options.include) if options.topic is None and options.include is not None else None
        except re.error as error:
            raise JavaError("java.util.regex.PatternSyntaxException", f"{error} near {options.include}") from None
        async with open_consumer(client) as consumer, open_member(client, consumer, topics, pattern) as member:
            await self._read(member.next, member.processed, most)

    async def _read(self, following: Next, processed: Processed, most: int) -> None:
        while self._count != most:
            try:
                chunk = await self._receive(following)
            except _TimeoutError:
                error = JavaError("org.apache.kafka.common.errors.TimeoutException", None)
                _log(self._face, "Error processing message, terminating consumer process: ", error)
                return
            except (KafkaError, ClientError) as failed:
                _log(self._face, "Error processing message, terminating consumer process: ", consumer_error(failed))
                return
            try:
                self._print(chunk, most, processed)
            except BrokenPipeError:
                self._face.complain("Unable to write to standard out, closing consumer.")
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return

    async def _receive(self, following: Next) -> Chunk:
        """Return the next chunk with records."""
        timeout_ms = self._options.timeout_ms
        with trio.move_on_after(timeout_ms / 1000 if timeout_ms < 1 << 53 else math.inf):
            while True:
                chunk = await following()
                if chunk is not None:
                    return chunk
        raise _TimeoutError

    def _print(self, chunk: Chunk, most: int, processed: Processed) -> None:
        """Print up to `most` records of a chunk, and note them as processed."""
        out = sys.stdout.buffer
        try:
            for header, record in chunk.records():
                processed(chunk.partition, record.offset + 1, header.partition_leader_epoch)
                self._count += 1
                try:
                    self._options.formatter.write(chunk.partition.partition, header, record, out.write)
                except JavaError as error:
                    if not self._options.parsed.has("skip-message-on-error"):
                        raise
                    _log(self._face, "Error processing message, skipping this message: ", error)
                if self._count == most:
                    return
        finally:
            out.flush()
        processed(chunk.partition, chunk.next_offset, chunk.leader_epoch)


def _log(face: Face, text: str, error: JavaError) -> None:
    log_error(face, text, _CLASS, error)
