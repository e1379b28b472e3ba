"""A producer of increasing numbers that prints the result of each record as a line of JSON.

Owns the events and their order. Must not know a command line.
Counterpart in Kafka: org.apache.kafka.tools.VerifiableProducer.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import NamedTuple

import trio

from ottla.client.cluster import Client
from ottla.client.errors import ClientError
from ottla.client.producing.producer import Delivery, Producer, open_producer
from ottla.scripts.load.events import Events
from ottla.scripts.load.pace import Pace
from ottla.scripts.terminal.signals import Ending, ending_by_signal
from ottla.wire.errors import KafkaError

NO_LIMIT = -1
Failure = Callable[[Exception], dict[str, str | None]]
"""Returns the values `exception` and `message` of an event."""


class Plan(NamedTuple):
    """The settings of a run. A negative `most` or `rate` means no limit."""

    topic: str
    most: int = NO_LIMIT
    rate: int = NO_LIMIT
    value_prefix: int | None = None
    repeating_keys: int | None = None
    create_time_ms: int | None = None


async def produce_verifiably(client: Client, plan: Plan, events: Events, failure: Failure) -> int:
    """Send records until `most` are sent, or a signal comes; return the signal, 0 for none."""
    program = _Program(plan, events, failure)
    async with ending_by_signal() as ending:
        try:
            async with open_producer(client) as producer:
                await program.run(producer, ending)
        finally:
            events.print("shutdown_complete")
            program.print_summary()
    return ending.signal


class _Program:
    def __init__(self, plan: Plan, events: Events, failure: Failure) -> None:
        self._plan = plan
        self._events = events
        self._failure = failure
        self._begun = time.time()
        self._create_time_ms = plan.create_time_ms
        self._sent = 0
        self._acknowledged = 0

    async def run(self, producer: Producer, ending: Ending) -> None:
        """Send the records until a signal comes."""
        self._events.print("startup_complete")
        plan, pace = self._plan, Pace(None if self._plan.rate < 0 else self._plan.rate)
        with ending.interruptible():
            for number in range(plan.most) if plan.most >= 0 else count():
                value = str(number) if plan.value_prefix is None else f"{plan.value_prefix}.{number}"
                key = None if plan.repeating_keys is None else str(number % plan.repeating_keys)
                await self._send(producer, key, value)
                await pace.step()

    async def _send(self, producer: Producer, key: str | None, value: str) -> None:
        timestamp = self._create_time_ms
        if timestamp is not None:
            self._create_time_ms = timestamp + round((time.time() - self._begun) * 1000)
        self._sent += 1
        data = None if key is None else key.encode()
        completed = partial(self._completed, key, value)
        try:
            await producer.send(self._plan.topic, value.encode(), data, timestamp=timestamp, on_completion=completed)
        except (KafkaError, ClientError) as error:
            self._failed(key, value, error)
            # A checkpoint, so that a signal ends the program also if each record fails at once.
            await trio.lowlevel.checkpoint()

    def _completed(self, key: str | None, value: str, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._failed(key, value, delivery.error)
            return
        self._acknowledged += 1
        self._events.print(
            "producer_send_success",
            key=key,
            value=value,
            offset=delivery.offset,
            topic=delivery.topic,
            partition=delivery.partition,
        )

    def _failed(self, key: str | None, value: str, error: Exception) -> None:
        self._events.print("producer_send_error", topic=self._plan.topic, key=key, value=value, **self._failure(error))

    def print_summary(self) -> None:
        """Print the last event."""
        seconds = max(time.time() - self._begun, 0.001)
        self._events.print(
            "tool_data",
            sent=self._sent,
            acked=self._acknowledged,
            target_throughput=self._plan.rate,
            avg_throughput=self._acknowledged / seconds,
        )
