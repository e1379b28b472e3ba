"""One task's records of a batch, written in one transaction: whoever does it again changes nothing.

Owns the order of fencing, asking, writing and committing. Must not know Spark. Counterparts in Kafka: StreamsProducer,
and the ExactlyOnceWorkerSourceTask of Connect.

kafka-python does not hold back a commit when records were not delivered in time, nor does it wait for a broker
with an end: so every record's outcome is looked at before the commit, and whatever waits is given up after a while.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from kafka import KafkaProducer
from kafka.errors import (
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerFencedError,
)
from kafka.partitioner.sticky import StickyPartitioner
from kafka.serializer import Serializer
from kafka.structs import TopicPartition

from ottla.pipeline.settings import JobError
from ottla.pipeline.transactions import Batch, Marker, Target, client

_DEFAULTS: Final = {
    # The longest that brokers allow unless they are told otherwise: what takes longer would never get done.
    "transaction_timeout_ms": 900_000,
    "batch_size": 128 * 1024,
    "linger_ms": 20,
    # Each transaction waits so long several times: for what the one before has left to do.
    "retry_backoff_ms": 20,
    "metrics_enabled": False,
}
# So many bytes may wait for their broker; kafka-python has no bound of its own.
_UNANSWERED_BYTES: Final = 8 * 1024 * 1024
# What kafka-python keeps of a record beside its bytes.
_OWN_BYTES: Final = 512
_CLOSE_S: Final = 5.0
_NO_KEY: Final = object()


class Record(NamedTuple):
    """A record for a topic; where partition or time are None, the client chooses."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Written(NamedTuple):
    """What came of a task: how many records it wrote; none if an earlier attempt at it had committed."""

    records: int
    repeated: bool = False


def write_once(target: Target, task: int, batch: Batch, records: Iterable[Record]) -> Written:
    """Write a task's records of a batch, unless that was done before.

    A task that comes again has to have the same records; their order may be another.
    """
    remaining = iter(records)
    first = next(remaining, None)
    if first is None:
        return Written(0)
    now = Marker(batch, target.tasks)
    try:
        with _producer(target, task) as producer:
            partitions = len(producer.partitions_for(target.topic))
            if target.tasks > partitions:
                reason = f"{target.tasks} tasks are more than {target.topic} has partitions ({partitions})"
                raise JobError(f"{target.query}: {reason}")
            # Who had this id before cannot commit from here on; what it has committed is known.
            producer.init_transactions()
            if _was_committed(target, task, now):
                return Written(0, repeated=True)
            producer.begin_transaction()
            try:
                written = _send_all(producer, chain([first], remaining))
                offsets = {TopicPartition(target.topic, task): now.as_offset()}
                _within_patience(producer, lambda: producer.send_offsets_to_transaction(offsets, target.group))
                _within_patience(producer, producer.commit_transaction)
            except BaseException:
                # Else readers of committed records wait for the end of the transaction's time.
                with contextlib.suppress(Exception):
                    _within_patience(producer, producer.abort_transaction)
                raise
            return Written(written)
    except (ProducerFencedError, InvalidProducerEpochError) as error:
        reason = "another attempt at it has begun, or its transaction took longer than kafka.transaction.timeout.ms"
        raise JobError(f"{target.query}: task {task} of batch {batch.number} was given up: {reason}") from error
    except KafkaError as error:
        raise JobError(f"{target.query}: task {task} of batch {batch.number} could not be written: {error}") from error


def _was_committed(target: Target, task: int, now: Marker) -> bool:
    """Say whether this was committed before; refuse what cannot follow what was."""
    last = target.marker(task)
    known = [last] if last and last.batch.checkpoint == now.batch.checkpoint else target.markers()
    for marker in known:
        if marker.batch.checkpoint == now.batch.checkpoint and marker.tasks != now.tasks:
            raise JobError(
                f"{target.query}: its checkpoint began with {marker.tasks} tasks, and cannot go on with {now.tasks}:"
                " which records were written is known by task"
            )
    if last is None or last.batch.checkpoint != now.batch.checkpoint:
        return False
    if last.batch.number > now.batch.number:
        raise JobError(
            f"{target.query}: batch {now.batch.number} comes after batch {last.batch.number} was committed:"
            " its checkpoint is older than what was written"
        )
    return last.batch.number == now.batch.number


def _send_all(producer: Any, records: Iterable[Record]) -> int:
    """Send the records and wait until each has arrived; return how many there were."""
    count = unanswered = 0
    futures: list[Any] = []
    for record in records:
        futures.append(_send(producer, record))
        count += 1
        unanswered += _size(record)
        if unanswered > _UNANSWERED_BYTES:
            _wait_for(producer, futures)
            futures, unanswered = [], 0
    _wait_for(producer, futures)
    return count


def _size(record: Record) -> int:
    headers = sum(len(name) + len(content) for name, content in record.headers)
    return _OWN_BYTES + len(record.key or b"") + len(record.value or b"") + headers


def _send(producer: Any, record: Record) -> Any:
    # Without a value it wants a key, be it one that the serializer makes null.
    key = _NO_KEY if record.key is None else record.key
    try:
        return producer.send(
            record.topic, record.value, key, list(record.headers), record.partition, record.timestamp_ms
        )
    except (ValueError, TypeError, MessageSizeTooLargeError, KafkaTimeoutError) as error:
        shown = f"key {record.key!r:.60}, value {record.value!r:.60}"
        raise JobError(f"a record for topic {record.topic} ({shown}) cannot be written: {error}") from error


def _wait_for(producer: Any, futures: Iterable[Any]) -> None:
    producer.flush(_patience_s(producer))
    for future in futures:
        future.get(_patience_s(producer))


def _patience_s(producer: Any) -> float:
    return float(producer.config["delivery_timeout_ms"]) / 1000


def _within_patience(producer: Any, call: Callable[[], object]) -> None:
    """Call what may never return, and give it up after a while: only the marker tells then what came of it."""
    outcome: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_patience_s(producer))
    error = outcome[0] if outcome else KafkaTimeoutError("the broker does not answer")
    if error:
        raise error


@contextlib.contextmanager
def _producer(target: Target, task: int) -> Iterator[Any]:
    own = {
        "transactional_id": f"{target.query}-{task}",
        "key_serializer": _Keys(),
        "partitioner": StickyPartitioner(),
    }
    producer = client(KafkaProducer, {**_DEFAULTS, **target.kafka, **own})
    try:
        yield producer
    finally:
        with contextlib.suppress(KafkaError):
            producer.close(_CLOSE_S)


class _Keys(Serializer):
    """Takes bytes as they are, and makes null of what stands for it."""

    def serialize(self, topic: str, headers: object, data: object) -> object:
        return None if data is _NO_KEY else data
