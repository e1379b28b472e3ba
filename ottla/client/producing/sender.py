"""The sending half of a producer: batches to the leaders of their partitions, each appended once and in order.

Owns the batches that wait, those in flight, and retries. Must not know where records come from, nor metadata but the
leader of each queue.
Counterparts in Kafka: Sender, TransactionManager.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import trio

from ottla.client.cluster import ANY, ASK_ELSEWHERE, Client, kafka_error
from ottla.client.connection import Connection, Pending
from ottla.client.errors import ClientError, ConnectionFailedError, OperationTimedOutError
from ottla.client.producing.batches import Batch, PartitionQueue
from ottla.client.producing.counts import Counts
from ottla.client.producing.settings import ProducerSettings
from ottla.client.tasks import Latch, Signal
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.records.batch import HEADER_SIZE, build_batch

_LOWEST: Final = 3
"""The first version of Produce for batches of the format with headers."""
_HIGHEST: Final = 12
"""The last version with topic names; later versions have topic ids."""
_PASSING: Final = ASK_ELSEWHERE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.BROKER_NOT_AVAILABLE,
}
"""Errors after which the batch is sent again."""
_OUT_OF_STEP: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_Sent = tuple[PartitionQueue, Batch]


class _Broker:
    """The requests for one broker, which one task sends in order."""

    __slots__ = ("channel", "in_flight")

    def __init__(self, channel: "trio.MemorySendChannel[list[_Sent]]") -> None:
        self.channel = channel
        self.in_flight = 0


class Sender:
    """Sends the batches of all partitions."""

    def __init__(
        self, client: Client, settings: ProducerSettings, nursery: trio.Nursery, on_stale: Callable[[], None]
    ) -> None:
        """`on_stale()` is called when a leader is unknown or has changed."""
        self.failure: Exception | None = None
        """The error that ended the sender."""
        self.used = 0
        """Bytes of the records that wait or are in flight."""
        self.unfinished = 0
        """Batches that wait or are in flight."""
        self.hurry = 0
        """How many callers wait for room or for the end: no batch lingers while there are any."""
        self.counts = Counts()
        self.completed = Signal()
        self.wake = Latch()
        self._client = client
        self._settings = settings
        self._nursery = nursery
        self._on_stale = on_stale
        self._active: dict[PartitionQueue, None] = {}
        """Queues with batches, in the order in which they get their turn."""
        self._brokers: dict[int, _Broker] = {}
        self._producer_id = -1
        self._producer_epoch = -1
        nursery.start_soon(self._dispatch_forever)
        if settings.is_idempotent:
            nursery.start_soon(self._get_producer_id)

    @property
    def requests_in_flight(self) -> int:
        """Return how many requests the tasks of brokers have that are not completed."""
        return sum(broker.in_flight for broker in self._brokers.values())

    def begin_batch(self, queue: PartitionQueue) -> Batch:
        """Add an empty batch to a queue, and return it."""
        batch = Batch(trio.current_time())
        queue.queue.append(batch)
        self._active.setdefault(queue)
        self.unfinished += 1
        self.wake.set()
        return batch

    def fail(self, error: Exception) -> None:
        """End with an error: all waiting batches fail with it."""
        self.failure = error
        for queue in list(self._active):
            while queue.queue:
                self._complete(queue, queue.queue.popleft(), error=error)
        self._active.clear()
        self.completed.notify()

    async def _get_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        while self._producer_id < 0:
            try:
                response = await self._client.ask(request, ANY, InitProducerIdResponse)
            except (ConnectionFailedError, OperationTimedOutError) as error:
                if not (self._client.nodes or self._client.is_patient):
                    self.fail(error)
                    return
            except (ClientError, KafkaError, ConfigError) as error:
                self.fail(error)
                return
            else:
                if response.error_code not in _PASSING | {ErrorCode.NONE}:
                    self.fail(kafka_error(response.error_code, "InitProducerId"))
                    return
                self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
            if self._producer_id < 0:
                await trio.sleep(self._settings.backoff)
        self.wake.set()

    # Batches go out

    async def _dispatch_forever(self) -> None:
        while True:
            await self.wake.wait(self._dispatch(trio.current_time()))

    def _dispatch(self, now: float) -> float:
        """Give ready batches to the tasks of their brokers; return the time when the next one is due."""
        due = math.inf
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in list(self._active):
            for batch in queue.expired(now - self._settings.delivery):
                self._complete(queue, batch, error=self._too_late(queue, batch))
            if not queue.queue:
                del self._active[queue]
                continue
            due = min(due, queue.queue[0].created + self._settings.delivery)
            if self._settings.is_idempotent and self._producer_id < 0:
                continue
            at = self._ready_at(queue)
            if at > now:
                due = min(due, at)
            elif queue.leader < 0:
                self._on_stale()
            else:
                by_leader.setdefault(queue.leader, []).append(queue)
        for leader, queues in by_leader.items():
            due = min(due, self._dispatch_to(leader, queues, now))
        return due

    def _dispatch_to(self, leader: int, queues: list[PartitionQueue], now: float) -> float:
        broker = self._brokers.get(leader) or self._begin_broker(leader)
        while broker.in_flight < self._settings.in_flight and queues:
            taken = self._take_batches(queues)
            broker.in_flight += 1
            broker.channel.send_nowait(taken)
            queues = [*queues[len(taken) :], *(queue for queue, _ in taken)]
            queues = [queue for queue in queues if self._ready_at(queue) <= now]
        # After the batch that was sent, the queue may have a batch that lingers.
        return min((at for queue in queues if (at := self._ready_at(queue)) > now), default=math.inf)

    def _take_batches(self, queues: Sequence[PartitionQueue]) -> list[_Sent]:
        """Remove the first batch of as many queues as fit into a request; the other queues come first the next time."""
        size = 0
        taken: list[_Sent] = []
        for queue in queues:
            size += queue.queue[0].size
            if taken and size > self._settings.request_size:
                break
            taken.append((queue, queue.take(with_sequence=self._settings.is_idempotent)))
            del self._active[queue]
            if queue.queue:
                self._active[queue] = None
        return taken

    def _ready_at(self, queue: PartitionQueue) -> float:
        """Return the time from which the first batch of a queue may be sent."""
        settings = self._settings
        if not queue.may_send(settings.in_flight_of_partition):
            return math.inf
        first = queue.queue[0]
        is_closed = len(queue.queue) > 1 or first.attempts or first.size >= settings.batch_size
        if is_closed or self.hurry:
            return queue.not_before
        return max(queue.not_before, first.created + settings.linger)

    def _begin_broker(self, broker_id: int) -> _Broker:
        send, receive = trio.open_memory_channel[list[_Sent]](math.inf)
        self._brokers[broker_id] = broker = _Broker(send)
        self._nursery.start_soon(self._send_forever, broker_id, broker, receive)
        return broker

    async def _send_forever(
        self, broker_id: int, broker: _Broker, batches: "trio.MemoryReceiveChannel[list[_Sent]]"
    ) -> None:
        async for sent in batches:
            try:
                connection = await self._client.connection(broker_id)
                version = connection.version_of(ProduceRequest, _LOWEST, _HIGHEST)
                request = self._request(sent)
                if self._settings.acks == 0:
                    await connection.send_only(request, version)
                    self._landed(broker, sent, None)
                else:
                    pending = await connection.post(request, version)
                    self._nursery.start_soon(self._await_response, broker, sent, connection, pending)
            except (ClientError, KafkaError, OverflowError) as error:
                self._landed(broker, sent, error)

    def _request(self, sent: Sequence[_Sent]) -> ProduceRequest:
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for queue, batch in sent:
            data = build_batch(
                batch.records,
                compression=self._settings.compression,
                producer_id=self._producer_id,
                producer_epoch=queue.epoch(self._producer_epoch) if self._settings.is_idempotent else -1,
                base_sequence=batch.sequence,
            )
            self.counts.sent(len(batch.records), len(data))
            by_topic.setdefault(queue.topic, []).append(PartitionProduceData(index=queue.index, records=data))
        self.counts.requests += 1
        return ProduceRequest(
            acks=self._settings.acks,
            timeout_ms=round(self._settings.request_timeout * 1000),
            topic_data=[TopicProduceData(name=name, partition_data=each) for name, each in by_topic.items()],
        )

    # Responses come in

    async def _await_response(
        self, broker: _Broker, sent: list[_Sent], connection: Connection, pending: Pending
    ) -> None:
        outcome: ProduceResponse | Exception
        posted = trio.current_time()
        try:
            with trio.fail_after(self._settings.request_timeout):
                response = await pending.result()
            assert isinstance(response, ProduceResponse)
            self.counts.answered(trio.current_time() - posted)
            outcome = response
        except trio.TooSlowError:
            await connection.close()
            outcome = ConnectionFailedError(f"{connection.where}: no response to PRODUCE in time")
        except ClientError as error:
            outcome = error
        self._landed(broker, sent, outcome)

    def _landed(self, broker: _Broker, sent: list[_Sent], outcome: ProduceResponse | Exception | None) -> None:
        """Complete batches, or put them back. With acks=0 there is no response, and `outcome` is None."""
        broker.in_flight -= 1
        answers: dict[tuple[str, int], PartitionProduceResponse] = {}
        if isinstance(outcome, ProduceResponse):
            for topic in outcome.responses:
                answers.update({(topic.name, each.index): each for each in topic.partition_responses})
        for queue, batch in sent:
            if outcome is None:
                self._complete(queue, batch)
            elif isinstance(outcome, Exception):
                self._retry_or_fail(queue, batch, outcome)
            elif (answer := answers.get((queue.topic, queue.index))) is not None:
                self._take_answer(queue, batch, answer)
            else:
                error = kafka_error(ErrorCode.UNKNOWN_SERVER_ERROR, "the response lacks a partition")
                self._retry_or_fail(queue, batch, error)
            queue.landed()
            if queue.queue:
                self._active.setdefault(queue)
        self.wake.set()

    def _take_answer(self, queue: PartitionQueue, batch: Batch, answer: PartitionProduceResponse) -> None:
        code = answer.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            queue.acknowledge(batch)
            self._complete(queue, batch, answer.base_offset, answer.log_append_time_ms)
        elif code in _TOO_LARGE and len(batch.records) > 1:
            # One unfinished batch became two.
            self.unfinished += 1
            self.used -= batch.size - HEADER_SIZE
            for half in batch.halves():
                self.used += half.size - HEADER_SIZE
                queue.send_again(half)
        elif code in _OUT_OF_STEP and self._settings.is_idempotent and self._may_retry(batch):
            if queue.is_next(batch):
                # The broker has forgotten the producer.
                queue.break_sequence()
            self._send_again(queue, batch)
        else:
            self._retry_or_fail(queue, batch, kafka_error(code, answer.error_message))

    def _retry_or_fail(self, queue: PartitionQueue, batch: Batch, error: Exception) -> None:
        is_passing = (
            error.code in _PASSING if isinstance(error, KafkaError) else isinstance(error, ConnectionFailedError)
        )
        if is_passing and self._may_retry(batch):
            self._on_stale()
            self._send_again(queue, batch)
            return
        if batch.sequence >= 0:
            queue.break_sequence()
        self._complete(queue, batch, error=error)

    def _may_retry(self, batch: Batch) -> bool:
        is_late = trio.current_time() >= batch.created + self._settings.delivery
        return batch.attempts < self._settings.retries and not is_late and self.failure is None

    def _send_again(self, queue: PartitionQueue, batch: Batch) -> None:
        batch.attempts += 1
        self.counts.retried += len(batch.records)
        queue.not_before = trio.current_time() + self._settings.backoff
        queue.send_again(batch)

    def _complete(
        self,
        queue: PartitionQueue,
        batch: Batch,
        offset: int = -1,
        append_time: int = -1,
        error: Exception | None = None,
    ) -> None:
        self.used -= batch.size - HEADER_SIZE
        self.unfinished -= 1
        if error is not None:
            self.counts.failed += len(batch.records)
        self.completed.notify()
        batch.complete(queue.topic, queue.index, offset, append_time, error)

    def _too_late(self, queue: PartitionQueue, batch: Batch) -> Exception:
        return OperationTimedOutError(
            f"Expiring {len(batch.records)} record(s) for {queue.topic}-{queue.index}:"
            f"{self._client.config['delivery.timeout.ms']} ms has passed since batch creation"
        )
